//! What the tests of all modules need: the module built, requests, and what a ring tells of them.

use rhythm_rpo::collector::{Ring, What};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A record: method, path, and status, which is 0 for arrivals.
pub(crate) type Told = (String, String, u16);

/// Builds the module in a folder of modules/, and says where it is.
pub(crate) fn make(folder: &str, module: &str, package: &str) -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("module-{folder}"));
    let made = Command::new("make")
        .arg("-C")
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("modules")
                .join(folder),
        )
        .arg(format!("OUT={}", out.display()))
        .output()
        .expect("make runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(
        made.status.success(),
        "the module needs Debian's {package} and make: {said}"
    );
    out.join(module)
}

/// Waits, not for long.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// The status of the answer to a request, on a connection of its own.
pub(crate) fn ask(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut to = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    to.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    to.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// The same, of a GET.
pub(crate) fn get(port: u16, path: &str) -> Option<u16> {
    ask(port, "GET", path)
}

/// What a ring is looked into with: a clock.
pub(crate) fn now() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGIN.elapsed()
}

/// What a ring tells until there are so many records.
pub(crate) fn told(ring: &mut Ring, count: usize) -> Vec<Told> {
    let mut told = Vec::new();
    until("all is told", || {
        let look = ring.look(now(), |record| {
            let status = match record.what {
                What::Arrived => 0,
                What::Completed { took, status } => {
                    assert!(took > Duration::ZERO && took < Duration::from_secs(30));
                    status
                }
                What::Whole { .. } => panic!("a ring has arrivals and completions"),
            };
            assert_ne!(record.token, 0);
            told.push((record.method.to_owned(), record.path.to_owned(), status));
        });
        look.expect("a ring");
        told.len() >= count
    });
    told
}

/// The two records of a request.
pub(crate) fn both(method: &str, path: &str, status: u16) -> [Told; 2] {
    [0, status].map(|status| (method.to_owned(), path.to_owned(), status))
}
