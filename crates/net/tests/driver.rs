//! A handler that echoes, driven on real loopback sockets.
//!
//! Each test runs the driver on its own thread turn by turn, so clients are plain blocking sockets.
//! Nothing sleeps: a client's read, or a message from the handler, says that something happened.

use rhythm_net::*;
use rustix::net::{AddressFamily, SendFlags, SocketType};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the handler was told, for the tests to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Opened(SocketAddr),
    Received(usize),
    Ended(Ended),
    /// A send was not taken whole.
    Full,
    Writable,
    Connected,
    Notified(Token),
    Ticked,
    ListenersClosed,
    /// The answer to a command.
    Done(&'static str),
}

/// What a test asks of the handler, through a waker.
enum Command {
    /// Close the connection when the next bytes arrive, answering `bye`.
    CloseOnInput,
    /// The same, by abort.
    AbortOnInput,
    /// Pause every connection when the next bytes arrive, which are sent back, until the turn ends.
    PauseOnInput,
    /// Pause every connection.
    Pause,
    Resume,
    Connect(Peer),
    WakeIn(Duration),
    /// Keep the driver busy until the other end is dropped.
    Hold(Receiver<()>),
    StopAccepting,
    Finish,
}

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

const COMMANDS: Token = Token(7);

const ROLE: Role = Role(3);

struct Echo {
    events: Sender<Event>,
    commands: Receiver<Command>,
    /// What was not yet taken, by connection.
    unsent: HashMap<ConnectionId, Vec<u8>>,
    ended: Vec<ConnectionId>,
    on_input: Option<Command>,
    /// Every connection is to be resumed when the turn ends.
    resumes: bool,
    /// When `idle` was told, as long as the turn has not ended.
    idle_at: Option<Time>,
    wake_at: Option<Time>,
    finished: bool,
}

impl Echo {
    fn tell(&self, event: Event) {
        // A test that has seen enough hangs up.
        let _ = self.events.send(event);
    }

    fn forget(&mut self, connection: ConnectionId) {
        self.unsent.remove(&connection);
        self.ended.retain(|id| *id != connection);
    }

    /// Sends what is held, holding back the reading of what comes while something is.
    fn flush(&mut self, port: &mut dyn Port, connection: ConnectionId) {
        let Some(unsent) = self.unsent.get_mut(&connection) else {
            return;
        };
        match port.send(connection, unsent) {
            Sent::Taken(taken) => {
                unsent.drain(..taken);
            }
            Sent::Gone => return self.forget(connection),
        }
        if !unsent.is_empty() {
            port.pause(connection);
            self.tell(Event::Full);
        } else if self.ended.contains(&connection) {
            port.close(connection);
            self.forget(connection);
        } else {
            port.resume(connection);
        }
    }

    fn obey(&mut self, port: &mut dyn Port, command: Command, now: Time) {
        let done = match command {
            Command::CloseOnInput | Command::AbortOnInput | Command::PauseOnInput => {
                self.on_input = Some(command);
                "on input"
            }
            Command::Pause => {
                self.unsent.keys().for_each(|id| port.pause(*id));
                "pause"
            }
            Command::Resume => {
                self.unsent.keys().for_each(|id| port.resume(*id));
                "resume"
            }
            Command::Connect(peer) => match port.connect(&peer) {
                Ok(id) => {
                    self.unsent.insert(id, b"hello".to_vec());
                    assert_eq!(port.send(id, b"too early"), Sent::Taken(0));
                    "connect"
                }
                Err(error) if error.kind() == ErrorKind::QuotaExceeded => "too many",
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => "refused",
                Err(error) => panic!("{error}"),
            },
            Command::WakeIn(wait) => {
                self.wake_at = Some(now + wait);
                "wake"
            }
            Command::Hold(until) => {
                self.tell(Event::Done("hold"));
                let _ = until.recv();
                "held"
            }
            Command::StopAccepting => {
                port.stop_accepting();
                "stop"
            }
            Command::Finish => {
                self.finished = true;
                "finish"
            }
        };
        self.tell(Event::Done(done));
    }
}

impl Handler for Echo {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        assert!(
            !self.unsent.contains_key(&accepted.connection),
            "an id is used once"
        );
        assert_eq!(accepted.role, ROLE, "the listener's");
        self.unsent.insert(accepted.connection, Vec::new());
        self.tell(Event::Opened(accepted.peer));
    }

    fn listeners_closed(&mut self) {
        self.tell(Event::ListenersClosed);
    }

    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], _: Time) {
        self.tell(Event::Received(bytes.len()));
        match self.on_input.take() {
            Some(Command::CloseOnInput) => {
                assert_eq!(port.send(connection, b"bye"), Sent::Taken(3));
                port.close(connection);
                assert_eq!(port.send(connection, b"more"), Sent::Gone);
                self.forget(connection);
            }
            Some(Command::PauseOnInput) => {
                assert_eq!(port.send(connection, bytes), Sent::Taken(bytes.len()));
                self.unsent.keys().for_each(|id| port.pause(*id));
                self.resumes = true;
            }
            Some(_) => {
                port.abort(connection);
                assert_eq!(port.send(connection, b"more"), Sent::Gone);
                self.forget(connection);
            }
            None => {
                self.unsent
                    .get_mut(&connection)
                    .expect("it was opened")
                    .extend_from_slice(bytes);
                self.flush(port, connection);
            }
        }
    }

    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, _: Time) {
        assert!(
            self.unsent.contains_key(&connection),
            "told of a connection we have"
        );
        self.tell(Event::Ended(how));
        match how {
            Ended::PeerFinished => {
                self.ended.push(connection);
                self.flush(port, connection);
            }
            Ended::Failed(_) => self.forget(connection),
        }
    }

    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        self.tell(Event::Writable);
        self.flush(port, connection);
    }

    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        self.tell(Event::Connected);
        self.flush(port, connection);
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        self.tell(Event::Notified(token));
        while let Ok(command) = self.commands.try_recv() {
            self.obey(port, command, now);
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        let before = self.idle_at.replace(now);
        assert_eq!(before, None, "told of the end of the turn before");
        if std::mem::take(&mut self.resumes) {
            self.unsent.keys().for_each(|id| port.resume(*id));
        }
    }

    fn turn_ended(&mut self, now: Time) {
        let began = self.idle_at.take();
        assert!(
            began.is_some_and(|at| at <= now),
            "once a turn, behind idle"
        );
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        assert!(self.wake_at.is_some_and(|at| at <= now), "never early");
        self.wake_at = None;
        self.tell(Event::Ticked);
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn finished(&self) -> bool {
        self.finished
    }
}

/// A driver with an echo handler on a thread.
struct Server {
    address: SocketAddr,
    events: Receiver<Event>,
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

fn serve(options: DriverOptions) -> Server {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Listener::bind(any_port, &ListenOptions::default()).expect("a free port");
    let address = listener.local_address();
    let mut driver = Driver::new(&options).expect("few files are open");
    driver
        .add_listener(listener, ROLE)
        .expect("memory for a listener");
    let waker = driver.waker(COMMANDS).expect("few files are open");
    let (event_sender, events) = channel();
    let (commands, command_receiver) = channel();
    let thread = std::thread::spawn(move || {
        let mut echo = Echo {
            events: event_sender,
            commands: command_receiver,
            unsent: HashMap::new(),
            ended: Vec::new(),
            on_input: None,
            resumes: false,
            idle_at: None,
            wake_at: None,
            finished: false,
        };
        driver.run(&mut echo).expect("waiting works");
    });
    Server {
        address,
        events,
        commands,
        waker,
        thread: Some(thread),
    }
}

impl Server {
    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("the server listens");
        client.set_read_timeout(Some(NEVER)).expect("a duration");
        client
    }

    /// Waits until the handler has obeyed.
    fn command(&self, command: Command, done: &'static str) {
        self.commands.send(command).expect("the driver runs");
        self.waker.wake();
        self.wait_for(|event| *event == Event::Done(done));
    }

    /// Skips events until one fits, and returns it.
    fn wait_for(&self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.events.recv_timeout(NEVER).expect("an event that fits");
            if fits(&event) {
                return event;
            }
        }
    }

    fn finish(mut self) {
        self.command(Command::Finish, "finish");
        self.thread
            .take()
            .expect("it ran")
            .join()
            .expect("the handler's assertions");
    }
}

fn echoed(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).expect("the server reads");
    let mut answer = vec![0; bytes.len()];
    client.read_exact(&mut answer).expect("the server echoes");
    assert!(answer == bytes, "the same bytes come back");
}

fn read_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an orderly end");
    rest
}

#[test]
fn bytes_come_back_however_they_are_split() {
    let server = serve(DriverOptions {
        receive_bytes: 100,
        ..DriverOptions::default()
    });
    let mut client = server.client();
    client.set_nodelay(true).expect("a TCP socket");
    let peer = client.local_addr().expect("a connected socket");
    server.wait_for(|event| *event == Event::Opened(peer));
    for chunk in b"byte by byte".chunks(1) {
        echoed(&mut client, chunk);
        assert_eq!(server.wait_for(|_| true), Event::Received(1));
    }
    // More than the driver's buffer takes at once.
    let long: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
    echoed(&mut client, &long);
    assert!(matches!(
        server.wait_for(|_| true),
        Event::Received(1..=100)
    ));
    server.finish();
}

#[test]
fn a_client_that_finished_sending_still_gets_its_answer() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    client.write_all(b"last words").expect("the server reads");
    client
        .shutdown(Shutdown::Write)
        .expect("a connected socket");
    assert_eq!(read_to_end(&mut client), b"last words");
    server.wait_for(|event| *event == Event::Ended(Ended::PeerFinished));
    server.finish();
}

/// Makes dropping the socket reset the connection.
fn reset(client: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("a TCP socket");
}

#[test]
fn a_reset_is_told_once_even_while_paused() {
    for paused in [false, true] {
        let server = serve(DriverOptions::default());
        let client = server.client();
        server.wait_for(|event| matches!(event, Event::Opened(_)));
        if paused {
            server.command(Command::Pause, "pause");
        }
        reset(client);
        let failed = Event::Ended(Ended::Failed(ErrorKind::ConnectionReset));
        assert_eq!(
            server.wait_for(|event| matches!(event, Event::Ended(_))),
            failed
        );
        // Others are served as before, and the handler heard nothing more of the one that failed.
        let mut other = server.client();
        echoed(&mut other, b"still there");
        let Server { events, .. } = &server;
        assert!(
            events
                .try_iter()
                .all(|event| !matches!(event, Event::Ended(_)))
        );
        server.finish();
    }
}

#[test]
fn a_paused_connection_is_not_read_until_resumed() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    server.wait_for(|event| matches!(event, Event::Opened(_)));
    server.command(Command::Pause, "pause");
    client.write_all(b"unread").expect("the kernel takes it");
    client
        .shutdown(Shutdown::Write)
        .expect("a connected socket");
    // Another client's bytes make the driver turn; were the first one read, its event would come
    // before the other's.
    let mut other = server.client();
    echoed(&mut other, b"between");
    server.wait_for(|event| matches!(event, Event::Opened(_)));
    assert_eq!(
        server.wait_for(|event| matches!(event, Event::Received(_) | Event::Ended(_))),
        Event::Received(7)
    );
    server.command(Command::Resume, "resume");
    assert_eq!(read_to_end(&mut client), b"unread");
    server.finish();
}

#[test]
fn what_came_during_a_pause_within_a_turn_is_read_after_it() {
    let server = serve(DriverOptions::default());
    let mut clients = [server.client(), server.client()];
    for _ in &clients {
        server.wait_for(|event| matches!(event, Event::Opened(_)));
    }
    server.command(Command::PauseOnInput, "on input");
    // The driver learns of both in one turn: one is read, the other is paused by then.
    let (let_go, held) = channel();
    server.command(Command::Hold(held), "hold");
    for client in &mut clients {
        client.write_all(b"both").expect("the kernel takes it");
        client.shutdown(Shutdown::Write).expect("a socket");
    }
    drop(let_go);
    for client in &mut clients {
        assert_eq!(read_to_end(client), b"both");
    }
    server.finish();
}

#[test]
fn what_stands_behind_urgent_data_is_read_without_more_coming() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    server.wait_for(|event| matches!(event, Event::Opened(_)));
    server.command(Command::Pause, "pause");
    client.write_all(b"before").expect("the kernel takes it");
    rustix::net::send(&client, b"!", SendFlags::OOB).expect("the kernel takes it");
    client.write_all(b"behind").expect("the kernel takes it");
    // So that all of it is there when the first is read.
    let mut other = server.client();
    echoed(&mut other, b"between");
    server.command(Command::Resume, "resume");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).expect("both come back");
    assert_eq!(&answer, b"beforebehind");
    server.finish();
}

#[test]
fn a_reader_that_stalls_is_not_sent_more_than_fits_and_gets_all_in_the_end() {
    const LENGTH: usize = 24 << 20;
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    let mut writer = client.try_clone().expect("few files are open");
    let writing = std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..LENGTH).map(|n| (n / 251) as u8).collect();
        writer
            .write_all(&bytes)
            .expect("the server reads in the end");
        writer
            .shutdown(Shutdown::Write)
            .expect("a connected socket");
    });
    // The echo fills both sockets' buffers while nobody reads; the driver goes on serving others.
    server.wait_for(|event| *event == Event::Full);
    let mut other = server.client();
    echoed(&mut other, b"beside");
    let all = read_to_end(&mut client);
    writing.join().expect("the writer's assertions");
    assert_eq!(all.len(), LENGTH);
    assert!(
        all.iter()
            .enumerate()
            .all(|(n, byte)| *byte == (n / 251) as u8)
    );
    server.wait_for(|event| *event == Event::Writable);
    server.finish();
}

#[test]
fn closing_with_unread_input_still_delivers_the_answer() {
    let server = serve(DriverOptions {
        receive_bytes: 16,
        ..DriverOptions::default()
    });
    let mut client = server.client();
    server.command(Command::CloseOnInput, "on input");
    // The handler closes upon the first 16 bytes. A plain close would reset the connection for the
    // rest, and lose the answer.
    client
        .write_all(&[b'x'; 100_000])
        .expect("the kernel takes it");
    assert_eq!(read_to_end(&mut client), b"bye");
    drop(client);
    server.finish();
}

#[test]
fn a_closed_connection_whose_client_stays_is_dropped_in_time() {
    let linger = Duration::from_millis(20);
    let server = serve(DriverOptions {
        linger,
        connections_max: 1,
        ..DriverOptions::default()
    });
    let mut client = server.client();
    server.command(Command::CloseOnInput, "on input");
    client.write_all(b"please").expect("the server reads");
    assert_eq!(read_to_end(&mut client), b"bye");
    // The client keeps its end open. The only slot becomes free all the same.
    let mut other = server.client();
    echoed(&mut other, b"my turn");
    drop(client);
    server.finish();
}

#[test]
fn an_aborted_connection_is_reset() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    server.command(Command::AbortOnInput, "on input");
    client.write_all(b"please").expect("the server reads");
    let error = client.read(&mut [0; 8]).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    server.finish();
}

#[test]
fn a_thousand_connections_each_get_their_own_bytes() {
    resource::raise_open_files().expect("no privilege is needed");
    let server = serve(DriverOptions::default());
    let mut clients: Vec<TcpStream> = (0..1000).map(|_| server.client()).collect();
    for round in 0..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            client
                .write_all(format!("{round} {n:4}").as_bytes())
                .expect("the server reads");
        }
        for (n, client) in clients.iter_mut().enumerate() {
            let mut answer = [0; 6];
            client.read_exact(&mut answer).expect("the server echoes");
            assert_eq!(answer, format!("{round} {n:4}").as_bytes());
        }
    }
    server.finish();
}

#[test]
fn clients_beyond_the_bound_wait_for_a_place() {
    let server = serve(DriverOptions {
        connections_max: 2,
        ..DriverOptions::default()
    });
    let mut first = server.client();
    let mut second = server.client();
    echoed(&mut first, b"in");
    echoed(&mut second, b"in");
    let mut third = server.client();
    third.write_all(b"may I?").expect("the kernel takes it");
    echoed(&mut second, b"still in");
    assert_eq!(
        server
            .events
            .try_iter()
            .filter(|event| matches!(event, Event::Opened(_)))
            .count(),
        2
    );
    drop(first);
    let mut answer = [0; 6];
    third.read_exact(&mut answer).expect("its turn has come");
    assert_eq!(&answer, b"may I?");
    server.finish();
}

#[test]
fn an_outgoing_connection_is_made_and_used() {
    let backend = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let server = serve(DriverOptions {
        outgoing_max: 1,
        ..DriverOptions::default()
    });
    let address = backend.local_addr().expect("a bound socket");
    server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
    server.wait_for(|event| *event == Event::Connected);
    server.command(Command::Connect(Peer::tcp("backend", address)), "too many");
    let (mut stream, _) = backend.accept().expect("the server connects");
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).expect("the handler sends");
    assert_eq!(&greeting, b"hello");
    echoed(&mut stream, b"and back");
    drop(stream);
    server.wait_for(|event| matches!(event, Event::Ended(_)));
    server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
    server.finish();
}

#[test]
fn a_connection_to_a_unix_socket_is_made_and_used() {
    let name = format!("rhythm-net-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let backend = UnixListener::bind(&path).expect("a free path");
    let server = serve(DriverOptions::default());
    server.command(Command::Connect(Peer::unix(&path)), "connect");
    server.wait_for(|event| *event == Event::Connected);
    let (mut stream, _) = backend.accept().expect("the server connects");
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).expect("the handler sends");
    assert_eq!(&greeting, b"hello");
    let bytes = vec![7; 1 << 20];
    let sent = bytes.clone();
    let mut writer = stream.try_clone().expect("few files are open");
    let sender = std::thread::spawn(move || writer.write_all(&sent));
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).expect("all is sent back");
    assert_eq!(back, bytes);
    sender
        .join()
        .expect("it does not panic")
        .expect("all is taken");
    drop(stream);
    server.wait_for(|event| matches!(event, Event::Ended(_)));
    // Nobody listens any more.
    drop(backend);
    server.command(Command::Connect(Peer::unix(&path)), "refused");
    server.finish();
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_refused_outgoing_connection_fails_as_such() {
    let server = serve(DriverOptions::default());
    // Bound, so nobody else gets the port, but not listening.
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
        .expect("few files are open");
    rustix::net::bind(&socket, &any_port).expect("a free port");
    let address = rustix::net::getsockname(&socket)
        .and_then(SocketAddr::try_from)
        .expect("a bound socket");
    server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
    let refused = Event::Ended(Ended::Failed(ErrorKind::ConnectionRefused));
    assert_eq!(
        server.wait_for(|event| matches!(event, Event::Connected | Event::Ended(_))),
        refused
    );
    server.finish();
}

#[test]
fn a_wake_up_comes_with_nothing_else_happening() {
    let server = serve(DriverOptions::default());
    for wait in [
        Duration::ZERO,
        Duration::from_micros(300),
        Duration::from_millis(3),
    ] {
        server.command(Command::WakeIn(wait), "wake");
        server.wait_for(|event| *event == Event::Ticked);
    }
    server.finish();
}

#[test]
fn a_waker_wakes_from_any_thread_with_its_token() {
    let server = serve(DriverOptions::default());
    let waker = server.waker.clone();
    for _ in 0..100 {
        let waker = waker.clone();
        std::thread::spawn(move || waker.wake())
            .join()
            .expect("waking cannot fail");
        assert_eq!(server.wait_for(|_| true), Event::Notified(COMMANDS));
    }
    server.finish();
}

#[test]
fn after_stop_accepting_those_who_wait_are_served_and_others_refused() {
    let server = serve(DriverOptions::default());
    let mut before = server.client();
    echoed(&mut before, b"in");
    let (release, until) = channel();
    server.command(Command::Hold(until), "hold");
    let mut waiting: Vec<TcpStream> = (0..200).map(|_| server.client()).collect();
    // The handler finds this one in the same turn, with all of them waiting.
    server
        .commands
        .send(Command::StopAccepting)
        .expect("the driver runs");
    drop(release);
    server.wait_for(|event| *event == Event::Done("stop"));
    for client in &mut waiting {
        echoed(client, b"in time");
    }
    // The listener is closed at the end of the turn in which it was stopped; the echoes came from
    // later ones.
    let error = TcpStream::connect(server.address).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    echoed(&mut before, b"still in");
    server.finish();
}

#[test]
fn listeners_are_closed_when_all_who_wait_have_found_a_place() {
    let server = serve(DriverOptions {
        connections_max: 1,
        ..DriverOptions::default()
    });
    let mut first = server.client();
    echoed(&mut first, b"in");
    let mut second = server.client();
    server.command(Command::StopAccepting, "stop");
    // In turns after the one in which it was stopped.
    echoed(&mut first, b"still in");
    echoed(&mut first, b"and still");
    assert!(!(server.events.try_iter()).any(|event| event == Event::ListenersClosed));
    drop(first);
    echoed(&mut second, b"my turn");
    // Only where there is a place it can be seen that nobody waits for one.
    drop(second);
    server.wait_for(|event| *event == Event::ListenersClosed);
    server.finish();
}

#[test]
fn nothing_is_done_for_who_has_left_while_a_crowd_waits() {
    let server = serve(DriverOptions::default());
    let (release, until) = channel();
    server.command(Command::Hold(until), "hold");
    // As many as are let in in the first turn; those behind them are a crowd in the next two.
    for _ in 0..64 {
        let mut client = server.client();
        client.write_all(b"gone").expect("the kernel takes it");
    }
    let mut clients: Vec<TcpStream> = (0..136).map(|_| server.client()).collect();
    drop(release);
    for client in &mut clients {
        echoed(client, b"here");
    }
    let events: Vec<Event> = server.events.try_iter().collect();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Received(_))), 136);
    let has_failed = |event: &Event| matches!(event, Event::Ended(Ended::Failed(_)));
    assert_eq!(count(has_failed), 64);
    server.finish();
}
