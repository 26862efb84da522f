//! Our server and theirs, side by side.

use crate::same::same;
use rhythm_kv::server::{Address, Server};
use rhythm_kv::shared::{Listen, Settings};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Memory for items, in MiB, of both: enough for all that a test stores.
pub(crate) const MEMORY: u64 = 256;
/// Who does not answer for so long does not answer at all.
const NEVER: Duration = Duration::from_secs(10);
/// In front of the commands in a datagram.
const FRAME: &[u8] = b"\x12\x34\0\0\0\x01\0\0";

/// How both are started, beside what all have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Setup {
    Usual,
    /// `-C`
    WithoutCas,
    /// `-F`
    WithoutFlush,
    /// `-Y`, with a user whose password is `secret`; over TCP alone.
    WithUsers,
    /// `-M`, with so little memory that it is soon full.
    Full,
}

impl Setup {
    /// For memcached.
    fn args(self, folder: &Path) -> Vec<OsString> {
        let args = |args: &[&str]| args.iter().map(OsString::from).collect();
        match self {
            Setup::Usual => args(&[]),
            Setup::WithoutCas => args(&["-C"]),
            Setup::WithoutFlush => args(&["-F"]),
            Setup::WithUsers => {
                let path = folder.join("users");
                std::fs::write(&path, "user:secret\n").expect("a temporary folder");
                vec!["-Y".into(), path.into()]
            }
            Setup::Full => args(&["-M"]),
        }
    }

    /// In MiB.
    fn memory(self) -> u64 {
        match self {
            Setup::Full => 8,
            _ => MEMORY,
        }
    }

    fn has_udp(self) -> bool {
        self != Setup::WithUsers
    }

    /// For ours.
    fn settings(self) -> Settings {
        let listen = Listen {
            host: Some("127.0.0.1".to_owned()),
            port: None,
        };
        let users = match self {
            Setup::WithUsers => vec![(b"user".to_vec(), b"secret".to_vec())],
            _ => Vec::new(),
        };
        Settings {
            port: Some(0),
            udp_port: self.has_udp().then_some(0),
            listen: vec![listen],
            memory: self.memory() << 20,
            threads: 1,
            cas: self != Setup::WithoutCas,
            flush: self != Setup::WithoutFlush,
            evict: self != Setup::Full,
            users: Arc::new(users),
            ..Settings::default()
        }
    }
}

/// A memcached that ends with the test.
struct Theirs {
    process: Child,
    folder: PathBuf,
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Both servers, with a connection and a datagram socket to each.
pub(crate) struct Pair {
    pub(crate) seed: u64,
    /// How many seconds more theirs has counted for most of the time, once that is known.
    pub(super) apart: Option<i64>,
    /// All that is sent and answered is told (`DIFFERENTIAL_TRACE`).
    traces: bool,
    ours: Option<Server>,
    _theirs: Theirs,
    tcp: [SocketAddr; 2],
    udp: Option<[UdpSocket; 2]>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(server) = self.ours.take() {
            server.handle().stop();
            let joined = server.join();
            if !std::thread::panicking() {
                joined.expect("the threads end well");
            }
        }
    }
}

/// Starts memcached on free ports, if there is one.
fn start_theirs(setup: Setup) -> Option<(Theirs, [Option<u16>; 2])> {
    // Of one that is to be started while another goes on, the ports must not be those of the other.
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let count = STARTED.fetch_add(1, Ordering::Relaxed);
    let unique = format!("rhythm-kv-{}-{count}", std::process::id());
    let folder = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let ports = folder.join("ports");
    let memory = setup.memory().to_string();
    let udp = if setup.has_udp() { "-1" } else { "0" };
    let args = [
        "-u",
        "root",
        "-l",
        "127.0.0.1",
        "-p",
        "-1",
        "-U",
        udp,
        "-t",
        "1",
        "-X",
        "-W",
        "-o",
        "no_lru_maintainer,no_lru_crawler,no_slab_reassign,no_slab_automove",
        "-m",
    ];
    let started = Command::new("memcached")
        .args(args)
        .arg(memory)
        .args(setup.args(&folder))
        .env("MEMCACHED_PORT_FILENAME", &ports)
        .stderr(Stdio::null())
        .spawn();
    let process = match started {
        Ok(process) => process,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let _ = std::fs::remove_dir_all(&folder);
            return None;
        }
        Err(error) => panic!("memcached does not start: {error}"),
    };
    let theirs = Theirs { process, folder };
    let until = Instant::now() + NEVER;
    let text = loop {
        match std::fs::read_to_string(&ports) {
            Ok(text) => break text,
            Err(_) => assert!(Instant::now() < until, "memcached does not say its ports"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let port = |protocol: &str| {
        let line = text.lines().find(|line| line.starts_with(protocol))?;
        let port = line.rsplit(' ').next().expect("a port");
        Some(port.parse().expect("a number"))
    };
    let ports = [port("TCP"), port("UDP")];
    Some((theirs, ports))
}

impl Pair {
    pub(crate) fn start() -> Option<Pair> {
        Pair::started(Setup::Usual)
    }

    pub(crate) fn started(setup: Setup) -> Option<Pair> {
        let (theirs, ports) = start_theirs(setup)?;
        let ours = Server::start(setup.settings(), |_| ()).expect("free ports");
        let address = |udp: bool| {
            let mut found = ours.addresses().iter().filter_map(|address| match address {
                Address::Tcp(at) if !udp => Some(*at),
                Address::Udp(at) if udp => Some(*at),
                _ => None,
            });
            found.next()
        };
        let at = |port: Option<u16>| port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let tcp = [address(false), at(ports[0])].map(|at| at.expect("it is on"));
        let udp = [address(true), at(ports[1])].map(|to| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            socket.connect(to?).expect("an address of this machine");
            socket.set_read_timeout(Some(NEVER)).expect("a time");
            Some(socket)
        });
        let udp = match udp {
            [Some(ours), Some(theirs)] => Some([ours, theirs]),
            _ => None,
        };
        Some(Pair {
            seed: 0,
            apart: None,
            traces: std::env::var_os("DIFFERENTIAL_TRACE").is_some(),
            ours: Some(ours),
            _theirs: theirs,
            tcp,
            udp,
        })
    }

    pub(super) fn connect(&self, index: usize) -> TcpStream {
        let stream = TcpStream::connect(self.tcp[index]).expect("it listens");
        stream.set_nodelay(true).expect("a TCP connection");
        stream.set_read_timeout(Some(NEVER)).expect("a time");
        stream
    }

    fn trace(&self, sent: &[u8], ours: &[u8]) {
        if self.traces {
            let (sent, ours) = (shortened(sent), shortened(ours));
            eprintln!("{}: {sent}\n    {ours}", self.seed);
        }
    }

    pub(super) fn assert_same(&self, sent: &[u8], ours: &[u8], theirs: &[u8]) {
        self.trace(sent, ours);
        if let Err(at) = same(ours, theirs) {
            let at = at.saturating_sub(80);
            let show = |bytes: &[u8]| shortened(bytes.get(at..).unwrap_or(b""));
            panic!(
                "seed {}: {}\nours:   {}\ntheirs: {}",
                self.seed,
                shortened(sent),
                show(ours),
                show(theirs)
            );
        }
    }

    /// Sends commands one by one, each with `mark` behind it, which is answered by `answer`.
    pub(crate) fn compare_in_step(&mut self, commands: &[Vec<u8>], mark: &[u8], answer: &[u8]) {
        let mut streams = [self.connect(0), self.connect(1)];
        for command in commands {
            let [ours, theirs] =
                (streams.each_mut()).map(|stream| ask(stream, command, mark, answer));
            self.assert_same(command, &ours, &theirs);
        }
    }

    /// Sends a line that does not end, for which both close the connection.
    pub(crate) fn compare_unfinished(&mut self, line: &[u8]) {
        let [ours, theirs] = [0, 1].map(|index| {
            let mut stream = self.connect(index);
            stream.write_all(line).expect("it reads");
            let mut got = Vec::new();
            match stream.read_to_end(&mut got) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(error) => got.extend_from_slice(format!("<{error}>").as_bytes()),
            }
            got
        });
        self.assert_same(line, &ours, &theirs);
    }

    /// Sends bytes in pieces of these lengths, and takes all that comes until the end.
    ///
    /// `may_lose`: memcached keeps the answers it has while it waits for a value, and drops them
    /// when the connection ends before that has come, or is closed for a mistake; we send them.
    pub(crate) fn compare_whole(&mut self, bytes: &[u8], pieces: &[usize], may_lose: bool) {
        let [ours, theirs] = [0, 1].map(|index| {
            let mut stream = self.connect(index);
            let mut rest = bytes;
            for length in pieces {
                let (piece, behind) = rest.split_at(*length);
                // It may have been closed for what came before.
                if stream.write_all(piece).is_err() {
                    break;
                }
                rest = behind;
            }
            let _ = stream.shutdown(Shutdown::Write);
            let mut got = Vec::new();
            match stream.read_to_end(&mut got) {
                Ok(_) => {}
                // Closed before all was read.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(error) => got.extend_from_slice(format!("<{error}>").as_bytes()),
            }
            got
        });
        match may_lose && ours.starts_with(&theirs) {
            true => self.trace(bytes, &ours),
            false => self.assert_same(bytes, &ours, &theirs),
        }
    }

    /// Sends a command in a datagram, with `mark` behind it, whose answer ends the answers.
    pub(crate) fn compare_datagram(&mut self, command: &[u8], mark: &[u8], answer: &[u8]) {
        let udp = self.udp.as_ref().expect("it is on");
        let [ours, theirs] = udp.each_ref().map(|socket| {
            let datagram = [FRAME, command, mark].concat();
            if datagram.len() > 60_000 {
                return Vec::new();
            }
            socket.send(&datagram).expect("it is there");
            let mut got = Vec::new();
            let mut buffer = [0; 65536];
            loop {
                let count = match socket.recv(&mut buffer) {
                    Ok(count) => count,
                    Err(error) => {
                        got.extend_from_slice(format!("<{error}>").as_bytes());
                        break;
                    }
                };
                // The length is the same, but for digits of times.
                got.push(if count > 1000 { b'#' } else { b'|' });
                got.extend_from_slice(&buffer[..count]);
                if buffer[FRAME.len()..count] == *answer {
                    break;
                }
            }
            got
        });
        self.assert_same(command, &ours, &theirs);
    }
}

pub(crate) fn shortened(bytes: &[u8]) -> String {
    let count = bytes.len();
    match count {
        0..=900 => format!("{} ({count} bytes)", bytes.escape_ascii()),
        _ => {
            let (first, last) = (
                bytes[..600].escape_ascii(),
                bytes[count - 300..].escape_ascii(),
            );
            format!("{first} ... {last} ({count} bytes)")
        }
    }
}

/// Sends a command with `mark` behind it, and takes what comes up to `answer`.
pub(super) fn ask(stream: &mut TcpStream, command: &[u8], mark: &[u8], answer: &[u8]) -> Vec<u8> {
    let sent = [command, mark].concat();
    stream.write_all(&sent).expect("it reads");
    let mut got = Vec::new();
    let mut buffer = [0; 65536];
    // A value may end like the answer's line, where reading stops by chance.
    let is_line = answer.ends_with(b"\r\n");
    let is_all = |got: &[u8]| {
        let before = got.strip_suffix(answer);
        before.is_some_and(|before| !is_line || before.is_empty() || before.ends_with(b"\n"))
    };
    while !is_all(&got) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&buffer[..count]),
            // Closed before all was read.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => {
                got.extend_from_slice(format!("<{error}>").as_bytes());
                break;
            }
        }
    }
    got
}
