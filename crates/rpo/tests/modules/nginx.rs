//! ngx_http_rpo_module in nginx itself, from Debian's packages `nginx` and `nginx-dev`: each
//! request is told of, through reloads and killed workers; and nginx's access log by syslog,
//! without it.

use crate::told::{ask, both, get, make, now, told, until};
use rhythm_rpo::collector::{Datagrams, Form, Record, Ring, What};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The module, built once.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| make("nginx", "ngx_http_rpo_module.so", "nginx-dev"))
}

/// Lines of `http` that have it send its access log to AT/log.sock, as docs/rpo.md has them.
pub(crate) const LOG: &str = "log_format rpo '$remote_addr - - [$time_local] \"$request\" $status \
                              $bytes_sent $request_time';\n\
                              access_log syslog:server=unix:AT/log.sock rpo;";

/// An nginx of its own, with two workers.
pub(crate) struct Nginx {
    pub(crate) dir: TempDir,
    pub(crate) port: u16,
    /// Another port, of HTTP/2.
    port2: u16,
    process: Option<Child>,
}

impl Nginx {
    /// Its folder and configuration; `http` are more lines of that, where AT is the folder.
    fn configured(http: &str) -> Nginx {
        let dir = TempDir::new().expect("a folder");
        // The user that workers become has to come in.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        fs::write(dir.path().join("index.html"), "hello\n").expect("a file");
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [port, port2] = free.map(|free| free.local_addr().expect("an address").port());
        let nginx = Nginx {
            dir,
            port,
            port2,
            process: None,
        };
        nginx.configure(http);
        nginx
    }

    fn configure(&self, http: &str) {
        let (at, module, port) = (self.dir.path().display(), module().display(), self.port);
        let (port2, http) = (self.port2, http.replace("AT", &at.to_string()));
        let user = match rustix::process::geteuid().is_root() {
            true => "user www-data;",
            false => "",
        };
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {at}/{of};\n"))
            .concat();
        let text = format!(
            "load_module {module};\n{user}\nworker_processes 2;\npid {at}/pid;\n\
             error_log {at}/error.log;\nevents {{}}\nhttp {{\n{temp}{http}\n\
             server {{\nlisten 127.0.0.1:{port};\nlisten 127.0.0.1:{port2} http2;\nroot {at};\n\
             error_page 405 /index.html;\nlog_subrequest on;\n\
             location /inner {{ internal; }}\n\
             location /asks {{ auth_request /allowed; alias {at}/index.html; }}\n\
             location /allowed {{ return 204; }}\n\
             location /named {{ try_files /none @other; }}\n\
             location @other {{ return 418; }}\n}}\n}}\n"
        );
        fs::write(self.dir.path().join("nginx.conf"), text).expect("a file");
    }

    fn command(&self) -> Command {
        // It ends with the test, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "nginx", "-c"]);
        command.arg(self.dir.path().join("nginx.conf"));
        command.arg("-e").arg(self.dir.path().join("error.log"));
        command.stdin(Stdio::null());
        command
    }

    fn check(&self) -> Output {
        self.command().arg("-t").output().expect("Debian's nginx")
    }

    pub(crate) fn start(http: &str) -> Nginx {
        let mut nginx = Nginx::configured(http);
        nginx.run();
        nginx
    }

    fn run(&mut self) {
        let mut command = self.command();
        command.args(["-g", "daemon off;"]).stderr(Stdio::null());
        self.process = Some(command.spawn().expect("Debian's nginx"));
        until("it runs", || self.workers().len() == 2);
        until("it listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    fn ring(&self) -> Ring {
        Ring::open(&self.dir.path().join("ring")).expect("a ring")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.process.as_ref().expect("it was started"))
    }

    pub(crate) fn workers(&self) -> Vec<Pid> {
        let pid = self.pid().as_raw_nonzero();
        let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let words = text.unwrap_or_default();
        let pids = words.split_whitespace().map(|word| word.parse().ok());
        pids.filter_map(|pid| Pid::from_raw(pid?)).collect()
    }

    /// Has it read its configuration anew, and waits until only new workers are left.
    pub(crate) fn reload(&self) {
        let before = self.workers();
        kill_process(self.pid(), Signal::HUP).expect("it runs");
        until("new workers", || {
            let now = self.workers();
            now.len() == 2 && !now.iter().any(|worker| before.contains(worker))
        });
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = kill_process(Pid::from_child(&process), Signal::TERM);
            let _ = process.wait();
        }
    }
}

#[test]
fn each_request_is_told_of_twice() {
    let nginx = Nginx::start("rpo_ring AT/ring 1024;");
    let mut ring = nginx.ring();
    let mut tell = |method: &str, path: &str, status, told_path: &str| {
        assert_eq!(ask(nginx.port, method, path), Some(status), "{path}");
        assert_eq!(told(&mut ring, 2), both(method, told_path, status));
    };
    tell("GET", "/?a=secret", 200, "/");
    tell("GET", "/none", 404, "/none");
    let long = format!("/{}", "x".repeat(200));
    // A path that is longer than a record's text is cut.
    tell("GET", &long, 404, &long[..77]);
    tell("GET", "http://localhost/%41?q", 404, "/%41");
    // Internal redirects, pages for errors and subrequests are parts of the request they began in.
    tell("POST", "/", 405, "/");
    tell("GET", "/asks", 200, "/asks");
    tell("GET", "/named", 418, "/named");
    tell("GET", "/inner", 404, "/inner");
    // What is no request is none that came.
    assert_eq!(ask(nginx.port, "GET", "no-path"), Some(400));
    tell("HEAD", "/", 200, "/");
    // Requests over one connection, begun before the first is answered.
    let mut to = TcpStream::connect(("127.0.0.1", nginx.port)).expect("it listens");
    let one = "GET /one HTTP/1.1\r\nHost: h\r\n\r\n";
    let two = "GET /two HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    write!(to, "{one}{two}").expect("it reads");
    to.read_to_end(&mut Vec::new()).expect("it answers");
    assert_eq!(
        told(&mut ring, 4),
        [both("GET", "/one", 404), both("GET", "/two", 404)].concat()
    );
    for (path, told_path) in [("/a", "/a"), ("/b?x", "/b")] {
        let asked = Command::new("curl")
            .args(["-s", "--http2-prior-knowledge"])
            .arg(format!("http://127.0.0.1:{}{path}", nginx.port2))
            .output();
        assert!(asked.expect("curl").status.success());
        assert_eq!(told(&mut ring, 2), both("GET", told_path, 404));
    }
    assert_eq!((ring.counts().garbage, ring.counts().lost), (0, 0));
    assert!(!nginx.log().contains("exited on signal"), "{}", nginx.log());
}

/// Asks from four threads until the end, and says how many answers there were to how many requests.
fn load(port: u16, end: Instant, mut meanwhile: impl FnMut()) -> (usize, usize) {
    std::thread::scope(|scope| {
        let load = || {
            let (mut answered, mut asked) = (0, 0);
            while Instant::now() < end {
                asked += 1;
                answered += usize::from(get(port, "/") == Some(200));
            }
            (answered, asked)
        };
        let loads: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        while Instant::now() < end {
            meanwhile();
        }
        let all = loads.into_iter().map(|load| load.join().expect("a load"));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    })
}

/// The tokens of requests that came, and of those that were answered; each once.
#[derive(Default)]
struct Seen {
    came: HashSet<u64>,
    answered: HashSet<u64>,
}

impl Seen {
    fn look(&mut self, ring: &mut Ring) {
        let look = ring.look(now(), |record| {
            assert_eq!((record.method, record.path), ("GET", "/"));
            let set = match record.what {
                What::Arrived => &mut self.came,
                _ => &mut self.answered,
            };
            assert!(set.insert(record.token), "a token twice");
        });
        look.expect("a ring");
    }
}

#[test]
fn reloads_lose_nothing() {
    let nginx = Nginx::start("rpo_ring AT/ring 65536;");
    let (mut ring, mut seen) = (nginx.ring(), Seen::default());
    let mut reloads = 0;
    let end = Instant::now() + Duration::from_secs(3);
    let (answered, asked) = load(nginx.port, end, || {
        nginx.reload();
        reloads += 1;
        seen.look(&mut ring);
        // A check of the configuration leaves it alone.
        assert!(nginx.check().status.success());
    });
    assert!(reloads > 2 && answered == asked, "{reloads} {answered}");
    until("all is told", || {
        seen.look(&mut ring);
        seen.answered.len() == answered
    });
    assert_eq!(seen.came, seen.answered);
    assert!(!ring.is_replaced());
    assert_eq!((ring.counts().garbage, ring.counts().lost), (0, 0));
    assert!(!nginx.log().contains("exited on signal"), "{}", nginx.log());
    // With another number of records there is another file; without a ring, nothing is told.
    nginx.configure("rpo_ring AT/ring 128;");
    nginx.reload();
    assert!(ring.is_replaced());
    let mut ring = nginx.ring();
    assert_eq!(get(nginx.port, "/next"), Some(404));
    assert_eq!(told(&mut ring, 2), both("GET", "/next", 404));
    nginx.configure("");
    nginx.reload();
    assert_eq!(get(nginx.port, "/quiet"), Some(404));
    assert_eq!(ring.look(now(), |_| ()).expect("a ring"), 0);
}

#[test]
fn workers_that_are_killed_hinder_nobody() {
    let nginx = Nginx::start("rpo_ring AT/ring 65536;");
    let (mut ring, mut seen) = (nginx.ring(), Seen::default());
    let (mut kills, end) = (0, Instant::now() + Duration::from_secs(3));
    let (answered, asked) = load(nginx.port, end, || {
        for worker in nginx.workers() {
            kills += usize::from(kill_process(worker, Signal::KILL).is_ok());
            sleep(Duration::from_millis(20));
        }
        seen.look(&mut ring);
    });
    assert!(kills > 10 && answered > 20, "{kills} {answered}");
    until("it answers", || get(nginx.port, "/") == Some(200));
    until("what was answered is told, but for what kills cut", || {
        seen.look(&mut ring);
        seen.answered.len() + kills > answered
    });
    eprintln!(
        "{kills} kills, {answered} of {asked} answered, {:?}",
        ring.counts()
    );
    assert!(seen.came.len() <= asked + 1);
    assert!(seen.answered.is_subset(&seen.came), "nothing is made up");
}

#[test]
fn a_ring_that_cannot_be_is_said_and_requests_are_served() {
    let nginx = Nginx::start("rpo_ring AT/none/ring;");
    assert_eq!(get(nginx.port, "/"), Some(200));
    let log = nginx.log();
    assert!(
        log.contains("/none/ring cannot be opened") && log.contains("No such file"),
        "{log}"
    );
    for (line, words) in [
        ("rpo_ring AT/ring 100;", "a power of two"),
        ("rpo_ring AT/ring 64k;", "a power of two"),
        ("rpo_ring '';", "has no path"),
        ("rpo_ring AT/a; rpo_ring AT/b;", "is duplicate"),
        ("server { rpo_ring AT/ring; }", "not allowed here"),
    ] {
        nginx.configure(line);
        let output = nginx.check();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}

#[test]
fn a_ring_that_a_worker_wrote_over_is_made_anew() {
    let mut nginx = Nginx::configured("rpo_ring AT/ring 128;");
    nginx.run();
    assert_eq!(get(nginx.port, "/"), Some(200));
    let path = nginx.dir.path().join("ring");
    let ring = fs::File::options().write(true).open(&path).expect("a ring");
    ring.write_all_at(&[0xff; 16], 0).expect("its head");
    let checked = nginx.check();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!said.contains("no ring"), "{said}");
    nginx.reload();
    let (mut ring, mut told) = (nginx.ring(), 0);
    until("it is told of", || {
        assert_eq!(get(nginx.port, "/new"), Some(404));
        let mut take = |record: Record<'_>| told += usize::from(record.path == "/new");
        ring.look(now(), &mut take).expect("a ring");
        told > 0
    });
}

#[test]
fn a_file_that_is_no_ring_is_left_alone() {
    for text in ["somebody's log\n", ""] {
        let mut nginx = Nginx::configured("rpo_ring AT/ring 128;");
        let path = nginx.dir.path().join("ring");
        fs::write(&path, text).expect("a file");
        fs::write(nginx.dir.path().join("ring.new"), text).expect("a file");
        let said = String::from_utf8_lossy(&nginx.check().stderr).into_owned();
        let words = "is there, and no ring: name another file, or remove it";
        assert!(said.contains(words), "{said}");
        nginx.run();
        assert_eq!(get(nginx.port, "/"), Some(200));
        assert!(nginx.log().contains(words), "{}", nginx.log());
        for name in ["ring", "ring.new"] {
            let kept = fs::read_to_string(nginx.dir.path().join(name));
            assert_eq!(kept.expect("it is there"), text, "{name}");
        }
        fs::remove_file(&path).expect("a file");
        nginx.reload();
        assert_eq!(nginx.ring().look(now(), |_| ()).expect("a ring"), 0);
    }
}

#[test]
fn a_ring_that_others_may_shorten_is_replaced() {
    let nginx = Nginx::start("rpo_ring AT/ring 128;");
    let path = nginx.dir.path().join("ring");
    let second = nginx.dir.path().join("second");
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).expect("a file"));
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
    let spoil: [&dyn Fn() -> std::io::Result<()>; 4] = [
        &|| set_mode(0o620),
        &|| set_mode(0o602),
        &|| fs::hard_link(&path, &second),
        &|| match rustix::process::geteuid().is_root() {
            true => std::os::unix::fs::chown(&path, Some(4711), None),
            // Only root can make files of others.
            false => set_mode(0o606),
        },
    ];
    for (case, spoil) in spoil.iter().enumerate() {
        // One that nobody has spoiled stays.
        let before = inode();
        nginx.reload();
        assert_eq!(inode(), before, "{case}");
        spoil().expect("it is ours");
        nginx.reload();
        assert_ne!(inode(), before, "{case}");
        let mut ring = nginx.ring();
        assert_eq!(get(nginx.port, "/next"), Some(404));
        assert_eq!(told(&mut ring, 2), both("GET", "/next", 404));
    }
}

#[test]
fn access_logs_by_syslog_tell_of_what_was_answered() {
    let mut nginx = Nginx::configured(LOG);
    let path = nginx.dir.path().join("log.sock");
    let mut socket = Datagrams::bind(&path, 0o666, Form::AccessLog).expect("a socket");
    nginx.run();
    assert_eq!(get(nginx.port, "/?a=b"), Some(200));
    assert_eq!(ask(nginx.port, "POST", "/"), Some(405));
    let mut told = Vec::new();
    until("both are told of", || {
        socket.look(|record| {
            let What::Whole { took, status } = record.what else {
                panic!("a log has whole requests");
            };
            assert!(took.is_some_and(|took| took < Duration::from_secs(30)));
            told.push((record.method.to_owned(), record.path.to_owned(), status));
        });
        told.len() >= 2
    });
    let own = |method: &str, path: &str, status| (method.to_owned(), path.to_owned(), status);
    assert_eq!(told, [own("GET", "/?a=b", 200), own("POST", "/", 405)]);
    assert_eq!(socket.counts().garbage, 0);
}
