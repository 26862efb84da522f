//! Proxy routes before servers that can be reached, then not, then again, and before those that end
//! connections, or answer, early.

mod common;

use common::*;
use rhythm_net::{Peer, Port, Time};
use rhythm_server::backend::{Backend, Batch, Tell};
use rhythm_server::{ConnectionOwner, Handle, Server, Site, SiteSettings, backend};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// A server that keeps connections, and may stop to take new ones. It ends with its process:
/// nobody asks it any more.
#[derive(Clone)]
struct Upstream {
    address: SocketAddr,
    /// Nobody else gets its port while it does not listen.
    _kept: Arc<OwnedFd>,
    listens: Arc<Mutex<Option<Arc<AtomicBool>>>>,
    answered: Arc<AtomicUsize>,
    /// How often it was asked whether it is well.
    checked: Arc<AtomicUsize>,
}

/// An address that is kept while this is, and at which nobody listens but who is told of it.
fn kept_port() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let kept = socket(AddressFamily::INET, SocketType::STREAM, None).expect("few files are open");
    sockopt::set_socket_reuseaddr(&kept, true).expect("a socket");
    bind(&kept, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = getsockname(&kept).and_then(SocketAddr::try_from);
    (kept, address.expect("it has one"))
}

impl Upstream {
    fn new() -> Upstream {
        let (kept, address) = kept_port();
        let upstream = Upstream {
            address,
            _kept: Arc::new(kept),
            listens: Arc::default(),
            answered: Arc::default(),
            checked: Arc::default(),
        };
        upstream.take();
        upstream
    }

    /// Connections are taken, from now on or again.
    fn take(&self) {
        let listener = TcpListener::bind(self.address).expect("nobody else has the port");
        let goes_on = Arc::new(AtomicBool::new(true));
        *self.listens.lock().expect("nobody panics") = Some(goes_on.clone());
        let counts = [self.answered.clone(), self.checked.clone()];
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !goes_on.load(Ordering::SeqCst) {
                    return;
                }
                let counts = counts.clone();
                std::thread::spawn(move || answer(OwnedFd::from(stream).into(), &counts));
            }
        });
    }

    /// Connections are refused from now on; those that stand go on.
    fn refuse(&self) {
        let goes_on = self.listens.lock().expect("nobody panics").take();
        goes_on.expect("it listens").store(false, Ordering::SeqCst);
        // Its thread sees that at the next connection, and closes the listener.
        drop(TcpStream::connect(self.address).expect("it listens"));
        eventually("it does not listen", || {
            TcpStream::connect(self.address).is_err()
        });
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers what is asked on a connection, `/slow` after a while, and counts it; apart from these,
/// once they are answered, requests for `/health`.
fn answer(mut stream: File, [answered, checked]: &[Arc<AtomicUsize>; 2]) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
        if !bytes.ends_with(b"\r\n\r\n") {
            continue;
        }
        if bytes.starts_with(b"GET /slow") {
            std::thread::sleep(Duration::from_millis(100));
        }
        let is_check = bytes.starts_with(b"GET /health");
        if !is_check {
            answered.fetch_add(1, Ordering::SeqCst);
        }
        bytes.clear();
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if stream.write_all(text).is_err() {
            return;
        }
        if is_check {
            checked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// An application at a TCP port, and one at a Unix socket, that deal with each connection so; their
/// URLs.
fn apps(name: &str, deal: impl Fn(File) + Clone + Send + 'static) -> [String; 2] {
    let name = format!("rhythm-{name}-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let unix = UnixListener::bind(&path).expect("a free path");
    let urls = [
        format!("http://{}", tcp.local_addr().expect("it has one")),
        format!("http://unix:{}", path.display()),
    ];
    let deals = deal.clone();
    spawn(move || {
        for stream in tcp.incoming().flatten() {
            deals(OwnedFd::from(stream).into());
        }
    });
    spawn(move || {
        for stream in unix.incoming().flatten() {
            deal(OwnedFd::from(stream).into());
        }
    });
    urls
}

/// The head of a request, of whose content nothing is read.
fn head_of(app: &mut File) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        app.read_exact(&mut byte).expect("a whole head");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

/// The head of an answer of so many bytes, which says that it is the last.
fn answer_of(status: &str, length: usize) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
}

/// A server with one worker that proxies all to these.
fn serve(to: &[&Upstream], more: &str) -> Handle {
    let urls: Vec<String> = to.iter().map(|it| it.url()).collect();
    serve_at(&urls, more, |_| ())
}

fn serve_at(to: &[String], more: &str, change: impl FnOnce(&mut SiteSettings)) -> Handle {
    serve_sites(vec![site_at(to, more, change)])
}

/// Serves the first of these, and with each reload the next.
fn serve_sites(mut sites: Vec<Arc<Site>>) -> Handle {
    sites.reverse();
    let first = sites.pop().expect("a first one");
    let options = options_of(first.service());
    let mut parts = parts(
        first,
        Box::new(move || sites.pop().ok_or_else(|| "no".into())),
    );
    parts.backends = Arc::new(|_, _| Box::<Holding>::default());
    Server::start(options, parts).expect("it starts")
}

fn site_at(to: &[String], more: &str, change: impl FnOnce(&mut SiteSettings)) -> Arc<Site> {
    let to: Vec<String> = to.iter().map(|url| format!("\"{url}\"")).collect();
    let to = to.join(", ");
    let toml = format!(
        "[backend.echo]\nkind = \"besim\"\n[[proxy]]\nmatch = \"/**\"\nto = [{to}]\n{more}\n"
    );
    let is_needed = |page: &&(&str, &str)| ["hello.html", "ask.html"].contains(&page.0);
    let pages: Vec<(&str, &str)> = PAGES.iter().filter(is_needed).copied().collect();
    let service = service_of(&pages, &toml);
    let mut settings = SiteSettings::of(&service);
    for route in &mut settings.proxies {
        for ((_, url), peers) in route.config.to.iter().zip(&mut route.peers) {
            *peers = backend::find(&url.place).expect("it is there");
        }
    }
    change(&mut settings);
    let statics = rhythm_server::Statics::new(&service.config.statics.mount, Vec::new());
    let site = Site::new(Arc::new(service), statics, settings);
    Arc::new(site.expect("a sound site"))
}

/// A backend that holds its worker up.
#[derive(Default)]
struct Holding(Echo);

const HELD: Duration = Duration::from_millis(400);

impl ConnectionOwner for Holding {
    fn wake_at(&self) -> Option<Time> {
        self.0.wake_at()
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        self.0.tick(port, now);
    }
}

impl Backend for Holding {
    fn submit(&mut self, port: &mut dyn Port, batch: Batch<'_>, now: Time) {
        sleep(HELD);
        self.0.submit(port, batch, now);
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        self.0.poll(tell);
    }
}

/// A server whose listener is full for a moment keeps the connections that it has. It is known to
/// be well by a new one: requests that go by those that it kept tell nothing of that.
#[test]
fn a_server_that_kept_its_connections_is_asked_as_before_once_it_takes_new_ones() {
    let (one, other) = (Upstream::new(), Upstream::new());
    let server = serve(&[&one, &other], "failures_max = 1\naside = \"200ms\"");
    let mut client = client(&server);
    for _ in 0..4 {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!((one.answered(), other.answered()), (2, 2));
    one.refuse();
    let address = server.local_addr();
    // Each has two at a time, and so needs two connections.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(Client::new(address).get("/slow").status, 200));
        }
    });
    one.take();
    std::thread::sleep(Duration::from_millis(300));
    let before = one.answered();
    for _ in 0..20 {
        assert_eq!(client.get("/").status, 200);
    }
    let asked = one.answered() - before;
    assert!((8..=12).contains(&asked), "{asked} of 20");
    stop(server);
}

/// Nothing of a request is sent where a connection is refused, so that any may wait.
#[test]
fn requests_wait_for_a_server_that_is_started_anew_and_none_is_lost() {
    let app = Upstream::new();
    let server = serve(&[&app], "keep_alive = \"0s\"\nrestart_timeout = \"20s\"");
    let address = server.local_addr();
    for round in 1..=3 {
        app.refuse();
        std::thread::scope(|scope| {
            for method in ["GET", "POST", "GET", "POST"] {
                scope.spawn(move || {
                    let mut client = Client::new(address);
                    let line = format!("{method} /app");
                    let head = "Content-Length: 0\r\n";
                    assert_eq!(client.with(&line, head, "").status, 200, "{method}");
                });
            }
            sleep(Duration::from_millis(200));
            assert_eq!(app.answered(), 4 * (round - 1));
            app.take();
        });
        assert_eq!(app.answered(), 4 * round);
    }
    stop(server);
}

/// It may be gone for good: few wait for it, all together for no longer than is said.
#[test]
fn a_server_that_stays_away_is_not_waited_for_by_all_nor_for_long() {
    let app = Upstream::new();
    let more = "keep_alive = \"0s\"\nrestart_timeout = \"3s\"\nwaiting_max = 1";
    let server = serve(&[&app], more);
    let address = server.local_addr();
    let ask = || Client::new(address).get("/").status;
    assert_eq!(ask(), 200);
    for _ in 0..2 {
        app.refuse();
        let mut two = [client(&server), client(&server)];
        for client in &mut two {
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        eventually("one is told", || two.iter().any(Client::is_ready));
        assert!(!two.iter().all(Client::is_ready), "one waits");
        assert!(two.iter_mut().all(|it| it.response(false).status == 502));
        // Its time is over: nobody waits any more.
        let start = std::time::Instant::now();
        assert!((0..10).all(|_| ask() == 502));
        assert!(start.elapsed() < Duration::from_secs(15));
        // Once it is there what is said of it begins anew.
        app.take();
        assert_eq!(ask(), 200);
    }
    stop(server);
}

/// Who waits to be asked for his content is told what he would be told with it.
#[test]
fn a_path_that_is_not_clear_is_refused_before_its_content_is_asked_for() {
    let server = serve(&[&Upstream::new()], "");
    let mut client = client(&server);
    client.send(
        "POST /a/../b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    );
    assert_eq!(client.response(false).status, 400);
    assert!(client.closed());
    stop(server);
}

/// One of a server's addresses is enough for it to be in order.
#[test]
fn a_server_is_in_order_at_whichever_of_its_addresses() {
    let (one, other) = (Upstream::new(), Upstream::new());
    let (_kept, nowhere) = kept_port();
    let health = "health = \"/health\"\nhealth_interval = \"20s\"";
    let server = serve_at(&[one.url(), other.url()], health, |settings| {
        let peers = &mut settings.proxies[0].peers[0];
        peers.insert(0, Peer::tcp("nowhere", nowhere));
    });
    eventually("both are asked", || {
        [&one, &other].map(|it| it.checked.load(Ordering::SeqCst)) == [1, 1]
    });
    let mut client = client(&server);
    for _ in 0..10 {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!((one.answered(), other.answered()), (5, 5));
    stop(server);
}

/// The last of an answer lies in the socket, and its server is gone, while a slow client does not
/// take it.
#[test]
fn an_answer_is_whole_though_its_server_is_gone_before_a_slow_client_has_it() {
    const LENGTH: usize = 16 << 20;
    let gone = Arc::new(AtomicUsize::new(0));
    let goes = gone.clone();
    let urls = apps("slow-client", move |mut app| {
        head_of(&mut app);
        let head = answer_of("200 OK", LENGTH);
        app.write_all(head.as_bytes()).expect("it is read");
        app.write_all(&vec![b'y'; LENGTH]).expect("it is read");
        drop(app);
        goes.fetch_add(1, Ordering::SeqCst);
    });
    for (before, url) in urls.into_iter().enumerate() {
        let server = serve_at(&[url], "", |_| ());
        let mut client = client(&server).stream;
        let head = b"GET /app HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        client.write_all(head).expect("it is read");
        let mut all = Vec::new();
        let mut piece = vec![0; 1 << 16];
        while gone.load(Ordering::SeqCst) == before {
            let count = client.read(&mut piece).expect("there is more");
            assert!(count > 0, "a part of the answer: {}", all.len());
            all.extend_from_slice(&piece[..count]);
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(200));
        client.read_to_end(&mut all).expect("the rest");
        let content = all.iter().filter(|byte| **byte == b'y').count();
        assert_eq!(content, LENGTH);
        stop(server);
    }
}

/// An application reads the head of a large upload alone, answers and hangs up.
#[test]
fn a_refusal_is_heard_though_its_server_takes_no_more_of_an_upload() {
    let urls = apps("refuses", |mut app| {
        let head = head_of(&mut app);
        let length = head["POST /".len()..].split(' ').next().expect("a path");
        let length = length.parse().expect("a length");
        let head = answer_of("413 Content Too Large", length);
        let answer = head + &"n".repeat(length);
        app.write_all(answer.as_bytes()).expect("there is room");
    });
    // Over TCP what the peer's kernel had no room for is lost with such an end.
    for (url, length) in urls.into_iter().zip([40_000, 100_000]) {
        let server = serve_at(std::slice::from_ref(&url), "", |_| ());
        for _ in 0..20 {
            let mut client = client(&server);
            let mut writes = client.stream.try_clone().expect("a socket");
            let head =
                format!("POST /{length} HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n");
            let writer = spawn(move || {
                // Whoever is refused may not be read to the end.
                let _ = writes.write_all(head.as_bytes());
                let _ = writes.write_all(&vec![b'z'; 8_000_000]);
            });
            let answer = client.response(false);
            assert_eq!((answer.status, answer.body.len()), (413, length), "{url}");
            drop(client);
            writer.join().expect("no panic");
        }
        stop(server);
    }
}

/// An application that answers while it is asked has as long as the client takes.
#[test]
fn an_answer_that_is_begun_early_goes_on_as_long_as_the_client_uploads() {
    let urls = apps("early", |mut app| {
        head_of(&mut app);
        let head = answer_of("200 OK", 10);
        app.write_all(head.as_bytes()).expect("it is read");
        let mut content = [0; 10];
        app.read_exact(&mut content).expect("all of it");
        app.write_all(&content).expect("it is read");
    });
    let servers = urls.map(|url| serve_at(&[url], "piece_timeout = \"2s\"", |_| ()));
    let mut clients = servers.each_ref().map(client);
    for client in &mut clients {
        client.send("POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
    }
    for digit in 0..10 {
        if [3, 6].contains(&digit) {
            sleep(Duration::from_millis(2200));
        }
        for client in &mut clients {
            client.send(digit.to_string());
        }
    }
    for client in &mut clients {
        assert_eq!(client.response(false).text(), "0123456789");
    }
    servers.into_iter().for_each(stop);
}

/// An application answers, or speaks another protocol, while it is asked; its client writes all
/// before it reads anything.
#[test]
fn a_client_may_say_all_before_it_hears_anything() {
    const LENGTH: usize = 20 << 20;
    const UPGRADE: &str = "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let urls = apps("says-all", |mut app| {
        let answer = match head_of(&mut app).contains("websocket") {
            true => format!("HTTP/1.1 101 S\r\n{UPGRADE}"),
            false => format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"),
        };
        app.write_all(answer.as_bytes()).expect("it is read");
        let mut hears = app.try_clone().expect("few files are open");
        let (heard, said) = channel();
        spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while let Ok(count @ 1..) = hears.read(&mut piece)
                && heard.send(piece[..count].to_vec()).is_ok()
            {}
        });
        spawn(move || said.iter().all(|piece| app.write_all(&piece).is_ok()));
    });
    let server = serve_at(&urls[..1], "", |_| ());
    for asks in [
        format!("GET /app HTTP/1.1\r\nHost: h\r\n{UPGRADE}"),
        format!("POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: {LENGTH}\r\n\r\n"),
    ] {
        let mut client = client(&server).stream;
        let timeout = Some(Duration::from_secs(20));
        client.set_write_timeout(timeout).expect("a socket");
        client.write_all(asks.as_bytes()).expect("it is read");
        if asks.starts_with("GET") {
            // Until the other protocol is agreed on, little of it is taken.
            client.peek(&mut [0]).expect("an answer");
        }
        client.write_all(&vec![b'z'; LENGTH]).expect("it is read");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("a whole head");
            head.push(byte[0]);
        }
        let mut content = vec![0; LENGTH];
        client.read_exact(&mut content).expect("all of it");
        assert!(content.iter().all(|byte| *byte == b'z'));
    }
    stop(server);
}

/// What a page may not have goes on to an application that may, in however many pieces it came.
#[test]
fn a_content_longer_than_a_page_may_have_is_passed_on_though_it_comes_at_once() {
    let urls = apps("long", |mut app| {
        head_of(&mut app);
        let mut content = vec![0; 3000];
        app.read_exact(&mut content).expect("all of it");
        let head = answer_of("200 OK", 0);
        app.write_all(head.as_bytes()).expect("it is read");
    });
    let server = serve_at(&urls[..1], "[limits]\nbody_bytes_max = 2000", |_| ());
    for path in ["app", "hello"] {
        let mut client = client(&server);
        let head = format!("POST /{path} HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n");
        client.send(head + &"z".repeat(3000));
        let status = if path == "app" { 200 } else { 413 };
        assert_eq!(client.response(false).status, status, "{path}");
    }
    stop(server);
}

/// Its connection becomes free at the moment at which the first of its content comes.
#[test]
fn who_finds_a_connection_when_content_comes_is_asked_for_the_rest() {
    let urls = apps("found", |mut app| {
        let head = head_of(&mut app);
        if head.starts_with("GET /hang") {
            // Until the other end is gone.
            let _ = app.read_to_end(&mut Vec::new());
            return;
        }
        let mut content = [0; 200_000];
        app.read_exact(&mut content).expect("all of it");
        let head = answer_of("200 OK", 0);
        app.write_all(head.as_bytes()).expect("it is read");
    });
    let server = serve_at(&urls[..1], "connections_max = 1", |_| ());
    let mut hangs = client(&server);
    hangs.send("GET /hang HTTP/1.1\r\nHost: h\r\n\r\n");
    sleep(Duration::from_millis(100));
    let mut waits = client(&server);
    waits.send("POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n");
    sleep(Duration::from_millis(100));
    // The worker is held up, then hears of the end and is held up again before it acts on that.
    let mut holds = [client(&server), client(&server)];
    let ask = "GET /ask?q=a HTTP/1.1\r\nHost: h\r\n\r\n";
    holds[0].send(ask);
    sleep(HELD / 4);
    drop(hangs);
    holds[1].send(ask);
    sleep(HELD);
    waits.send(vec![b'z'; 200_000]);
    assert_eq!(waits.response(false).status, 200);
    stop(server);
}

#[test]
fn websockets_leave_connections_to_requests() {
    let urls = apps("websockets", |mut app| {
        spawn(move || {
            let answer = match head_of(&mut app).contains("websocket") {
                true => {
                    "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".into()
                }
                false => answer_of("200 OK", 0),
            };
            app.write_all(answer.as_bytes()).expect("it is read");
            // Until the other end is gone.
            let _ = app.read_to_end(&mut Vec::new());
        });
    });
    // To a proxy that is trusted each connection is a client.
    let more = "connections_max = 4\nwait_timeout = \"200ms\"\ntrusted_proxies = \"127.0.0.1\"";
    let server = serve_at(&urls[..1], more, |_| ());
    let mut sockets: Vec<Client> = (0..4).map(|_| client(&server)).collect();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
    for socket in &mut sockets {
        socket.send(format!("GET /app HTTP/1.1\r\nHost: h\r\n{upgrade}\r\n\r\n"));
    }
    sleep(Duration::from_millis(50));
    assert_eq!(client(&server).get("/app").status, 200);
    let statuses: Vec<u16> = (sockets.iter_mut())
        .map(|socket| socket.response(false).status)
        .collect();
    let are = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((are(101), are(503)), (2, 2), "{statuses:?}");
    stop(server);
}

#[test]
fn a_tunnel_from_before_a_reload_keeps_nothing_of_the_site_that_was() {
    let urls = apps("tunnels", |mut app| {
        spawn(move || {
            head_of(&mut app);
            let answer = "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            app.write_all(answer.as_bytes()).expect("it is read");
            // What it is told it says again, until the other end is gone.
            let mut says = app.try_clone().expect("a socket");
            let _ = std::io::copy(&mut app, &mut says);
        });
    });
    // The second has the same route, the third another.
    let mores = ["", "", "waiting_max = 7"];
    let sites = mores.map(|more| site_at(&urls[..1], more, |_| ()));
    let watched: Vec<Weak<Site>> = sites.iter().map(Arc::downgrade).collect();
    let server = serve_sites(sites.into());
    let mut tunnels = Vec::new();
    for reload in 0..mores.len() {
        let mut tunnel = client(&server);
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
        tunnel.send(format!("GET /app HTTP/1.1\r\nHost: h\r\n{upgrade}\r\n\r\n"));
        assert_eq!(tunnel.response(false).status, 101);
        tunnels.push(tunnel);
        if reload + 1 < mores.len() {
            server.reload().expect("the next one");
        }
    }
    eventually("old sites are dropped", || {
        let kept = watched.iter().map(|site| site.strong_count() > 0);
        kept.eq([false, false, true])
    });
    for tunnel in &mut tunnels {
        tunnel.send("well?");
        let mut said = [0; 5];
        tunnel.stream.read_exact(&mut said).expect("it stands");
        assert_eq!(&said, b"well?");
    }
    stop(server);
}

#[test]
fn a_unix_socket_whose_queue_is_full_for_a_moment_is_waited_for() {
    let name = format!("rhythm-full-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a free path");
    // One may wait there, and does.
    rustix::net::listen(&listener, 0).expect("a listener");
    let _first = UnixStream::connect(&path).expect("it listens");
    let url = format!("http://unix:{}", path.display());
    let server = serve_at(&[url], "restart_timeout = \"20s\"", |_| ());
    let address = server.local_addr();
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..3)
            .map(|_| scope.spawn(move || Client::new(address).get("/").status))
            .collect();
        sleep(Duration::from_millis(200));
        spawn(move || {
            for stream in listener.incoming().flatten() {
                spawn(move || answer(OwnedFd::from(stream).into(), &Default::default()));
            }
        });
        for asked in asked {
            assert_eq!(asked.join().expect("no panic"), 200);
        }
    });
    stop(server);
    let _ = std::fs::remove_file(&path);
}

#[test]
fn a_unix_socket_whose_queue_is_full_is_there_as_long_as_it_answers() {
    let name = format!("rhythm-crowded-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a free path");
    rustix::net::listen(&listener, 0).expect("a listener");
    let url = format!("http://unix:{}", path.display());
    let more = "restart_timeout = \"1s\"\nkeep_alive = \"20s\"";
    let server = serve_at(&[url], more, |_| ());
    // It takes one connection, and no other.
    let app = spawn(move || {
        let (stream, _) = listener.accept().expect("one that asks");
        answer(OwnedFd::from(stream).into(), &Default::default());
        listener
    });
    assert_eq!(client(&server).get("/").status, 200);
    let _waits = UnixStream::connect(&path).expect("it listens");
    let address = server.local_addr();
    for round in 0..2 {
        std::thread::scope(|scope| {
            let asked = [(), ()].map(|()| scope.spawn(|| Client::new(address).get("/slow").status));
            for asked in asked {
                assert_eq!(asked.join().expect("no panic"), 200, "{round}");
            }
        });
        // Longer than it is waited for where it is started anew.
        sleep(Duration::from_millis(1500));
    }
    stop(server);
    app.join().expect("no panic");
    let _ = std::fs::remove_file(&path);
}
