//! Proxy routes before servers that can be reached, then not, then again.

mod common;

use common::*;
use rhythm_server::{Handle, Server, SiteSettings, backend};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server that keeps connections, and may stop to take new ones. It ends with its process:
/// nobody asks it any more.
#[derive(Clone)]
struct Upstream {
    address: SocketAddr,
    listens: Arc<Mutex<Option<Arc<AtomicBool>>>>,
    answered: Arc<AtomicUsize>,
}

impl Upstream {
    fn new() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let upstream = Upstream {
            address: listener.local_addr().expect("it has one"),
            listens: Arc::default(),
            answered: Arc::default(),
        };
        upstream.listen(listener);
        upstream
    }

    fn listen(&self, listener: TcpListener) {
        let goes_on = Arc::new(AtomicBool::new(true));
        *self.listens.lock().expect("nobody panics") = Some(goes_on.clone());
        let answered = self.answered.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !goes_on.load(Ordering::SeqCst) {
                    return;
                }
                let answered = answered.clone();
                std::thread::spawn(move || answer(stream, &answered));
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

    /// They are taken again.
    fn take(&self) {
        self.listen(TcpListener::bind(self.address).expect("nobody else has the port"));
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }
}

/// Answers what is asked on a connection, `/slow` after a while.
fn answer(mut stream: TcpStream, answered: &AtomicUsize) {
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
        bytes.clear();
        answered.fetch_add(1, Ordering::SeqCst);
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if stream.write_all(text).is_err() {
            return;
        }
    }
}

/// A server with one worker that proxies all to these.
fn serve(to: &[&Upstream], more: &str) -> Handle {
    let to: Vec<String> = to
        .iter()
        .map(|it| format!("\"http://{}\"", it.address))
        .collect();
    let to = to.join(", ");
    let toml = format!("[[proxy]]\nmatch = \"/**\"\nto = [{to}]\n{more}\n");
    let service = service_of(&[], &toml);
    let options = options_of(&service);
    let mut settings = SiteSettings::of(&service);
    for route in &mut settings.proxies {
        for ((_, url), peers) in route.config.to.iter().zip(&mut route.peers) {
            *peers = backend::find(&url.place).expect("it is there");
        }
    }
    let statics = rhythm_server::Statics::new(&service.config.statics.mount, Vec::new());
    let site = rhythm_server::Site::new(Arc::new(service), statics, settings);
    let parts = parts(
        Arc::new(site.expect("a sound site")),
        Box::new(|| Err("no".into())),
    );
    Server::start(options, parts).expect("it starts")
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
