//! Servers that are right: our own in this process, and Debian's memcached.

use rhythm_kv::server::{Address, Server};
use rhythm_kv::shared::{Listen, Settings};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Our own server, on all transports.
pub(crate) struct Ours {
    servers: Vec<Server>,
    folder: PathBuf,
    pub(crate) tcp: SocketAddr,
    pub(crate) udp: SocketAddr,
    pub(crate) unix: PathBuf,
}

impl Ours {
    pub(crate) fn start() -> Ours {
        let thread = std::thread::current().id();
        let unique = format!("rhythm-load-{}-{thread:?}", std::process::id());
        let folder = std::env::temp_dir().join(unique.replace(['(', ')'], ""));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let unix = folder.join("socket");
        let by_port = Settings {
            port: Some(0),
            udp_port: Some(0),
            listen: vec![Listen {
                host: Some("127.0.0.1".to_owned()),
                port: None,
            }],
            threads: 2,
            ..Settings::default()
        };
        let by_path = Settings {
            unix_socket: Some(unix.clone()),
            threads: 1,
            ..Settings::default()
        };
        let servers = [by_port, by_path]
            .map(|settings| Server::start(settings, |_| {}).expect("free ports, and a folder"));
        let find = |wanted: fn(&Address) -> Option<SocketAddr>| {
            let found = servers[0].addresses().iter().find_map(wanted);
            found.expect("it listens")
        };
        Ours {
            tcp: find(|address| match address {
                Address::Tcp(at) => Some(*at),
                _ => None,
            }),
            udp: find(|address| match address {
                Address::Udp(at) => Some(*at),
                _ => None,
            }),
            servers: servers.into(),
            folder,
            unix,
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        for server in self.servers.drain(..) {
            server.handle().stop();
            let _ = server.join();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A memcached that ends with the test.
pub(crate) struct Memcached {
    process: Child,
    port: u16,
}

impl Memcached {
    /// Starts one on a free port, TCP and UDP; `None` where there is none.
    pub(crate) fn start() -> Option<Memcached> {
        // Another may take the port before it does.
        for _ in 0..10 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            let port = free.expect("a free port").port();
            let text = port.to_string();
            let mut process = Command::new("memcached")
                .args(["-u", "root", "-l", "127.0.0.1", "-t", "1", "-m", "256"])
                .args(["-p", &text, "-U", &text])
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let until = Instant::now() + Duration::from_secs(30);
            while Instant::now() < until && process.try_wait().is_ok_and(|ended| ended.is_none()) {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(Memcached { process, port });
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("memcached does not start");
    }

    pub(crate) fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
