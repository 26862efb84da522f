//! What a real etcd answers. Needs Debian's `etcd-server`.

use rhythm_etcd::{Change, Etcd, EtcdError, Transaction};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long what must happen may take on a machine with much else to do.
const NEVER: Duration = Duration::from_secs(60);

/// A server, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server() -> (Server, u16) {
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("it has one").port()
    };
    let (client, peer) = (free(), free());
    let [at, of_peers] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("etcd");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("it is ours");
    }
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(&folder);
    command.args(["--listen-client-urls", &at, "--advertise-client-urls", &at]);
    command.args(["--listen-peer-urls", &of_peers]);
    command.args(["--initial-advertise-peer-urls", &of_peers]);
    command.args(["--initial-cluster", &format!("default={of_peers}")]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("etcd is installed (etcd-server)");
    (Server(child), client)
}

#[test]
fn what_is_not_there_is_told_from_what_is_refused() {
    let (server, port) = server();
    // The name may have another address first.
    let mut etcd = Etcd::new(&format!("localhost:{port}/x")).expect("a place");
    let begun = Instant::now();
    let lease = loop {
        match etcd.grant(60) {
            Ok(lease) => break lease,
            Err(EtcdError::Silent { .. }) if begun.elapsed() < NEVER => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(etcd.keep_alive(lease).expect("it is there"), Some(60));
    assert!(etcd.create("key", "value", lease).expect("there is none"));
    assert!(!etcd.create("key", "other", lease).expect("there is one"));
    let (entry, revision) = etcd.get("key").expect("it answers");
    assert_eq!(entry.expect("it is there").lease, lease);
    // Nothing comes, and then something.
    etcd.wait(revision, Duration::from_millis(100))
        .expect("time is over");
    let begun = Instant::now();
    etcd.put("other", "value").expect("it takes it");
    etcd.wait(revision, NEVER).expect("something came");
    assert!(begun.elapsed() < NEVER);
    etcd.revoke(lease).expect("it is there");
    etcd.revoke(lease).expect("it is gone");
    assert_eq!(etcd.keep_alive(lease).expect("it says so"), None);
    assert!(!etcd.create("key", "value", lease).expect("it says so"));
    assert_eq!(etcd.get("key").expect("it answers").0, None);
    let changes = (0..200).map(|key| Change::put(&format!("key-{key}"), "", 0));
    let error = etcd.transact(&Transaction {
        compares: Vec::new(),
        changes: changes.collect(),
    });
    let error = error.expect_err("they are too many");
    assert!(matches!(&error, EtcdError::Refused { .. }), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("too many operations in txn request"),
        "{error}"
    );
    drop(server);
    assert!(matches!(etcd.get("key"), Err(EtcdError::Silent { .. })));
}
