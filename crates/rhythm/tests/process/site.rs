//! Sites of a test's own: a backend, and pages of one step.

use super::server::{NEVER, Server};
use super::sqlite::get;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A folder whose pages ask one backend.
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
}

impl Site {
    /// One with this table of its backend.
    pub(crate) fn new(test: &str, backend: &str) -> Site {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // What an earlier run has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("pages")).expect("a folder can be made");
        let site = Site { folder };
        site.write("service.toml", &format!("[backend.asked]\n{backend}"));
        site
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.folder.join(path), text).expect("a file can be written");
    }

    /// Adds a page of one step that answers GET.
    pub(crate) fn page(&self, name: &str, step: &str, body: &str) {
        let route = format!("route = \"GET /{name}\"\n");
        self.add(name, &route, step, body);
    }

    /// Adds a page of one step that answers a form of `name` and `text`.
    pub(crate) fn form(&self, name: &str, step: &str, body: &str) {
        let param = |name, most| {
            format!("{name} = {{ in = \"form\", type = \"text\", max_length = {most} }}\n")
        };
        let params = param("name", 1000) + &param("text", 100_000);
        let route = format!("route = \"POST /{name}\"\n[params]\n{params}");
        self.add(name, &route, step, body);
    }

    fn add(&self, name: &str, route: &str, step: &str, body: &str) {
        let page = format!("+++\n{route}[[step]]\ncall = \"asked\"\n{step}\n+++\n{body}");
        self.write(&format!("pages/{name}.html"), &page);
    }
}

/// What `rhythm check` says of a folder.
pub(crate) fn check(folder: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    let run = command.arg("check").arg(folder).output().expect("it runs");
    String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout)
}

/// Asks until it is answered with this status.
pub(crate) fn until(server: &Server, path: &str, status: u16) {
    let start = Instant::now();
    while get(server, path).0 != status {
        assert!(start.elapsed() < NEVER, "{path} is never {status}");
        thread::sleep(Duration::from_millis(20));
    }
}
