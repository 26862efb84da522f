//! What this program is when it is started as a part of a cluster. Each says on its output that it
//! is there, and ends when its input does, so that none outlives the test.

use rhythm_net::signal::{self, Signal};
use rhythm_venice::accelerator::donor::{Accelerators, Options};
use rhythm_venice::accelerator::request::Kind;
use rhythm_venice::agent::client::Client;
use rhythm_venice::agent::{self, Lender, NoRoom};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::monitor::{self, policy::ByDistanceAndLoad};
use rhythm_venice::resource::Share;
use rhythm_venice::secret::Secret;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The first argument of a part.
pub(crate) const PART: &str = "--part";
/// What each agent lends, in bytes.
pub(crate) const SIZE: u64 = 1 << 20;

/// Seconds that a monitor's lease in etcd lasts.
pub(crate) const LEASE: u64 = 3;

/// A list of what is lent.
#[derive(Default)]
struct List(Vec<(LoanId, Share)>);

impl Lender for List {
    fn grant(&mut self, loan: LoanId, share: Share, _: &LoanKey) -> Result<SocketAddr, NoRoom> {
        self.0.push((loan, share));
        Ok(([127, 0, 0, 1], 9).into())
    }

    fn revoke(&mut self, loan: LoanId) {
        self.0.retain(|(id, _)| *id != loan);
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        self.0.clone()
    }
}

/// Runs a part.
pub(crate) fn run(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["monitor", listen, state, key] => monitor(listen, state, key),
        ["agent", name, monitors, socket, key] => agent(name, monitors, socket, key),
        ["borrower", socket, bytes] => borrower(socket, bytes),
        ["accelerators", key] => accelerators(key),
        _ => panic!("no part: {args:?}"),
    }
    ExitCode::SUCCESS
}

/// Says that it is there, and waits for the end of the input.
fn stay(said: &str) {
    println!("{said}");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn secret(key: &str) -> Secret {
    Secret::read(Path::new(key)).expect("a secret")
}

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn monitor(listen: &str, state: &str, key: &str) {
    let options = monitor::server::Options {
        listen: listen.parse().expect("an address"),
        state: monitor::server::StatePlace::new(state, LEASE).expect("a place"),
        trust: monitor::server::Trust::Secret(secret(key)),
        settings: monitor::Settings {
            heartbeat: Duration::from_millis(100),
            dead_after: Duration::from_secs(4),
            gone_after: Duration::from_millis(1500),
            ..monitor::Settings::default()
        },
        policy: Box::new(ByDistanceAndLoad),
        admin: Some(any_port()),
        admin_hosts: Vec::new(),
    };
    let server = monitor::server::Server::start(options).expect("a monitor");
    let admin = server.admin_address().expect("it was asked for");
    stay(&format!("{} {admin}", server.address()));
    server.handle().stop();
    server.join().expect("it ends well");
}

fn agent(name: &str, monitors: &str, socket: &str, key: &str) {
    let monitors = monitors
        .split(',')
        .map(|at| at.parse().expect("an address"));
    let monitors: Vec<SocketAddr> = monitors.collect();
    let options = agent::server::Options {
        monitors: monitors.clone(),
        trust: agent::server::Trust::Secret(secret(key)),
        settings: agent::Settings {
            name: name.parse().expect("a name"),
            monitors: monitors.len(),
            place: String::new(),
            probe: any_port(),
            lends: vec![Share::memory(SIZE)],
            keep_free: 0,
            reclaim_within: Duration::from_millis(500),
            borrow_within: Duration::from_secs(10),
        },
        socket: PathBuf::from(socket),
        socket_mode: 0o600,
        admin: Some(any_port()),
        admin_hosts: Vec::new(),
    };
    // Before there are threads that signals could come to.
    let started = Arc::new(OnceLock::<agent::server::Handle>::new());
    let of_signals = Arc::clone(&started);
    let leaves = move |signal| {
        if let (Signal::Terminate, Some(handle)) = (signal, of_signals.get()) {
            handle.leave();
        }
    };
    let _watch = signal::watch(leaves).expect("signals");
    let server = agent::server::Server::start(options, List::default()).expect("an agent");
    started.get_or_init(|| server.handle());
    let admin = server.admin_address().expect("it was asked for");
    let handle = server.handle();
    std::thread::spawn(move || {
        stay(&format!("{admin}"));
        handle.stop();
    });
    server.join().expect("it ends well");
}

fn borrower(socket: &str, bytes: &str) {
    let client = Client::connect(Path::new(socket)).expect("an agent");
    let bytes = bytes.parse().expect("a number");
    let borrowed = client
        .borrow(Share::memory(bytes), Duration::from_secs(20))
        .expect("a loan");
    stay(&borrowed.loan.to_string());
}

/// A donor of one accelerator of each kind, whose key is a byte.
fn accelerators(key: &str) {
    let options = Options {
        listen: any_port(),
        accelerators: Kind::ALL.map(|kind| (kind, 1)).to_vec(),
        memory: 64 << 20,
        connections: 8,
        offer: Some(LoanKey([key.parse().expect("a byte"); 32])),
    };
    let donor = Accelerators::start(&options).expect("a donor");
    stay(&donor.address().to_string());
}
