//! Worker threads: their start, commands, panics and end, seen through real sockets.

use rhythm_net::workers::{
    self, Entrance, Hanging, Inbox, StartError, Watch, Worker, WorkerError, WorkerOptions,
    WorkerThread,
};
use rhythm_net::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    Say(u32),
    Panic,
    /// Wait until the test lets it go on.
    Hang,
    /// Leave by itself.
    Finish,
}

/// What happened on a thread: its index, the restarts before, and what.
type Report = (usize, u32, Said);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Made(Option<String>),
    Obeyed(u32),
    Hangs,
    Dropped,
}

/// Answers each byte with the number of its thread, and reports what it is asked.
struct Teller {
    index: usize,
    restarts: u32,
    reports: Sender<Report>,
    gate: Arc<Mutex<()>>,
    finished: bool,
}

impl Teller {
    fn say(&self, said: Said) {
        // A test that has seen enough hangs up.
        let _ = self.reports.send((self.index, self.restarts, said));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.say(Said::Dropped);
    }
}

impl Worker for Teller {
    type Command = Command;

    fn obey(&mut self, _: &mut dyn Port, command: Command, _: Time) {
        match command {
            Command::Say(what) => self.say(Said::Obeyed(what)),
            Command::Panic => panic!("as the test asked"),
            Command::Hang => {
                self.say(Said::Hangs);
                drop(self.gate.lock().unwrap());
            }
            Command::Finish => self.finished = true,
        }
    }
}

impl Handler for Teller {
    fn opened(&mut self, _: &mut dyn Port, _: Accepted, _: Time) {}

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        let answer = vec![self.index as u8; bytes.len()];
        assert_eq!(port.send(id, &answer), Sent::Taken(bytes.len()));
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, _: Ended, _: Time) {
        port.close(id);
    }

    fn finished(&self) -> bool {
        self.finished
    }
}

struct Tellers {
    workers: Workers<Command>,
    address: SocketAddr,
    reports: Receiver<Report>,
    gate: Arc<Mutex<()>>,
}

fn start(options: WorkerOptions) -> Tellers {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listeners =
        Listener::bind_group(any_port, options.threads, &ListenOptions::default()).unwrap();
    let address = listeners[0].local_address();
    let (sender, reports) = channel();
    let gate = Arc::new(Mutex::new(()));
    let its = Arc::clone(&gate);
    let make = move |thread: WorkerThread<'_, Command>| {
        let teller = Teller {
            gate: Arc::clone(&its),
            index: thread.index,
            restarts: thread.restarts,
            reports: sender.clone(),
            finished: false,
        };
        let name = std::thread::current().name().map(str::to_owned);
        teller.say(Said::Made(name));
        Ok::<_, String>(teller)
    };
    let workers = workers::start(
        &options,
        vec![Entrance::listeners(Role::default(), listeners)],
        make,
    )
    .unwrap();
    Tellers {
        workers,
        address,
        reports,
        gate,
    }
}

impl Tellers {
    /// What comes next, in the order in which it was said.
    fn next(&self) -> Report {
        self.reports.recv_timeout(NEVER).expect("something is said")
    }

    fn inbox(&self, index: usize) -> &Inbox<Command> {
        &self.workers.inboxes()[index]
    }

    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("somebody listens");
        client.set_read_timeout(Some(NEVER)).unwrap();
        client
    }
}

/// Which thread serves a client.
fn served_by(client: &mut TcpStream) -> usize {
    client.write_all(b"?").unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).expect("an answer");
    answer[0].into()
}

#[test]
fn every_thread_is_ready_serves_and_obeys() {
    let tellers = start(WorkerOptions {
        name: "teller",
        threads: 3,
        pin: true,
        ..WorkerOptions::default()
    });
    // All were made before `start` returned.
    let mut made: Vec<Report> = tellers.reports.try_iter().collect();
    made.sort_by_key(|(index, ..)| *index);
    for (index, report) in made.iter().enumerate() {
        assert_eq!(
            *report,
            (index, 0, Said::Made(Some(format!("teller-{index}"))))
        );
    }
    assert_eq!(made.len(), 3);
    let mut seen = [false; 3];
    let mut clients = Vec::new();
    while seen.contains(&false) {
        assert!(
            clients.len() < 1000,
            "the kernel spreads clients over the group"
        );
        let mut client = tellers.client();
        seen[served_by(&mut client)] = true;
        clients.push(client);
    }
    for index in [2, 0, 1] {
        (0..50).for_each(|what| tellers.inbox(index).send(Command::Say(what)));
        for what in 0..50 {
            assert_eq!(tellers.next(), (index, 0, Said::Obeyed(what)));
        }
    }
    (0..3).for_each(|index| tellers.inbox(index).send(Command::Finish));
    tellers.workers.join().expect("all have finished");
    // The last one to know of the sender is gone with the threads.
    assert_eq!(tellers.reports.iter().count(), 3, "each was dropped");
}

#[test]
fn a_thread_that_is_moved_serves_on_and_comes_back_to_its_own_core() {
    for pin in [false, true] {
        let tellers = start(WorkerOptions {
            threads: 2,
            pin,
            ..WorkerOptions::default()
        });
        let mut client = tellers.client();
        let by = served_by(&mut client);
        let inbox = tellers.inbox(by).clone();
        let cores = || inbox.cores().expect("the system says");
        let (own, mut all) = (cores(), Vec::new());
        for index in 0..2 {
            let of_one = tellers.inbox(index).cores().expect("the system says");
            all.extend(of_one.expect("it runs"));
        }
        all.sort_unstable();
        all.dedup();
        assert!(inbox.run_on(&all[..1]).expect("an allowed core"));
        assert_eq!(cores().as_deref(), Some(&all[..1]));
        assert_eq!(served_by(&mut client), by, "its connections stay");
        assert!(inbox.run_on(&all).expect("allowed cores"));
        assert_eq!(cores(), own, "pinned: {pin}");
        for none in [&[][..], &[usize::MAX]] {
            assert!(inbox.run_on(none).is_err());
        }
        tellers.workers.stop();
        tellers.workers.join().expect("stopped in order");
        assert!(!inbox.run_on(&all).expect("nobody is there to move"));
        assert_eq!(cores(), None);
    }
}

#[test]
fn stopping_ends_all_whatever_they_do() {
    let tellers = start(WorkerOptions {
        threads: 2,
        ..WorkerOptions::default()
    });
    let mut client = tellers.client();
    served_by(&mut client);
    tellers.workers.stop();
    tellers.workers.join().expect("stopped in order");
    assert_eq!(
        client.read(&mut [0]).unwrap_or(0),
        0,
        "the connection ended"
    );
    assert!(
        TcpStream::connect(tellers.address).is_err(),
        "nobody listens"
    );
}

#[test]
fn a_panic_costs_a_thread_its_connections_and_nothing_else() {
    let tellers = start(WorkerOptions::default());
    assert!(matches!(tellers.next(), (0, 0, Said::Made(_))));
    for restarts in 1..=3 {
        let mut client = tellers.client();
        served_by(&mut client);
        tellers.inbox(0).send(Command::Panic);
        // Sent before and after the new start: nothing is lost.
        tellers.inbox(0).send(Command::Say(1));
        assert_eq!(tellers.next(), (0, restarts - 1, Said::Dropped));
        assert!(matches!(tellers.next(), (0, now, Said::Made(_)) if now == restarts));
        assert_eq!(tellers.next(), (0, restarts, Said::Obeyed(1)));
        let error = client.read(&mut [0]).expect_err("the connection was reset");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        tellers.inbox(0).send(Command::Say(2));
        assert_eq!(tellers.next(), (0, restarts, Said::Obeyed(2)));
        assert_eq!(served_by(&mut tellers.client()), 0, "the listener stayed");
    }
    tellers.workers.stop();
    tellers.workers.join().expect("it ended in order");
}

#[test]
fn a_thread_that_may_not_start_anew_ends_with_its_panic() {
    let tellers = start(WorkerOptions {
        threads: 2,
        restarts_max: 1,
        ..WorkerOptions::default()
    });
    tellers.inbox(1).send(Command::Panic);
    tellers.inbox(1).send(Command::Panic);
    let restarted = |report: &Report| matches!(report, (1, 1, Said::Made(_)));
    assert!(tellers.reports.iter().any(|report| restarted(&report)));
    assert_eq!(tellers.next(), (1, 1, Said::Dropped));
    tellers.inbox(0).send(Command::Say(7));
    assert_eq!(
        tellers.next(),
        (0, 0, Said::Obeyed(7)),
        "the other serves on"
    );
    tellers.inbox(0).send(Command::Finish);
    assert!(matches!(tellers.workers.join(), Err(WorkerError::Panicked)));
}

#[test]
fn where_one_cannot_be_made_none_runs() {
    let options = WorkerOptions {
        threads: 3,
        ..WorkerOptions::default()
    };
    for panics in [false, true] {
        let (sender, reports) = channel();
        let sender = Mutex::new(sender);
        let make = move |thread: WorkerThread<'_, Command>| match thread.index {
            1 if panics => panic!("as the test asked"),
            1 => Err("no device".to_owned()),
            index => Ok(Teller {
                index,
                restarts: 0,
                gate: Arc::default(),
                reports: sender.lock().unwrap().clone(),
                finished: false,
            }),
        };
        match workers::start(&options, Vec::new(), make) {
            Err(StartError::Handler(error)) if !panics => assert_eq!(error, "no device"),
            Err(StartError::Panicked) if panics => {}
            other => panic!("{:?}", other.map(drop)),
        }
        let dropped = reports.iter().filter(|(.., said)| *said == Said::Dropped);
        assert_eq!(dropped.count(), 2, "those that were made are gone");
    }
}

/// Says at which listener its clients arrived.
struct Doorman(Arc<Mutex<Vec<Role>>>);

impl Worker for Doorman {
    type Command = std::convert::Infallible;
}

impl Handler for Doorman {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, _: Time) {
        self.0.lock().unwrap().push(accepted.role);
        port.close(accepted.connection);
    }

    fn received(&mut self, _: &mut dyn Port, id: ConnectionId, _: &[u8], _: Time) {
        unreachable!("{id:?} was closed");
    }

    fn ended(&mut self, _: &mut dyn Port, id: ConnectionId, _: Ended, _: Time) {
        unreachable!("{id:?} was closed");
    }
}

#[test]
fn one_handler_serves_listeners_of_several_roles() {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bind = || Listener::bind(any_port, &ListenOptions::default()).unwrap();
    let listeners = [(Role(5), bind()), (Role(9), bind())];
    let addresses = listeners
        .each_ref()
        .map(|(role, one)| (*role, one.local_address()));
    let listeners = listeners.map(|(role, one)| Entrance::listeners(role, vec![one]));
    let roles = Arc::default();
    let make = {
        let roles = Arc::clone(&roles);
        move |_: WorkerThread<'_, _>| Ok::<_, String>(Doorman(Arc::clone(&roles)))
    };
    let workers = workers::start(&WorkerOptions::default(), listeners.into(), make).unwrap();
    for (role, address) in addresses {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(NEVER)).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert_eq!(roles.lock().unwrap().pop(), Some(role));
    }
    workers.stop();
    workers.join().unwrap();
}

#[test]
fn a_thread_that_panics_after_each_start_ails() {
    let tellers = start(WorkerOptions::default());
    let inbox = tellers.inbox(0);
    assert!(matches!(tellers.next(), (0, 0, Said::Made(_))));
    // So often until it pauses for the longest time.
    for restarts in 1..=8 {
        assert!(!inbox.is_ailing(clock::monotonic()), "after {restarts}");
        inbox.send(Command::Panic);
        assert_eq!(tellers.next(), (0, restarts - 1, Said::Dropped));
        assert!(matches!(tellers.next(), (0, now, Said::Made(_)) if now == restarts));
    }
    let now = clock::monotonic();
    assert!(inbox.is_ailing(now));
    assert!(
        !inbox.is_ailing(now + Duration::from_secs(3600)),
        "it is well again"
    );
    tellers.workers.stop();
    tellers.workers.join().expect("it ended in order");
}

#[test]
fn a_worker_that_does_not_turn_is_seen_to_hang_until_it_does() {
    const INTERVALS: u32 = 2;
    let options = WorkerOptions {
        threads: 2,
        ..WorkerOptions::default()
    };
    let tellers = start(options);
    let inboxes = tellers.workers.inboxes();
    let mut watch = Watch::default();
    let mut hanging = |looks| {
        (0..looks).for_each(|_| watch.look(inboxes));
        watch.hanging(inboxes, INTERVALS)
    };
    // They wait for something to do, which they may for ever.
    let begun = clock::monotonic();
    while inboxes.iter().any(|inbox| inbox.turn_began().is_some()) {
        assert!(clock::monotonic().since(begun) < NEVER);
    }
    assert_eq!(hanging(9), None);
    let held = tellers.gate.lock().unwrap();
    inboxes[1].send(Command::Hang);
    while tellers.next() != (1, 0, Said::Hangs) {}
    assert_eq!(hanging(INTERVALS), None);
    let since = inboxes[1].turn_began().expect("it is at a turn");
    assert!(since >= begun && inboxes[0].turn_began().is_none());
    assert_eq!(hanging(1), Some(Hanging { worker: 1, since }));
    drop(held);
    while inboxes[1].turn_began().is_some() {
        assert!(clock::monotonic().since(begun) < NEVER);
    }
    assert_eq!(hanging(0), None);
    tellers.workers.stop();
    tellers.workers.join().expect("it ended in order");
}
