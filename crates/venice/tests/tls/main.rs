//! Parties that show each other certificates: who has one of the monitor's authority with its own
//! name is let in, nobody else is, and nobody on the way reads what they say.

mod cluster;
mod donors;
mod joining;
mod lines;
mod paged;
mod relay;

use rhythm_venice::identity::{Authority, Identity, Token, join};
use rhythm_venice::monitor::policy::ByDistanceAndLoad;
use rhythm_venice::monitor::server::{Options, Server, StatePlace, Trust};
use rhythm_venice::monitor::{self};
use rhythm_venice::secret::Secret;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Waits for something, which it says where it is not so.
fn until(mut is_so: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    while let Err(why) = is_so() {
        assert!(start.elapsed() < NEVER, "{why}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A monitor with its folder, ended when it is dropped.
struct Monitor {
    folder: TempDir,
    server: Option<Server>,
    address: SocketAddr,
}

impl Monitor {
    /// One with an authority of its own.
    fn start() -> Monitor {
        Monitor::of(|state| {
            let authority = Authority::open(&state.join("authority")).expect("an authority");
            Trust::Authority(Box::new(authority))
        })
    }

    /// One that has a secret, and speaks no TLS.
    fn plain(secret: Secret) -> Monitor {
        Monitor::of(|_| Trust::Secret(secret))
    }

    fn of(trust: impl FnOnce(&Path) -> Trust) -> Monitor {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let options = Options {
            listen: any_port(),
            trust: trust(&state),
            state: StatePlace::Folder(state),
            settings: monitor::Settings {
                heartbeat: Duration::from_millis(100),
                ..monitor::Settings::default()
            },
            policy: Box::new(ByDistanceAndLoad),
            admin: None,
            admin_hosts: Vec::new(),
        };
        let server = Server::start(options).expect("a monitor");
        Monitor {
            folder,
            address: server.address(),
            server: Some(server),
        }
    }

    /// A token, of the command's own hands: it opens the folder while the monitor runs.
    fn token(&self, name: &str, valid: Duration) -> Token {
        let authority =
            Authority::open(&self.folder.path().join("state/authority")).expect("it is there");
        let name = name.parse().expect("a name");
        authority.give_token(&name, valid).expect("a token")
    }

    /// Where an identity of this name is put.
    fn identity_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join("identities").join(name)
    }

    /// A node of this name, which joins first.
    fn join(&self, name: &str) -> Arc<Identity> {
        let folder = self.identity_folder(name);
        if folder.exists() {
            return Arc::new(Identity::open(&folder).expect("it has joined"));
        }
        let token = self.token(name, NEVER);
        let joined = join::join(self.address, &token, &folder).expect("it joins");
        let read = Identity::open(&folder).expect("it is there");
        assert_eq!(joined.party(), read.party());
        Arc::new(read)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.handle().stop();
            let _ = server.join();
        }
    }
}
