//! mod_rpo in Apache itself, from Debian's packages `apache2` and `apache2-dev`: each request is
//! told of, under each way in which Apache runs its processes, through reloads and killed children.

use crate::told::{ask, both, get, make, now, told, until};
use rhythm_rpo::collector::Ring;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The module, built once.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| make("apache", "mod_rpo.so", "apache2-dev"))
}

/// An Apache of its own, in a session of its own: on SIGTERM it ends all its process group.
struct Apache {
    dir: TempDir,
    port: u16,
    process: Child,
}

impl Apache {
    fn start(mpm: &str, records: u32) -> Apache {
        let dir = TempDir::new().expect("a folder");
        // The user that children become has to come in.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(dir.path(), mode).expect("its mode");
        fs::write(dir.path().join("index.html"), "hello\n").expect("a file");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let (at, module) = (dir.path().display(), module().display());
        let modules = "/usr/lib/apache2/modules";
        let user = match rustix::process::geteuid().is_root() {
            true => "User www-data\nGroup www-data\n",
            false => "",
        };
        let text = format!(
            "ServerRoot {at}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {at}/pid\n\
             ErrorLog {at}/error.log\nDefaultRuntimeDir {at}\n{user}DocumentRoot {at}\n\
             LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so\n\
             LoadModule authz_core_module {modules}/mod_authz_core.so\n\
             LoadModule dir_module {modules}/mod_dir.so\n\
             LoadModule rpo_module {module}\nRpoRing {at}/ring {records}\n\
             ErrorDocument 405 /index.html\n"
        );
        let conf = dir.path().join("httpd.conf");
        fs::write(&conf, text).expect("a file");
        let process = Command::new("setsid")
            .args(["--wait", "apache2", "-D", "FOREGROUND", "-f"])
            .arg(&conf)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Debian's apache2");
        let apache = Apache { dir, port, process };
        until("it listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        // It does so before its modules are set up.
        until("its ring is there", || {
            Ring::open(&apache.dir.path().join("ring")).is_ok()
        });
        apache
    }

    fn ring(&self) -> Ring {
        Ring::open(&self.dir.path().join("ring")).expect("a ring")
    }

    /// The status of the answer.
    fn get(&self, path: &str) -> Option<u16> {
        get(self.port, path)
    }

    fn pid(&self) -> Pid {
        let text = fs::read_to_string(self.dir.path().join("pid")).expect("a file");
        Pid::from_raw(text.trim().parse().expect("a number")).expect("a process")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        if self.dir.path().join("pid").exists() {
            let _ = kill_process(self.pid(), Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

#[test]
fn each_request_is_told_of_twice_under_each_mpm() {
    for mpm in ["prefork", "worker", "event"] {
        let apache = Apache::start(mpm, 1024);
        let mut ring = apache.ring();
        assert_eq!(apache.get("/?a=secret"), Some(200), "{mpm}");
        assert_eq!(told(&mut ring, 2), both("GET", "/", 200), "{mpm}");
        assert_eq!(apache.get("/none"), Some(404), "{mpm}");
        assert_eq!(told(&mut ring, 2), both("GET", "/none", 404), "{mpm}");
        // A path that is longer than a record's text is cut.
        let long = format!("/{}", "x".repeat(200));
        assert_eq!(apache.get(&long), Some(404), "{mpm}");
        assert_eq!(told(&mut ring, 2), both("GET", &long[..77], 404), "{mpm}");
        // What is answered with a page for errors is a request still.
        assert_eq!(ask(apache.port, "DELETE", "/"), Some(405), "{mpm}");
        assert_eq!(told(&mut ring, 2), both("DELETE", "/", 405), "{mpm}");
        // A reload keeps the ring.
        for _ in 0..3 {
            kill_process(apache.pid(), Signal::USR1).expect("it runs");
            sleep(Duration::from_millis(100));
            until("it answers after a reload", || apache.get("/").is_some());
        }
        assert!(!ring.is_replaced(), "{mpm}");
        assert!(
            told(&mut ring, 6)
                .iter()
                .all(|(method, ..)| method == "GET")
        );
        assert_eq!((ring.counts().garbage, ring.counts().lost), (0, 0), "{mpm}");
        assert!(!apache.log().contains("exit signal"), "{}", apache.log());
    }
}

#[test]
fn children_that_are_killed_hinder_nobody() {
    let apache = Apache::start("prefork", 64);
    let mut ring = apache.ring();
    let end = Instant::now() + Duration::from_secs(3);
    let answered: usize = std::thread::scope(|scope| {
        let load = || {
            let ask = || usize::from(apache.get("/").is_some());
            std::iter::repeat_with(ask)
                .take_while(|_| Instant::now() < end)
                .sum::<usize>()
        };
        let loads: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        while Instant::now() < end {
            // Of this Apache, and of nobody else.
            let parent = apache.pid().as_raw_nonzero().to_string();
            let _ = Command::new("pkill")
                .args(["-KILL", "-P", &parent])
                .status();
            sleep(Duration::from_millis(50));
            ring.look(now(), |record| assert_eq!(record.path, "/"))
                .expect("a ring");
        }
        loads
            .into_iter()
            .map(|load| load.join().expect("a load"))
            .sum()
    });
    assert!(answered > 20, "{answered} answers");
    until("it answers", || apache.get("/quiet") == Some(404));
    let mut last = 0;
    until("that is told", || {
        ring.look(now(), |record| last += usize::from(record.path == "/quiet"))
            .expect("a ring");
        last >= 2
    });
}

#[test]
fn a_file_that_is_no_ring_is_left_alone() {
    let apache = Apache::start("event", 128);
    // Before that, signals may end it.
    until("it answers", || apache.get("/") == Some(200));
    let path = apache.dir.path().join("ring");
    fs::remove_file(&path).expect("a ring");
    fs::write(&path, "somebody's log\n").expect("a file");
    kill_process(apache.pid(), Signal::USR1).expect("it runs");
    until("it says so", || {
        (apache.log()).contains("is there, and no ring: name another file, or remove it")
    });
    until("it answers", || apache.get("/") == Some(200));
    let kept = fs::read_to_string(&path).expect("it is there");
    assert_eq!(kept, "somebody's log\n");
}
