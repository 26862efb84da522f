//! Servers of etcd, as processes: Debian's `etcd-server`.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long what must happen may take on a machine with much else to do.
const NEVER: Duration = Duration::from_secs(60);
/// How long one may take to say how it is.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Places of this machine where nobody listens.
pub fn free_places(count: usize) -> Vec<SocketAddr> {
    // Below those that Linux gives to whoever connects, and to who asks for any: one of these could
    // be taken by another test before who is to listen there does.
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() * 64 % COUNT;
    let mut places = Vec::new();
    while places.len() < count {
        let at = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(at < COUNT, "no place is free");
        let port = FIRST + (begin + at) % COUNT;
        let place = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if TcpListener::bind(place).is_ok() {
            places.push(place);
        }
    }
    places
}

#[derive(Debug)]
struct Member {
    client: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

/// See the head of this file. They end with this.
#[derive(Debug)]
pub struct Members {
    folder: PathBuf,
    members: Vec<Member>,
}

impl Members {
    /// So many that are one etcd, and keep their data in a folder, of which nothing is left that
    /// was there. They serve.
    pub fn start(folder: &Path, count: usize) -> Members {
        if folder.exists() {
            fs::remove_dir_all(folder).expect("it is ours");
        }
        let places = free_places(2 * count);
        let members = places.chunks(2).map(|places| Member {
            client: places[0],
            peer: places[1],
            child: None,
        });
        let mut etcd = Members {
            folder: folder.to_owned(),
            members: members.collect(),
        };
        (0..count).for_each(|member| etcd.begin(member));
        etcd.until_well();
        etcd
    }

    /// Starts a member, with the data that it had.
    pub fn begin(&mut self, index: usize) {
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

    /// Waits until all members that run serve: they listen before they do.
    pub fn until_well(&self) {
        let start = Instant::now();
        let runs = || self.members.iter().filter(|member| member.child.is_some());
        while !runs().all(|member| is_well(member.client)) {
            assert!(start.elapsed() < NEVER, "etcd does not serve");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills a member.
    pub fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.members[index].child.take() {
            child.kill().expect("it is there");
            child.wait().expect("it ends");
        }
    }

    /// A member has no data any more: it does not run, and comes back with nothing.
    pub fn forget(&self, index: usize) {
        let folder = self.folder.join(format!("m{index}"));
        fs::remove_dir_all(folder).expect("it is ours");
    }

    /// Where a member takes requests.
    pub fn client(&self, index: usize) -> SocketAddr {
        self.members[index].client
    }

    /// All of it, as [`Etcd::new`](crate::Etcd::new) takes it.
    pub fn place(&self, prefix: &str) -> String {
        let members = self.members.iter();
        let clients: Vec<String> = members.map(|member| member.client.to_string()).collect();
        format!("{}/{prefix}", clients.join(","))
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
        // Each member takes 128 MiB ahead of what it writes.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether one serves.
fn is_well(at: SocketAddr) -> bool {
    let asked = || -> io::Result<String> {
        let mut stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        let head = format!("GET /health HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().is_ok_and(|answer| answer.contains("\"true\""))
}
