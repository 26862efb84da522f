//! A monitor and its agents.

use super::relay::Relay;
use super::{Monitor, NEVER, any_port, until};
use rhythm_venice::agent::client::Client;
use rhythm_venice::agent::server::{Options, Server, Trust};
use rhythm_venice::agent::{Lender, Lenders, PlainLoans, Settings};
use rhythm_venice::identity::{Identity, Sealing};
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::remote::{Place, RemoteMemory};
use rhythm_venice::resource::Share;
use rhythm_venice::secret::Secret;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SIZE: u64 = 80 << 20;

/// An agent, ended when it is dropped.
pub(super) struct Agent {
    server: Option<Server>,
    folder: TempDir,
}

impl Agent {
    fn start(
        monitor: SocketAddr,
        name: &str,
        trust: Trust,
        lender: impl Lender + 'static,
    ) -> Agent {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            monitors: vec![monitor],
            trust,
            settings: Settings {
                monitors: 1,
                name: name.parse().expect("a name"),
                place: String::new(),
                probe: any_port(),
                lends: vec![Share::memory(SIZE)],
                keep_free: 0,
                reclaim_within: Duration::from_millis(500),
                borrow_within: Duration::from_secs(10),
            },
            socket: folder.path().join("agent.sock"),
            socket_mode: 0o600,
            admin: Some(any_port()),
            admin_hosts: Vec::new(),
        };
        let server = Server::start(options, lender).expect("an agent");
        Agent {
            server: Some(server),
            folder,
        }
    }

    pub(super) fn of(monitor: &Monitor, name: &str, lends: bool) -> Agent {
        let identity = monitor.join(name);
        let trust = Trust::Identity(
            Arc::clone(&identity),
            monitor.identity_folder(name),
            PlainLoans::Refused,
        );
        match lends {
            true => {
                let donor = Donor::start_sealed(any_port(), SIZE, &identity).expect("a port");
                Agent::start(monitor.address, name, trust, donor)
            }
            false => Agent::start(monitor.address, name, trust, Lenders::default()),
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    /// What its admin listener tells at a path.
    fn told(&self, path: &str) -> String {
        let server = self.server.as_ref().expect("it runs");
        let address = server.admin_address().expect("it was asked for");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("an answer");
        told
    }

    /// Waits until it tells that.
    pub(super) fn tells(&self, path: &str, text: &str) {
        until(|| {
            let told = self.told(path);
            match told.contains(text) {
                true => Ok(()),
                false => Err(format!("{text} is not in {told}")),
            }
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.handle().stop();
            let _ = server.join();
        }
    }
}

#[test]
fn memory_is_borrowed_in_tls_without_a_secret() {
    let monitor = Monitor::start();
    let right = Agent::of(&monitor, "right", true);
    let left = Agent::of(&monitor, "left", false);
    for agent in [&left, &right] {
        agent.tells("/metrics", "rhythm_venice_agent_registered{} 1");
    }
    // Links are tested by a key that the monitor gave.
    for agent in [&left, &right] {
        until(|| {
            let told = agent.told("/metrics");
            let mut lines = told.lines();
            let latency = lines.find(|line| line.contains("link_latency_seconds{"));
            let seconds = latency.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            match seconds.is_some_and(|seconds| seconds > 0.0) {
                true => Ok(()),
                false => Err(told),
            }
        });
    }
    let client = Client::connect(&left.socket()).expect("its agent");
    let borrowed = client
        .borrow(Share::memory(1 << 20), NEVER)
        .expect("it is lent");
    let by = borrowed.sealed.clone().expect("the donor speaks TLS");
    assert_eq!(by.node.as_str(), "right");
    let folder = PathBuf::from(&by.identity);
    assert_eq!(folder, monitor.identity_folder("left"));
    let sealing = Sealing {
        identity: Arc::new(Identity::open(&folder).expect("the agent's")),
        donor: by.node,
    };
    let place = Place::Sealed(borrowed.donor, sealing);
    let mut memory = RemoteMemory::connect(&place).expect("it is reached");
    let start = memory.map(borrowed.loan, &borrowed.key, 0).expect("mapped");
    memory.write(start, b"in TLS").expect("it is written");
    let mut back = [0; 6];
    memory.read(start, &mut back).expect("it is read");
    assert_eq!(&back, b"in TLS");
}

#[test]
fn what_agents_and_monitor_say_is_not_read_on_the_way() {
    let monitor = Monitor::start();
    let relay = Relay::to(monitor.address);
    let name = "a-name-to-look-for";
    let identity = monitor.join(name);
    let trust = Trust::Identity(identity, monitor.identity_folder(name), PlainLoans::Refused);
    let agent = Agent::start(relay.address, name, trust, Lenders::default());
    agent.tells("/metrics", "rhythm_venice_agent_registered{} 1");
    let (bytes, has) = relay.heard(name.as_bytes());
    assert!(bytes > 1000 && !has, "{bytes}");
    // So it would be seen.
    let secret = Secret::of(b"0123456789abcdef");
    let plain = Monitor::plain(secret.clone());
    let relay = Relay::to(plain.address);
    let agent = Agent::start(
        relay.address,
        name,
        Trust::Secret(secret),
        Lenders::default(),
    );
    agent.tells("/metrics", "rhythm_venice_agent_registered{} 1");
    assert!(relay.heard(name.as_bytes()).1);
}

#[test]
fn who_is_not_let_in_is_told_what_helps() {
    let secret = Secret::of(b"0123456789abcdef");
    let (monitor, other) = (Monitor::start(), Monitor::start());
    let plain = Monitor::plain(secret.clone());
    let at = |of: &Monitor| {
        Trust::Identity(
            of.join("left"),
            of.identity_folder("left"),
            PlainLoans::Refused,
        )
    };
    let refused = |monitor: &Monitor, name: &str, trust: Trust, wanted: &[&str]| {
        let agent = Agent::start(monitor.address, name, trust, Lenders::default());
        for wanted in wanted {
            agent.tells("/healthz", wanted);
        }
        assert!(
            agent
                .told("/metrics")
                .contains("rhythm_venice_agent_registered{} 0")
        );
    };
    refused(
        &monitor,
        "right",
        at(&monitor),
        &["certificate is of another node"],
    );
    // Each believes another authority, and the agent looks first.
    refused(
        &monitor,
        "left",
        at(&other),
        &["another authority", "rhythm venice token"],
    );
    let secret = Trust::Secret(secret);
    refused(
        &monitor,
        "left",
        secret,
        &["the monitor speaks TLS", "--identity DIR"],
    );
    refused(
        &plain,
        "left",
        at(&other),
        &["closed the connection while TLS began"],
    );
}
