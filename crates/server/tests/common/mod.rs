//! A server on a small service, and a client that sees every byte.
#![allow(dead_code, missing_docs, unreachable_pub)]

use rhythm_engine::cohort::{Cell, Queries, Rows};
use rhythm_engine::compile::compile;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::conformance::BESIM;
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::program::Call;
use rhythm_engine::program::Service;
use rhythm_engine::settings::ListenAt;
use rhythm_engine::source::Sources;
use rhythm_net::{Port, Time, WorkerError};
use rhythm_server::backend::{Ask, Backend, Batch, Embedded, QueryAnswers, Tell};
use rhythm_server::{
    ConnectionOwner, DrainOptions, Handle, Inherited, Loader, LogOpener, Server, ServerOptions,
    ServerParts, Site, SiteSettings, Sites, StaticFile, Statics, system_resolver,
};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// What must come fails its test when it has not come by then, rather than keep it.
pub const WAIT_MAX: Duration = Duration::from_secs(20);

pub const SERVICE: &str = r#"
[session]
cookie = "sid"
[static]
mount = "/static/"
index = { "/" = "/hello" }
[limits]
body_bytes_max = 2000
[backend.echo]
kind = "besim"
timeout = "30s"
"#;

/// Page files and what their names are.
pub const PAGES: &[(&str, &str)] = &[
    (
        "hello.html",
        "+++\nroute = [\"GET /hello\", \"POST /hello\"]\n[params]\n\
        name = { in = [\"query\", \"form\"], type = \"text\", default = \"you\" }\n+++\n\
        <p>Hello {{ name }}!</p>",
    ),
    (
        "number.html",
        "+++\nroute = \"GET /number/{n}\"\n[params]\n\
        n = { in = \"path\", type = \"int\", min = 1, max = 99 }\n+++\n{{ 100 // (n - 7) }}",
    ),
    (
        "list.html",
        "+++\nroute = \"POST /list\"\n[params]\n\
        pay = { in = \"form\", list = 3, min_items = 1, fields = { who = { type = \"text\" }, sum \
        = { type = \"int\" } } }\n+++\n{% for p in pay %}{{ p.who }}={{ p.sum }};{% endfor %}",
    ),
    (
        "login.html",
        "+++\nroute = \"POST /login\"\n[params]\nuser = { in = \"form\", type = \"int\" }\n\
        [[step]]\nsession = \"create\"\nuser = \"user\"\n+++\nin as {{ user }}",
    ),
    (
        "me.html",
        "+++\nroute = \"GET /me\"\nsession = \"optional\"\n+++\n\
        {% if session.userid %}user {{ session.userid }}{% else %}nobody{% endif %}",
    ),
    (
        "logout.html",
        "+++\nroute = \"GET /logout\"\nsession = \"optional\"\n[[step]]\nsession = \"destroy\"\n\
        +++\nout",
    ),
    (
        "ask.html",
        "+++\nroute = \"GET /ask\"\n[params]\nq = { in = \"query\", type = \"text\" }\n[[step]]\n\
        call = \"echo\"\nrequest = \"1&3&{{ q }}\"\nrows = \"answers(text)\"\n+++\n\
        {% for a in answers %}[{{ a.text }}]{% endfor %}",
    ),
    (
        "file.html",
        "+++\nroute = [\"GET /file\", \"POST /file\"]\n[params]\n\
        name = { in = \"query\", type = \"text\" }\n\
        [[step]]\nfile = \"{{ name }}\"\n+++\n",
    ),
    (
        "gone.html",
        "+++\nroute = \"GET /gone\"\n[[step]]\nheaders = { X-Why = \"moved\" }\n[[step]]\n\
        redirect = \"/hello\"\n+++\n",
    ),
    (
        "large.html",
        "+++\nroute = \"GET /large\"\n+++\n\
        {% for i in range(20000) %}line {{ i }} of a page that is large\n{% endfor %}",
    ),
];

pub fn service_of(pages: &[(&str, &str)], toml: &str) -> Service {
    let mut sources = Sources::default();
    sources.files.insert("service.toml".into(), toml.into());
    for (name, text) in pages {
        sources
            .files
            .insert(format!("pages/{name}"), (*text).into());
    }
    for file in statics() {
        sources.static_files.insert(file.path);
    }
    match compile(&sources, BESIM) {
        Ok(service) => service,
        Err(diagnostics) => panic!("{diagnostics:#?}"),
    }
}

pub fn statics() -> Vec<StaticFile> {
    let modified = Some(UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    let file = |path: &str, bytes: Vec<u8>| StaticFile {
        path: path.into(),
        content: bytes.into(),
        modified,
    };
    vec![
        file("a.css", b"body { color: black }".to_vec()),
        file("img/b.png", (0..=255).collect()),
        file(
            "big.bin",
            (0..3_000_000u32).map(|i| (i % 251) as u8).collect(),
        ),
    ]
}

pub fn site_of(service: Service) -> Arc<Site> {
    site_with(service, statics())
}

/// A site of these files.
pub fn site_with(service: Service, files: Vec<StaticFile>) -> Arc<Site> {
    let settings = SiteSettings::of(&service);
    let statics = Statics::new(&service.config.statics.mount, files);
    Arc::new(Site::new(Arc::new(service), statics, settings).expect("a sound site"))
}

/// A backend that answers with its last argument, but keeps `never` for itself, answers `late`
/// after a while, and what begins with `held` once it is to, by [`answer_held`].
#[derive(Default)]
pub struct Echo {
    answers: QueryAnswers,
    late: Vec<(Time, u64, Vec<u8>)>,
    held: Vec<(u64, Vec<u8>)>,
    told: Vec<(u64, Vec<u8>)>,
    now: Time,
}

pub const LATE: Duration = Duration::from_millis(120);

/// What is not held any more.
static ANSWERED: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());

/// Has what is held under this name, which no other test has, answered from now on.
pub fn answer_held(name: &str) {
    let mut answered = ANSWERED.lock().expect("nobody panics");
    answered.insert(name.into());
}

/// What stands behind the last `&` of a query as text.
fn last(call: &Call, queries: &Queries, query: usize) -> Vec<u8> {
    let mut text = Vec::new();
    call.form.write(queries.arguments(query), &mut text);
    let last = text.rsplit(|byte| *byte == b'&').next();
    last.unwrap_or_default().to_vec()
}

impl ConnectionOwner for Echo {
    fn wake_at(&self) -> Option<Time> {
        let late = self.late.iter().map(|(at, ..)| *at).min();
        let held = (!self.held.is_empty()).then(|| self.now + Duration::from_millis(5));
        late.into_iter().chain(held).min()
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        self.now = now;
        let (due, rest) = self.late.drain(..).partition(|(at, ..)| *at <= now);
        let due: Vec<(Time, u64, Vec<u8>)> = due;
        self.late = rest;
        self.told
            .extend(due.into_iter().map(|(_, key, answer)| (key, answer)));
        if !self.held.is_empty() {
            let answered = ANSWERED.lock().expect("nobody panics");
            let due = |(_, name): &mut (u64, Vec<u8>)| answered.contains(name);
            self.told.extend(self.held.extract_if(.., due));
        }
    }
}

impl Backend for Echo {
    fn submit(&mut self, _: &mut dyn Port, batch: Batch<'_>, now: Time) {
        self.now = now;
        for &Ask { first, key, .. } in batch.asks {
            let query = batch.order[first] as usize;
            let text = last(batch.call, batch.queries, query);
            if text == b"late" {
                self.late.push((now + LATE, key, text));
            } else if text.starts_with(b"held") {
                self.held.push((key, text));
            } else if text != b"never" {
                self.told.push((key, text));
            }
        }
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        for (key, text) in self.told.drain(..) {
            self.answers.cell(Cell::Text(&text));
            self.answers.end_row();
            self.answers.push(key, Ok(0));
        }
        self.answers.tell(tell);
    }
}

/// As [`Echo`], but at once.
pub struct AtOnce;

impl Embedded for AtOnce {
    fn answer(&mut self, queries: &Queries, rows: &mut Rows<'_>) {
        for query in 0..queries.len() {
            let text = last(rows.call(), queries, query);
            rows.answer(query, |answer| {
                answer.row([Cell::Text(&text)]);
                0
            });
        }
    }
}

/// Gives the one site of a server anew.
pub type LoadOne = Box<dyn FnMut() -> Result<Arc<Site>, String> + Send>;

pub fn parts(site: Arc<Site>, mut loader: LoadOne) -> ServerParts {
    let sites = Sites::from(site);
    parts_of(sites, Box::new(move |_| vec![loader()]))
}

pub fn parts_of(sites: Sites, loader: Loader) -> ServerParts {
    ServerParts {
        sites,
        loader,
        resolver: system_resolver(),
        devices: Arc::new(|_, _| Ok(Box::new(ScalarExecutor::new(LaneLimits::default())))),
        device_figures: None,
        backends: Arc::new(|_, _| Box::<Echo>::default()),
        hosts: None,
        log: None,
        inherited: Inherited::default(),
    }
}

/// What was logged, for a test to read.
#[derive(Clone, Default)]
pub struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// All of it.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().expect("no writer panics").clone();
        String::from_utf8(bytes).expect("text")
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.0.lock().expect("no writer panics");
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A log that is written to this.
pub fn log_to(writer: impl Write + Send + 'static) -> LogOpener {
    let mut writer = Some(writer);
    Box::new(move || match writer.take() {
        Some(writer) => Ok(Box::new(writer)),
        None => Err(ErrorKind::NotFound.into()),
    })
}

/// A free port of this machine alone.
pub fn any_port() -> ListenAt {
    ListenAt::Tcp(([127, 0, 0, 1], 0).into())
}

/// What a service's settings say, but with one worker, at any port, and without an admin listener;
/// a shutdown does not wait long for clients that have nothing to ask.
pub fn options_of(service: &Service) -> ServerOptions {
    let options = ServerOptions::of(service);
    ServerOptions {
        drain: DrainOptions {
            grace: Duration::from_millis(100),
            ..options.drain
        },
        listen: vec![any_port()],
        admin: None,
        workers: 1,
        // A busy machine may keep what writes or exports from doing so.
        finish: WAIT_MAX / 2,
        ..options
    }
}

/// A server of one service, which a reload serves again.
pub fn serve(service: Service) -> Handle {
    let options = options_of(&service);
    serve_with(service, options)
}

pub fn serve_with(service: Service, options: ServerOptions) -> Handle {
    let site = site_of(service);
    let again = site.clone();
    Server::start(options, parts(site, Box::new(move || Ok(again.clone())))).expect("it starts")
}

pub fn start(change: impl FnOnce(&mut ServerOptions)) -> Handle {
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    change(&mut options);
    serve_with(service, options)
}

pub fn stop(handle: Handle) {
    handle.shutdown();
    end(handle).expect("its workers were well");
}

/// Waits for a server's end, and says how that was.
pub fn end(handle: Handle) -> Result<(), WorkerError> {
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = ended.send(handle.join());
    });
    end.recv_timeout(WAIT_MAX).expect("the server ends")
}

/// Waits until something holds, which is to be soon.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WAIT_MAX, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// A client that reads responses from what it has received.
pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(WAIT_MAX)).expect("a duration");
        stream.set_nodelay(true).expect("a socket");
        Client {
            stream,
            received: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server reads");
    }

    pub fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a socket");
    }

    fn more(&mut self) -> bool {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) => panic!(
                "{error}; so far {:?}",
                String::from_utf8_lossy(&self.received)
            ),
        }
    }

    /// The next response; `head_only`: to HEAD.
    pub fn response(&mut self, head_only: bool) -> Response {
        let end = loop {
            match self.received.windows(4).position(|w| w == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => assert!(
                    self.more(),
                    "closed: {:?}",
                    String::from_utf8_lossy(&self.received)
                ),
            }
        };
        let head = String::from_utf8(self.received[..end].to_vec()).expect("text");
        let status: u16 = head[9..12].parse().expect("a status");
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        let length = match status {
            100..200 | 204 | 304 => 0,
            _ if head_only => 0,
            _ => response
                .header("content-length")
                .expect("a length")
                .parse()
                .expect("a number"),
        };
        while self.received.len() < end + length {
            assert!(self.more(), "closed within a body");
        }
        response.body = self.received[end..end + length].to_vec();
        self.received.drain(..end + length);
        response
    }

    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response(false)
    }

    pub fn with(&mut self, request_line: &str, headers: &str, body: &str) -> Response {
        let length = match body {
            "" => String::new(),
            body => format!("Content-Length: {}\r\n", body.len()),
        };
        self.send(format!(
            "{request_line} HTTP/1.1\r\nHost: x\r\n{headers}{length}\r\n{body}"
        ));
        self.response(request_line.starts_with("HEAD"))
    }

    pub fn form(&mut self, path: &str, body: &str) -> Response {
        self.with(
            &format!("POST {path}"),
            "Content-Type: application/x-www-form-urlencoded\r\n",
            body,
        )
    }

    /// Whether an answer is there, or the end.
    pub fn is_ready(&self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let is_ready = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).expect("a socket");
        is_ready
    }

    /// Whether the server has dropped the connection without another byte.
    pub fn dropped(&mut self) -> bool {
        let read = self.stream.read(&mut [0; 1]);
        let silent = |error: &std::io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        };
        read.map_or_else(|error| !silent(&error), |length| length == 0)
    }

    /// Whether the server has closed, and nothing more came.
    pub fn closed(&mut self) -> bool {
        while self.more() {}
        self.received.is_empty()
    }
}

pub fn client(handle: &Handle) -> Client {
    Client::new(handle.local_addr())
}
