//! The servers that are measured: processes on free ports of this machine, with a temporary folder,
//! that end when they are dropped.

mod cluster;

pub(super) use cluster::Cluster;

use super::children::{Folder, Process};
use super::error::ReproduceError;
use super::figures::{self, Turns};
use super::options::ReproduceOptions;
use super::processors::Processors;
use crate::memcached::SCHEME;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Another may take a port before a server does; then the next is tried.
const TRIES: usize = 10;
/// Who does not answer by then never will: a server has its memory resident before, which the host
/// of a virtual machine may give slowly.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one try to have an answer takes at most.
const TRY: Duration = Duration::from_secs(1);
/// How often it is looked whether a server serves.
const LOOK: Duration = Duration::from_millis(10);

/// The program of this name, or path: memcached, valgrind.
///
/// # Errors
/// What is the matter with it, for people.
pub fn program_at(program: &Path) -> Result<PathBuf, String> {
    let mut look = Command::new(program);
    look.arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let why = match look.status() {
        Ok(status) if status.success() => return Ok(program.to_owned()),
        Ok(status) => format!("{} --version ends with {status}", program.display()),
        Err(error) => format!("{} cannot be started: {error}", program.display()),
    };
    Err(why)
}

/// What starts servers.
#[derive(Debug)]
pub(super) struct Servers {
    program: PathBuf,
    memcached: Option<PathBuf>,
    pub(super) processors: Processors,
    folder: Folder,
}

impl Servers {
    pub(super) fn new(options: &ReproduceOptions) -> Result<Servers, ReproduceError> {
        Ok(Servers {
            program: options.program.clone(),
            memcached: options.memcached.clone(),
            processors: Processors::here(),
            folder: Folder::new()?,
        })
    }

    pub(super) fn has_memcached(&self) -> bool {
        self.memcached.is_some()
    }

    /// memcached with so many MiB for items; `None` where there is none.
    pub(super) fn memcached(&self, memory_mib: u64) -> Result<Option<Running>, ReproduceError> {
        let Some(program) = &self.memcached else {
            return Ok(None);
        };
        let start = |ports: &[u16; 3]| {
            let port = ports[0].to_string();
            let mut command = Command::new(program);
            // Only root is asked for a user.
            command.args(["-u", "root", "-l", "127.0.0.1", "-t", "1"]);
            command.args(["-m", &memory_mib.to_string(), "-p", &port, "-U", &port]);
            self.spawn(command, "memcached", 0)
        };
        let (node, ports) = self.started("memcached", start)?;
        Ok(Some(Running {
            url: format!("127.0.0.1:{}", ports[0]),
            nodes: vec![node],
            admins: Vec::new(),
        }))
    }

    /// A kv by itself, over TCP and UDP, with so many MiB.
    pub(super) fn kv(&self, memory_mib: u64) -> Result<Running, ReproduceError> {
        let start = |ports: &[u16; 3]| {
            let port = ports[0].to_string();
            let mut command = self.kv_command(ports[1], memory_mib);
            command.args(["-p", &port, "-U", &port]);
            self.spawn(command, "kv", 0)
        };
        let (node, ports) = self.started("kv", start)?;
        Ok(Running {
            url: format!("127.0.0.1:{}", ports[0]),
            nodes: vec![node],
            admins: vec![at(ports[1])],
        })
    }

    /// Two kv that know nothing of each other, whose keys are parted as those of a ring are, with
    /// so many MiB each.
    pub(super) fn pair(&self, memory_mib: u64) -> Result<Running, ReproduceError> {
        let [mut pair, second] = [self.kv(memory_mib)?, self.kv(memory_mib)?];
        pair.url = format!("{}+{}", pair.url, second.url);
        pair.nodes.extend(second.nodes);
        pair.admins.extend(second.admins);
        Ok(pair)
    }

    fn kv_command(&self, admin: u16, memory_mib: u64) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["kv", "-l", "127.0.0.1", "-t", "1"]);
        // Resident from the start: what is written over in turn, as by the filling, leaves memory
        // behind that is never touched, and a load at random finds it.
        command.args(["-L", "-m", &memory_mib.to_string()]);
        command.args(["--admin", &at(admin).to_string()]);
        command
    }

    /// Starts a server on free ports, and waits until it answers on the first.
    fn started(
        &self,
        server: &str,
        start: impl Fn(&[u16; 3]) -> Result<Node, ReproduceError>,
    ) -> Result<(Node, [u16; 3]), ReproduceError> {
        let mut said = String::new();
        for _ in 0..TRIES {
            let ports = free_ports().map_err(ReproduceError::file(Path::new("a free port")))?;
            let node = start(&ports)?;
            let until = Instant::now() + PATIENCE;
            while !node.has_ended() {
                if answers(at(ports[0])) && !node.has_ended() {
                    return Ok((node, ports));
                }
                if Instant::now() >= until {
                    return Err(ReproduceError::NotReady {
                        server: server.to_owned(),
                        seconds: PATIENCE.as_secs(),
                        said: node.said(),
                    });
                }
                thread::sleep(LOOK);
            }
            said = node.said();
        }
        Err(ReproduceError::Server {
            server: server.to_owned(),
            said,
        })
    }

    fn spawn(
        &self,
        mut command: Command,
        name: &str,
        number: usize,
    ) -> Result<Node, ReproduceError> {
        let log = self.folder.path().join(name);
        let server = command_name(&command);
        let failed = |said: io::Error| ReproduceError::Server {
            server,
            said: said.to_string(),
        };
        let stderr = File::create(&log).map_err(ReproduceError::file(&log))?;
        self.processors.of_server(number);
        let spawned = Process::start(command.stdout(Stdio::null()).stderr(stderr));
        self.processors.of_load();
        let process = spawned.map_err(failed)?;
        Ok(Node { process, log })
    }
}

fn command_name(command: &Command) -> String {
    Path::new(command.get_program())
        .file_name()
        .unwrap_or(OsStr::new("a server"))
        .to_string_lossy()
        .into_owned()
}

/// Whether a memcached server answers there.
fn answers(at: SocketAddr) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&at, TRY)?;
        stream.set_read_timeout(Some(TRY))?;
        stream.write_all(b"version\r\n")?;
        let mut said = [0; 8];
        stream.read_exact(&mut said)?;
        Ok(said == *b"VERSION ")
    };
    ask().unwrap_or(false)
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Three ports that are free now, the first for datagrams, too.
fn free_ports() -> io::Result<[u16; 3]> {
    loop {
        let free = || TcpListener::bind(at(0));
        let listeners = [free()?, free()?, free()?];
        let mut ports = [0; 3];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            *port = listener.local_addr()?.port();
        }
        if UdpSocket::bind(at(ports[0])).is_ok() {
            return Ok(ports);
        }
    }
}

/// A process that ends when it is dropped.
#[derive(Debug)]
struct Node {
    process: Process,
    log: PathBuf,
}

impl Node {
    fn has_ended(&self) -> bool {
        // What has ended, and was not waited for, has no threads any more.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.0.id()));
        let state = stat.map(|stat| stat.rsplit(") ").next().map(|rest| rest.starts_with('Z')));
        state.ok().flatten().unwrap_or(true)
    }

    /// The last that it said.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.trim_end().lines().next_back().unwrap_or("").to_owned()
    }
}

/// A server or ring that serves; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    /// For the load generator, without its scheme.
    url: String,
    nodes: Vec<Node>,
    admins: Vec<SocketAddr>,
}

impl Running {
    /// A URL of these for the load generator, and their processes; of several nodes, the first
    /// alone, where it is loaded alone.
    pub(super) fn url(of: &[&Running], of_first: bool) -> (String, Vec<Vec<u32>>) {
        let urls: Vec<&str> = of.iter().map(|running| running.url.as_str()).collect();
        let pids = |running: &&Running| {
            let counted = if of_first { 1 } else { running.nodes.len() };
            let nodes = running.nodes.iter().take(counted);
            nodes.map(|node| node.process.0.id()).collect()
        };
        (
            format!("{SCHEME}{}", urls.join(",")),
            of.iter().map(pids).collect(),
        )
    }

    /// The times of its turns so far, of all nodes; `None` where it tells none.
    pub(super) fn turns(&self) -> Option<Turns> {
        let mut sum = None;
        for admin in &self.admins {
            let turns = Turns::ask(*admin).ok()?;
            sum = Some(sum.unwrap_or_else(Turns::default).with(&turns));
        }
        sum
    }

    /// Bytes that its nodes have sent each other; `None` where they do not tell.
    pub(super) fn sent_bytes(&self) -> Option<f64> {
        let admins = self.admins.iter();
        admins.map(|admin| figures::sent_bytes(*admin).ok()).sum()
    }

    /// Where its nodes serve clients, in their order.
    pub(super) fn places(&self) -> Vec<SocketAddr> {
        let nodes = self.url.split('+');
        nodes.filter_map(|node| node.parse().ok()).collect()
    }

    /// A node dies.
    pub(super) fn kill(&mut self, node: usize) {
        self.nodes[node].process.end();
    }
}
