//! Accelerators that a monitor finds: agents lend them and borrow them, in threads of this process.

use rhythm_venice::accelerator::borrower::{Accelerator, Error, Job, Sharing};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::fft::{Complex, to_bytes};
use rhythm_venice::accelerator::request::Kind as Mailbox;
use rhythm_venice::agent::client::{Client, Event};
use rhythm_venice::agent::{self, BorrowedAccelerator, Lenders};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::{self, policy::ByDistanceAndLoad};
use rhythm_venice::remote::Place;
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::secret::Secret;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const POINTS: usize = 64;
const KIB: usize = 1024;

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn secret() -> Secret {
    Secret::of(b"a secret of this test")
}

fn donor(count: usize) -> Accelerators {
    let options = Options {
        listen: any_port(),
        accelerators: vec![(Mailbox::Fft, count)],
        memory: 64 << 20,
        connections: 32,
        offer: None,
    };
    Accelerators::start(&options).expect("a port")
}

/// A monitor, an agent that borrows, and agents that lend.
struct Cluster {
    monitor: Option<monitor::server::Server>,
    borrower: Option<agent::server::Server>,
    lenders: Vec<agent::server::Server>,
    folder: TempDir,
}

impl Cluster {
    /// With so many accelerators at each of these.
    fn start(lenders: &[usize]) -> Cluster {
        let folder = tempfile::tempdir().expect("a folder");
        let options = monitor::server::Options {
            listen: any_port(),
            state: monitor::server::StatePlace::Folder(folder.path().join("state")),
            trust: monitor::server::Trust::Secret(secret()),
            settings: monitor::Settings {
                heartbeat: Duration::from_millis(50),
                ..monitor::Settings::default()
            },
            policy: Box::new(ByDistanceAndLoad),
            admin: None,
            admin_hosts: Vec::new(),
        };
        let monitor = monitor::server::Server::start(options).expect("a monitor");
        let mut cluster = Cluster {
            monitor: Some(monitor),
            borrower: None,
            lenders: Vec::new(),
            folder,
        };
        cluster.borrower = Some(cluster.agent("borrower", &[], Lenders::default()));
        for (number, count) in lenders.iter().enumerate() {
            let lender = Lenders::default().and(&[Kind::Fft], Box::new(donor(*count)));
            let lends = [Share::of_all(Kind::Fft, *count as u64)];
            let agent = cluster.agent(&format!("lender{number}"), &lends, lender);
            cluster.lenders.push(agent);
        }
        cluster
    }

    fn agent(&self, name: &str, lends: &[Share], lenders: Lenders) -> agent::server::Server {
        let options = agent::server::Options {
            monitors: vec![self.monitor.as_ref().expect("it runs").address()],
            trust: agent::server::Trust::Secret(secret()),
            settings: agent::Settings {
                name: name.parse().expect("a name"),
                monitors: 1,
                place: String::new(),
                probe: any_port(),
                lends: lends.to_vec(),
                keep_free: 0,
                reclaim_within: Duration::from_millis(300),
                borrow_within: Duration::from_secs(20),
            },
            socket: self.socket(name),
            socket_mode: 0o600,
            admin: None,
            admin_hosts: Vec::new(),
        };
        agent::server::Server::start(options, lenders).expect("an agent")
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.sock"))
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket("borrower")).expect("an agent")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for agent in self.lenders.drain(..).chain(self.borrower.take()) {
            agent.handle().stop();
            let _ = agent.join();
        }
        if let Some(monitor) = self.monitor.take() {
            monitor.handle().stop();
            let _ = monitor.join();
        }
    }
}

fn points() -> Vec<u8> {
    let numbers: Vec<_> = (0..POINTS).map(|at| Complex::new(at as f32, 1.0)).collect();
    to_bytes(&numbers)
}

fn job(points: &[u8]) -> Job<'_> {
    let inverse = false;
    Job::Transform { inverse, points }
}

fn borrow(client: &Client, sharing: Sharing) -> Result<BorrowedAccelerator, String> {
    let asker = client.asker();
    let borrowed = BorrowedAccelerator::borrow(&asker, Mailbox::Fft, sharing, 64 * KIB, PATIENCE);
    borrowed.map_err(|error| error.to_string())
}

#[test]
fn accelerators_are_borrowed_alone_and_in_turn_and_come_back() {
    let cluster = Cluster::start(&[2]);
    let client = cluster.client();
    let points = points();
    let mut own = Accelerator::local(Mailbox::Fft, 64 * KIB).expect("it is allowed");
    let right = own.run(&job(&points)).expect("it is done");
    for _ in 0..3 {
        let mut alone = borrow(&client, Sharing::Exclusive).expect("one is idle");
        let mut shared = [(); 3].map(|()| borrow(&client, Sharing::Shared).expect("one is left"));
        assert!(alone.run(&job(&points)).expect("it is done") == right);
        for one in &mut shared {
            assert!(one.run(&job(&points)).expect("it is done") == right);
        }
        // The last one is shared.
        let refused = borrow(&client, Sharing::Exclusive).expect_err("none is idle");
        assert!(refused.contains("fft that nobody shares"), "{refused}");
        drop(shared);
        // What was just given back is lent at once: it is being undone, and waited for.
        let mut other = borrow(&client, Sharing::Exclusive).expect("it came back");
        assert!(other.run(&job(&points)).expect("it is done") == right);
        let refused = borrow(&client, Sharing::Shared).expect_err("all are lent");
        assert!(
            refused.contains("no other node has an accelerator fft"),
            "{refused}"
        );
    }
    let aes = BorrowedAccelerator::borrow(
        &client.asker(),
        Mailbox::Aes,
        Sharing::Shared,
        KIB,
        PATIENCE,
    );
    let refused = aes.expect_err("nobody has one").to_string();
    assert!(
        refused.contains("no other node has an accelerator aes"),
        "{refused}"
    );
}

#[test]
fn a_donor_that_leaves_takes_its_accelerator_and_another_one_is_had() {
    let mut cluster = Cluster::start(&[1, 1]);
    let client = cluster.client();
    let points = points();
    let mut fft = borrow(&client, Sharing::Exclusive).expect("one is idle");
    fft.run(&job(&points)).expect("it is done");
    let mut other = borrow(&client, Sharing::Exclusive).expect("the other's");
    assert_ne!(fft.donor(), other.donor());
    // Who lends the first is not known by name: both are asked in turn.
    let first = cluster.lenders.remove(0);
    first.handle().leave();
    first.join().expect("it ends well");
    let broken = loop {
        match client.events().recv_timeout(PATIENCE).expect("it is told") {
            Event::Broken { loan, .. } => break loan,
            Event::ReclaimWanted { .. } => {}
            Event::AgentGone => panic!("the agent is there"),
        }
    };
    let (lost, left) = match broken == fft.loan() {
        true => (&mut fft, &mut other),
        false => (&mut other, &mut fft),
    };
    assert_eq!(broken, lost.loan());
    let error = lost.run(&job(&points)).expect_err("it is taken");
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    left.run(&job(&points)).expect("nobody took that");
}

#[test]
fn a_loan_is_used_by_its_key_as_it_was_granted_and_not_after_it_is_over() {
    let donor = donor(1);
    let place = Place::Tcp(donor.address());
    let key = |byte| LoanKey([byte; 32]);
    let connect =
        |byte, sharing| Accelerator::connect(&place, &key(byte), Mailbox::Fft, sharing, 64 * KIB);
    let refused = |byte, sharing| match connect(byte, sharing) {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    // Without a loan nobody comes in.
    assert!(refused(1, Sharing::Shared).contains("the key is another"));
    let alone = (Mailbox::Fft, Sharing::Exclusive);
    donor.grant(LoanId(1), alone, key(1)).expect("there is one");
    assert!(
        donor.grant(LoanId(1), alone, key(2)).is_err(),
        "it is there"
    );
    let aes = (Mailbox::Aes, Sharing::Shared);
    assert!(
        donor.grant(LoanId(2), aes, key(2)).is_err(),
        "there is none"
    );
    assert!(
        refused(1, Sharing::Shared).contains("alone"),
        "as it was granted"
    );
    let mut first = connect(1, Sharing::Exclusive).expect("its own");
    assert!(refused(1, Sharing::Exclusive).contains("in use"));
    let points = points();
    first.run(&job(&points)).expect("it is done");
    assert!(donor.revoke(LoanId(1)) && !donor.revoke(LoanId(1)));
    let next = (Mailbox::Fft, Sharing::Shared);
    donor.grant(LoanId(3), next, key(3)).expect("there is one");
    // At once, though who had it may not have noticed.
    let mut second = connect(3, Sharing::Shared).expect("it is free soon");
    assert!(
        refused(3, Sharing::Shared).contains("in use"),
        "it is one share"
    );
    second.run(&job(&points)).expect("it is done");
    assert!(first.run(&job(&points)).is_err());
    assert!(refused(1, Sharing::Exclusive).contains("the key is another"));
    drop((first, second));
    let start = Instant::now();
    while donor.borrowers() > 0 {
        assert!(start.elapsed() < PATIENCE, "they are gone");
        std::thread::sleep(Duration::from_millis(5));
    }
}
