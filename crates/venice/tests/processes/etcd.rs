//! etcd, of one member or several.

use super::cluster::{PATIENCE, get};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

struct Member {
    client: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

/// Its members, each killed when this is dropped.
pub(crate) struct Etcd {
    folder: PathBuf,
    members: Vec<Member>,
}

/// Places that nobody has now.
fn free_places() -> [SocketAddr; 2] {
    let held = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    held.map(|listener| listener.local_addr().expect("it has one"))
}

impl Etcd {
    /// So many members, which keep their data in a folder.
    pub(crate) fn start(folder: &Path, count: usize) -> Etcd {
        let member = |_| {
            let [client, peer] = free_places();
            let child = None;
            Member {
                client,
                peer,
                child,
            }
        };
        let mut etcd = Etcd {
            folder: folder.join("etcd"),
            members: (0..count).map(member).collect(),
        };
        (0..count).for_each(|member| etcd.begin(member));
        etcd.until_well();
        etcd
    }

    pub(crate) fn begin(&mut self, index: usize) {
        let all = self.members.iter().enumerate();
        let cluster: Vec<String> = all
            .map(|(index, member)| format!("m{index}=http://{}", member.peer))
            .collect();
        let member = &mut self.members[index];
        let [client, peer] = [member.client, member.peer].map(|at| format!("http://{at}"));
        let name = format!("m{index}");
        let child = Command::new("etcd")
            .args(["--name", &name, "--data-dir"])
            .arg(self.folder.join(&name))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster.join(",")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd is installed (etcd-server)");
        member.child = Some(child);
    }

    /// Waits until all of its members that run serve: they listen before they do.
    pub(crate) fn until_well(&self) {
        let start = Instant::now();
        let is_well = |member: &Member| {
            let at = member.client.to_string();
            TcpStream::connect(member.client).is_ok() && get(&at, "/health").contains("\"true\"")
        };
        let runs = || self.members.iter().filter(|member| member.child.is_some());
        while !runs().all(is_well) {
            assert!(start.elapsed() < PATIENCE, "etcd does not serve");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills a member.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.members[index].child.take() {
            child.kill().expect("it is there");
            child.wait().expect("it ends");
        }
    }

    /// Its place, as a monitor's state.
    pub(crate) fn place(&self) -> String {
        let members = self.members.iter();
        let clients: Vec<String> = members.map(|member| member.client.to_string()).collect();
        format!("etcd://{}/venice", clients.join(","))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
    }
}
