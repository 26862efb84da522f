//! Nodes that know of each other: a ring, by whichever scheme, and a keyspace.

use super::{Node, Running, Servers, TRIES, at, free_ports};
use crate::reproduce::error::ReproduceError;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Who does not say by then who leads does not know.
const ANSWERED_IN: Duration = Duration::from_secs(30);
/// What nodes are called.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// How nodes keep copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reproduce) enum Cluster {
    /// `rhythm kv --ring`.
    Ring {
        /// How many.
        nodes: usize,
        /// As `--scheme` says.
        scheme: &'static str,
        /// As `--replicate` says.
        replicate: &'static str,
    },
    /// `rhythm kv keyspace`, three of them.
    Keyspace,
}

impl Cluster {
    /// Two nodes, each of which has copies of the other's items.
    pub(in crate::reproduce) fn pair(replicate: &'static str) -> Cluster {
        Cluster::Ring {
            nodes: 2,
            scheme: "ring",
            replicate,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Cluster::Ring { nodes, .. } => &NAMES[..nodes],
            Cluster::Keyspace => &NAMES,
        }
    }
}

impl Servers {
    /// Nodes with so many MiB each, when all of them have copies of all that they are to have.
    pub(in crate::reproduce) fn cluster(
        &self,
        cluster: Cluster,
        memory_mib: u64,
    ) -> Result<Running, ReproduceError> {
        let server = || match cluster {
            Cluster::Ring { scheme, .. } => format!("rhythm kv --scheme {scheme}"),
            Cluster::Keyspace => "rhythm kv keyspace".to_owned(),
        };
        let mut last = String::new();
        for _ in 0..TRIES {
            let (running, file) = self.begin(cluster, memory_mib)?;
            match self.until_whole(cluster, &running, &file) {
                Ok(()) => return Ok(running),
                // Another may have taken a port.
                Err(said) if running.nodes.iter().any(Node::has_ended) => last = said,
                Err(said) => {
                    return Err(ReproduceError::NotReady {
                        server: server(),
                        seconds: super::PATIENCE.as_secs(),
                        said,
                    });
                }
            }
        }
        Err(ReproduceError::Server {
            server: server(),
            said: last,
        })
    }

    fn begin(
        &self,
        cluster: Cluster,
        memory_mib: u64,
    ) -> Result<(Running, PathBuf), ReproduceError> {
        let names = cluster.names();
        let ports = names.iter().map(|_| free_ports());
        let ports: Vec<[u16; 3]> = ports
            .collect::<Result<_, _>>()
            .map_err(ReproduceError::file(Path::new("a free port")))?;
        // Another cluster may be there.
        let folder = self.folder.path().join(ports[0][0].to_string());
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(ReproduceError::file(&folder))?;
        let file = folder.join("nodes.toml");
        let node = |(name, ports): (&&str, &[u16; 3])| {
            let (client, backbone) = (at(ports[0]), at(ports[2]));
            format!(
                "[[node]]\nname = \"{name}\"\nclient = \"{client}\"\nbackbone = \"{backbone}\"\n"
            )
        };
        let text: String = names.iter().zip(&ports).map(node).collect();
        fs::write(&file, text).map_err(ReproduceError::file(&file))?;
        let mut nodes = Vec::new();
        for (number, (name, ports)) in names.iter().zip(&ports).enumerate() {
            let mut command = match cluster {
                Cluster::Ring {
                    nodes,
                    scheme,
                    replicate,
                } => {
                    let mut command = self.kv_command(ports[1], memory_mib);
                    command.arg("--ring").arg(&file).args(["--scheme", scheme]);
                    // All have copies of all.
                    command.args(["--replicas", &(nodes - 1).to_string()]);
                    command.args(["--replicate", replicate]);
                    command
                }
                Cluster::Keyspace => {
                    let mut command = Command::new(&self.program);
                    command.args(["kv", "keyspace"]).arg(&file).arg("--begin");
                    command.arg("--folder").arg(folder.join(name));
                    command.args(["--admin", &at(ports[1]).to_string()]);
                    command
                }
            };
            command.args(["--node", name]);
            let log = format!("{}-{name}", ports[0]);
            nodes.push(self.spawn(command, &log, number)?);
        }
        let urls = ports.iter().map(|ports| at(ports[0]).to_string());
        let running = Running {
            url: urls.collect::<Vec<_>>().join("+"),
            nodes,
            admins: ports.iter().map(|ports| at(ports[1])).collect(),
        };
        Ok((running, file))
    }

    /// Waits until all nodes are there and have copies; says what is the matter otherwise.
    fn until_whole(&self, cluster: Cluster, running: &Running, file: &Path) -> Result<(), String> {
        let until = Instant::now() + super::PATIENCE;
        let mut status = Command::new(&self.program);
        status.args(["kv", "ring", "status"]).arg(file);
        loop {
            let said = match cluster {
                Cluster::Ring { .. } => {
                    let output = status.output().map_err(|error| error.to_string())?;
                    if output.status.success() {
                        return Ok(());
                    }
                    String::from_utf8_lossy(&output.stdout).into_owned()
                }
                Cluster::Keyspace if running.leader().is_some() => return Ok(()),
                Cluster::Keyspace => "its nodes do not say that one of them leads".to_owned(),
            };
            if let Some(ended) = running.nodes.iter().find(|node| node.has_ended()) {
                return Err(ended.said());
            }
            if Instant::now() > until {
                return Err(said);
            }
            thread::sleep(super::LOOK);
        }
    }
}

impl Running {
    /// The number of the node that all nodes of a keyspace say leads.
    pub(in crate::reproduce) fn leader(&self) -> Option<usize> {
        let mut told = self.places().into_iter().map(leader);
        let first = told.next()??;
        let is_agreed = told.all(|leader| leader.as_deref() == Some(&first));
        (NAMES.iter().position(|name| *name == first)).filter(|_| is_agreed)
    }
}

/// The name of the node that leads, as the one in this place knows it.
fn leader(at: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&at, ANSWERED_IN).ok()?;
    stream.set_read_timeout(Some(ANSWERED_IN)).ok()?;
    stream.write_all(b"stats\r\n").ok()?;
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut lines = lines.take_while(|line| line != "END");
    lines.find_map(|line| Some(line.strip_prefix("STAT leader ")?.to_owned()))
}
