//! Servers of these tests' own: one that is proxied to and asked as a backend, and ours before it.

use crate::common::*;
use rhythm_engine::compile::compile;
use rhythm_engine::source::Sources;
use rhythm_server::{Handle, Server, ServerOptions, Site, SiteSettings, Statics, backend};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Reads a request, with content of a length that is said; `None` where there is none.
pub(crate) fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = value(&head, "content-length").map_or(0, |text| text.parse().expect("a number"));
    let mut body = bytes[end..].to_vec();
    while body.len() < length {
        let mut piece = [0; 65536];
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => body.extend_from_slice(&piece[..count]),
        }
    }
    Some((head, body))
}

/// What a head's field says.
pub(crate) fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// What answers JSON to all, and keeps the heads by which it is asked. It ends with its process:
/// nobody asks it any more.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    pub(crate) fn new() -> Upstream {
        let body = "{\"title\":\"hello\"}";
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
             X-Request-Id: of-upstream\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Upstream::says(answer, false)
    }

    /// One that hangs up in the midst of each answer.
    pub(crate) fn cutting() -> Upstream {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun";
        Upstream::says(answer.to_owned(), true)
    }

    /// None: nobody listens there.
    pub(crate) fn gone() -> Upstream {
        Upstream {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            heads: Arc::default(),
        }
    }

    fn says(answer: String, hangs_up: bool) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has one");
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let kept = heads.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (kept, answer) = (kept.clone(), answer.clone());
                std::thread::spawn(move || {
                    while let Some((head, _)) = request(&mut stream) {
                        kept.lock().expect("nobody panics").push(head);
                        if stream.write_all(answer.as_bytes()).is_err() || hangs_up {
                            return;
                        }
                    }
                });
            }
        });
        Upstream { address, heads }
    }

    /// The heads of those requests that have this in their line.
    pub(crate) fn heads(&self, path: &str) -> Vec<String> {
        let heads = self.heads.lock().expect("nobody panics");
        let has = |head: &&String| head.lines().next().is_some_and(|line| line.contains(path));
        heads.iter().filter(has).cloned().collect()
    }
}

/// A server with a page `/item` that asks the upstream, one `/spared` that can do without its
/// answer, a page `/plain`, and a route `/app/**` to
/// the upstream; and these lines in its service.toml.
pub(crate) fn serve(
    upstream: &Upstream,
    toml: &str,
    change: impl FnOnce(&mut ServerOptions),
    log: Option<Written>,
) -> Handle {
    let at = upstream.address;
    let toml = format!(
        "{toml}\n[backend.api]\nkind = \"http\"\nurl = \"http://{at}\"\n\
         [[proxy]]\nmatch = \"/app/**\"\nto = [\"http://{at}\"]\n"
    );
    let pages = [
        (
            "item.html",
            "+++\nroute = \"GET /item/{id}\"\n[params]\nid = { in = \"path\", type = \"int\" }\n\
             [[step]]\ncall = \"api\"\nget = \"/items/{{ id }}\"\nrow = \"item(title)\"\n+++\n\
             {{ item.title }} {{ id }}",
        ),
        (
            "spared.html",
            "+++\nroute = \"GET /spared\"\n[[step]]\ncall = \"api\"\nget = \"/spared\"\n\
             optional = true\nrow = \"item(title)\"\n+++\nspared",
        ),
        ("plain.html", "+++\nroute = \"GET /plain\"\n+++\nplain"),
        (
            "own.html",
            "+++\nroute = \"GET /own\"\n[[step]]\ncall = \"api\"\nget = \"/own\"\n\
             headers = { \"X-Request-ID\" = \"of-page\", \"X-Own\" = \"1\" }\n\
             row = \"item(title)\"\n[[step]]\n\
             headers = { \"X-Request-Id\" = \"of-page\", \"X-Own\" = \"1\" }\n+++\nown",
        ),
    ];
    let mut sources = Sources::default();
    sources.files.insert("service.toml".into(), toml);
    for (name, text) in pages {
        sources.files.insert(format!("pages/{name}"), text.into());
    }
    for file in statics() {
        sources.static_files.insert(file.path);
    }
    let service = match compile(&sources, &backend::kinds()) {
        Ok(service) => service,
        Err(diagnostics) => panic!("{diagnostics:#?}"),
    };
    let mut options = options_of(&service);
    change(&mut options);
    let mut settings = SiteSettings::of(&service);
    for (config, settings) in service.backends.iter().zip(&mut settings.backends) {
        settings.peers = backend::locate(config).expect("it is there");
    }
    for route in &mut settings.proxies {
        for ((_, url), peers) in route.config.to.iter().zip(&mut route.peers) {
            *peers = backend::find(&url.place).expect("it is there");
        }
    }
    let files = Statics::new(&service.config.statics.mount, statics());
    let site = Site::new(Arc::new(service), files, settings).expect("a sound site");
    let mut parts = parts(Arc::new(site), Box::new(|| Err("no".into())));
    parts.backends = Arc::new(|site, index| {
        let settings = &site.settings().backends[index];
        let config = settings.config.as_ref().expect("of service.toml");
        backend::open(config, &settings.peers).expect("it can be opened")
    });
    parts.log = log.map(log_to);
    Server::start(options, parts).expect("it starts")
}
