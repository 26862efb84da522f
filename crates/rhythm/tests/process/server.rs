//! A server's process, and a client that notices when a request is lost.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough to mean never: with it a test that would hang fails.
pub(crate) const NEVER: Duration = Duration::from_secs(60);

/// A service with one page, in a folder of the test's own.
pub(crate) fn service(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(folder.join("pages")).expect("a folder can be made");
    let page = "+++\nroute = [\"GET /hello\", \"POST /hello\"]\n[params]\n\
                name = { in = [\"query\", \"form\"], type = \"text\", default = \"you\" }\n\
                +++\n<h1>Hello, {{ name }}</h1>\n";
    std::fs::write(folder.join("service.toml"), "").expect("a file can be written");
    std::fs::write(folder.join("pages/hello.html"), page).expect("a file can be written");
    folder
}

/// Whether a process has come to where it does something of its own at a signal: before that it
/// would end like any other.
pub(crate) fn watches_for(process: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let caught = lines.find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.unwrap_or(0) & 1 << (signal.as_raw() - 1) != 0
}

/// A server's process; killed when dropped.
pub(crate) struct Server {
    child: Child,
    log: Arc<Mutex<Vec<serde_json::Value>>>,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Where the admin listener is.
    pub(crate) admin: SocketAddr,
}

impl Server {
    /// Starts one, with flags of `rhythm serve`.
    pub(crate) fn start(folder: &Path, flags: &[&str]) -> Server {
        Server::start_by("exec \"$0\" \"$@\"", Stdio::null(), folder, flags)
    }

    /// Starts one that has a listening socket of this process, as systemd would pass it.
    pub(crate) fn start_with(socket: &TcpListener, folder: &Path, flags: &[&str]) -> Server {
        let socket = socket.try_clone().expect("a file");
        // It comes as standard input, and goes to where such sockets are.
        let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 0</dev/null";
        Server::start_by(script, OwnedFd::from(socket).into(), folder, flags)
    }

    /// Starts one through a line of shell, which is given the command as `$0` and `$@`.
    pub(crate) fn start_by(script: &str, input: Stdio, folder: &Path, flags: &[&str]) -> Server {
        let mut child = Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_rhythm"), "serve"])
            .arg(folder)
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--log-format", "json", "--workers", "2"])
            .args(flags)
            .stdin(input)
            .stderr(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let errors = child.stderr.take().expect("it is piped");
        let log: Arc<Mutex<Vec<serde_json::Value>>> = Arc::default();
        let written = log.clone();
        thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(line.into());
                written.lock().expect("no panic").push(line);
            }
        });
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Server {
            child,
            log,
            address: nowhere,
            admin: nowhere,
        };
        let serving = server.said("serving");
        let field = |name: &str| {
            let places = serving["fields"][name].as_str()?;
            // Behind it there may be Unix sockets.
            places.split(' ').next()?.parse().ok()
        };
        server.address = field("address").unwrap_or(nowhere);
        server.admin = field("admin").unwrap_or(nowhere);
        server
    }

    /// The first line of the log with this in its message, once it is there.
    pub(crate) fn said(&self, words: &str) -> serde_json::Value {
        self.said_of(|line| {
            let message = line["fields"]["message"].as_str();
            message.is_some_and(|message| message.contains(words))
        })
    }

    /// The first line of the log that is such, once it is there.
    pub(crate) fn said_of(&self, is: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let start = Instant::now();
        loop {
            let log = self.log.lock().expect("no panic").clone();
            if let Some(line) = log.iter().find(|line| is(line)) {
                return line.clone();
            }
            assert!(start.elapsed() < NEVER, "it is not said: {log:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// All places where clients connect: those without TLS, then those with it.
    pub(crate) fn places(&self) -> Vec<SocketAddr> {
        let fields = &self.said("serving")["fields"];
        let places = ["address", "tls_address"].map(|name| fields[name].as_str());
        let all = places.into_iter().flatten().flat_map(|it| it.split(' '));
        all.filter_map(|it| it.parse().ok()).collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Status and content of what the admin listener answers.
    pub(crate) fn ask_admin(&self, path: &str) -> (u16, String) {
        let answer = Client::new(self.admin)
            .ask("GET", path, "")
            .expect("an answer");
        (answer.status, answer.body)
    }

    /// Whether it takes most of a processor, in a tenth of a second from now on.
    pub(crate) fn is_busy(&self) -> bool {
        let took = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
            let stat = stat.expect("it runs");
            let (_, rest) = stat.rsplit_once(") ").expect("behind its name");
            // utime and stime (proc(5)), in hundredths of a second.
            let fields = rest.split(' ').skip(11).take(2);
            let ticks = fields.map(|field| field.parse::<u64>().expect("a number"));
            ticks.sum::<u64>()
        };
        let before = took();
        thread::sleep(Duration::from_millis(100));
        took() - before >= 5
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(start.elapsed() < NEVER, "the server does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended cannot be killed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// It says that the connection ends with it.
    pub(crate) closes: bool,
    /// The cookies that it sets, each by name and value.
    pub(crate) cookies: Vec<String>,
    /// Where it leads.
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

/// A client's connection.
pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

/// What a client reads and writes.
pub(crate) trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("it listens");
        Client::of(stream)
    }

    pub(crate) fn of(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(NEVER)).expect("a duration");
        stream.set_nodelay(true).expect("a socket");
        Client::over(stream)
    }

    /// A client that writes to and reads from this.
    pub(crate) fn over(stream: impl Stream + 'static) -> Client {
        Client {
            stream: BufReader::new(Box::new(stream)),
        }
    }

    /// A client at a Unix socket.
    pub(crate) fn at(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(NEVER)).expect("a duration");
        Client::over(stream)
    }

    pub(crate) fn send(&mut self, bytes: &str) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes.as_bytes())
    }

    /// Asks, and reads the answer. An error is a request that is lost.
    pub(crate) fn ask(&mut self, method: &str, path: &str, form: &str) -> std::io::Result<Answer> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        if !form.is_empty() {
            let kind = "application/x-www-form-urlencoded";
            let length = form.len();
            request += &format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n");
        }
        self.send(&format!("{request}\r\n{form}"))?;
        self.answer()
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> std::io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let fields = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value).collect::<Vec<_>>()
        };
        let field = |name: &str| fields(name).first().copied();
        let length = field("content-length").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let cookies = fields("set-cookie").into_iter();
        let cookies = cookies.filter_map(|cookie| cookie.split(';').next());
        Ok(Answer {
            cookies: cookies.map(str::to_owned).collect(),
            location: field("location").map(str::to_owned),
            status: head[9..12].parse().expect("a status"),
            closes: field("connection").is_some_and(|it| it.eq_ignore_ascii_case("close")),
            body: String::from_utf8(body).expect("text"),
        })
    }

    /// Waits until the server ends the connection without another byte.
    pub(crate) fn closed(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0]), Ok(1..))
    }
}
