//! The device's parser, on the emulation: what it accepts it reads as the host's parser does, and
//! it accepts all that the benchmark sends.

mod device;
mod requests;

use device::{Device, Parsed, values_of};
use requests::{Rng, bank_request, mutate};
use rhythm_engine::compile::compile;
use rhythm_engine::device::conformance;
use rhythm_engine::program::Service;
use rhythm_engine::source::Sources;
use rhythm_engine_cuda::gpu::emulated::LaneOrder;
use rhythm_server::Statics;
use rhythm_server::reference::ReferenceParser;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const ORDERS: [LaneOrder; 3] = [
    LaneOrder::Ascending,
    LaneOrder::Descending,
    LaneOrder::Shuffled(7),
];

/// The service in services/banking.
fn banking() -> Arc<Service> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/banking");
    let mut sources = Sources::default();
    let mut add = |name: String, path: &Path| {
        let text = fs::read_to_string(path).expect("it is UTF-8");
        sources.files.insert(name, text);
    };
    add("service.toml".to_owned(), &folder.join("service.toml"));
    for part in ["pages", "templates"] {
        for entry in fs::read_dir(folder.join(part)).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            let name = path
                .file_name()
                .expect("files have names")
                .to_string_lossy();
            add(format!("{part}/{name}"), &path);
        }
    }
    Arc::new(compile(&sources, conformance::BESIM).expect("it compiles"))
}

/// A service with pages of this text.
fn service(pages: &[(&str, &str)]) -> Arc<Service> {
    let mut sources = Sources::default();
    let toml = r#"
[static]
mount = "/things/files/"
index = { "/old" = "/new" }
[session]
cookie = "sid"
[limits]
headers_max = 12
"#;
    sources
        .files
        .insert("service.toml".to_owned(), toml.to_owned());
    for (name, header) in pages {
        let text = format!("+++\n{header}\n+++\npage\n");
        sources.files.insert(format!("pages/{name}.html"), text);
    }
    match compile(&sources, conformance::BESIM) {
        Ok(service) => Arc::new(service),
        Err(mistakes) => panic!("{mistakes:#?}"),
    }
}

/// The host's parser.
struct Host {
    service: Arc<Service>,
    parser: ReferenceParser,
}

impl Host {
    fn new(service: &Arc<Service>) -> Host {
        let statics = Statics::new(&service.config.statics.mount, []);
        Host {
            service: service.clone(),
            parser: ReferenceParser::new(service.clone(), statics).unwrap(),
        }
    }

    fn parse(&mut self, request: &[u8]) -> Option<Parsed> {
        let parsed = self.parser.parse(request)?;
        Some(Parsed {
            page: parsed.page,
            params: values_of(&self.service.pages[parsed.page], &parsed.cohort),
            session: parsed.session.map(|session| session.to_text().to_vec()),
        })
    }

    /// Compares with what the device made of requests; gives how many it accepted.
    fn compare(&mut self, requests: &[Vec<u8>], parsed: &[Option<Parsed>]) -> usize {
        for (request, parsed) in requests.iter().zip(parsed) {
            if parsed.is_some() {
                let text = String::from_utf8_lossy(request);
                assert_eq!(*parsed, self.parse(request), "{text:?}");
            }
        }
        parsed.iter().flatten().count()
    }
}

#[test]
fn all_requests_of_the_benchmark_are_accepted_and_read_as_the_host_does() {
    let service = banking();
    let mut host = Host::new(&service);
    let mut rng = Rng(1);
    for order in ORDERS {
        let device = Device::new(&service, order);
        for count in [1, 7, 33, 256, 1024] {
            let requests: Vec<Vec<u8>> = (0..count).map(|_| bank_request(&mut rng)).collect();
            for transposed in [false, true] {
                let parsed = device.parse(&requests, 1024, transposed);
                assert_eq!(host.compare(&requests, &parsed), count, "{order:?}");
            }
        }
    }
}

#[test]
fn what_chance_makes_of_requests_is_declined_or_read_as_the_host_does() {
    let service = banking();
    let mut host = Host::new(&service);
    let mut rng = Rng(2);
    let (mut accepted, mut by_host, mut all) = (0, 0, 0);
    for order in ORDERS {
        let device = Device::new(&service, order);
        for transposed in [false, true] {
            let requests: Vec<Vec<u8>> = (0..1024)
                .map(|_| {
                    let mut request = bank_request(&mut rng);
                    mutate(&mut request, &mut rng);
                    request
                })
                .collect();
            let parsed = device.parse(&requests, 1024, transposed);
            accepted += host.compare(&requests, &parsed);
            by_host += requests
                .iter()
                .filter_map(|request| host.parse(request))
                .count();
            all += requests.len();
        }
    }
    println!("of {all} changed requests the host accepts {by_host}, the device {accepted}");
    // The device leaves little to the host of what the host accepts.
    assert!(accepted * 10 > by_host * 9, "{accepted} of {by_host}");
    assert!(by_host * 10 > all && by_host * 10 < all * 9);
}

/// A request with lines of its head, and a form.
fn request(lines: &str, form: &str) -> Vec<u8> {
    let mut text = lines.trim().replace('\n', "\r\n");
    if !form.is_empty() {
        let length = form.len();
        text += &format!(
            "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}"
        );
    }
    format!("{text}\r\n\r\n{form}").into_bytes()
}

/// Whether the device accepts each of these, after having compared it with the host.
fn accepted(service: &Arc<Service>, requests: &[Vec<u8>], request_bytes: u32) -> Vec<bool> {
    let mut host = Host::new(service);
    let device = Device::new(service, LaneOrder::Shuffled(3));
    let rows = device.parse(requests, request_bytes, false);
    host.compare(requests, &rows);
    assert_eq!(rows, device.parse(requests, request_bytes, true));
    rows.iter().map(Option::is_some).collect()
}

/// Requests that the device must accept, and such that it must not.
fn check(service: &Arc<Service>, good: &[Vec<u8>], bad: &[Vec<u8>], request_bytes: u32) {
    for (requests, wanted) in [(good, true), (bad, false)] {
        let is = accepted(service, requests, request_bytes);
        for (request, is) in requests.iter().zip(is) {
            let text = String::from_utf8_lossy(request);
            assert_eq!(is, wanted, "{text}");
        }
    }
}

#[test]
fn parameters_come_from_all_places_in_all_types() {
    let page = r#"
route = ["GET /things/{id}", "POST /things/{id}", "GET /shelf/{id}/things"]
session = "optional"
[params]
id = { in = "path", type = "int", min = -5 }
part = { in = "query", type = "text", default = "none" }
agent = { in = "header", type = "text", name = "X-Agent", max_length = 8, default = "" }
price = { in = ["query", "form"], type = "decimal", default = "0.5" }
day = { in = "query", type = "date", default = "2024-02-29" }
count = { in = ["form", "query"], type = "int", min = -10, max = 10, default = 3 }
tags = { in = ["form", "query"], type = "text", list = 3 }
[params.color]
in = ["query", "cookie"]
type = "text"
name = "Color"
one_of = ["red", "dark green", "blé"]
default = "red"
[params.rows]
in = "form"
list = 12
fields = { key = { type = "text", max_length = 4 }, number = { type = "int" } }
"#;
    let service = service(&[
        ("thing", page),
        ("list", "route = \"GET /things/list\""),
        (
            "part",
            "route = \"GET /things/{id}/{part}\"\n[params]\n\
             part = { in = \"path\", type = \"text\" }\nid = { in = \"path\", type = \"text\" }",
        ),
        (
            "most",
            "route = \"GET /things/{id}/most\"\n[params]\nid = { in = \"path\", type = \"int\" }",
        ),
        ("root", "route = [\"GET /\", \"PUT /old\"]"),
    ]);
    let get = |line: &str| request(&format!("GET {line} HTTP/1.1\nHost: h"), "");
    let with =
        |line: &str, header: &str| request(&format!("GET {line} HTTP/1.1\n{header}\nHost: h"), "");
    let post = |form: &str| request("POST /things/1 HTTP/1.1\nHost: h", form);
    let good = [
        get("/"),
        get("/things/list"),
        get("/things/7"),
        get("/things/-5?"),
        get("/things/007?Color=dark+green&other=%zz"),
        get("/things/7/left;x"),
        get("/things/7/most"),
        get("/shelf/7/things"),
        get("/things/7?Color=bl%c3%A9&part=%E6%9D%B1+%2B&&"),
        get("/things/7?price=123456789012.5&day=2000-02-29&count=-10"),
        get("/things/7?tags[0]=a&tags%5b1%5D=b+c"),
        with("/things/7", "X-Agent: \t abcdefgh \t"),
        with("/things/7", "x-agent: été\nX-AGENT: second one, too long"),
        with(
            "/things/7",
            "Cookie: Color=red; sid=0123456789abcdef0123456789abcdef01234567",
        ),
        with(
            "/things/7",
            "cookie: a; Colors=blue;Color = \"dark green\" \nCookie: Color=pink",
        ),
        with(
            "/things/7",
            "Cookie: sid=0123456789ABCDEF0123456789abcdef01234567",
        ),
        with(
            "/things/7",
            "Cookie: sid=\"0123456789abcdef0123456789abcdef01234567\"",
        ),
        with("/things/7", "Cookie:"),
        post("count=10&price=1"),
        post("tags[0]=&tags[1]=2&tags[2]=%2B"),
        request("POST /things/1?tags[0]=a HTTP/1.1\nHost: h", ""),
        post("rows=&key[0]=aaaa&key[1]=&number[0]=-999999999999999999&number[1]=0"),
        post(
            "key[0]=&number[0]=1&key[1]=&number[1]=1&key[2]=&number[2]=1&key[3]=&number[3]=1&\
             key[4]=&number[4]=1&key[5]=&number[5]=1&key[6]=&number[6]=1&key[7]=&number[7]=1&\
             key[8]=&number[8]=1&key[9]=&number[9]=1&key[10]=&number[10]=1&key[11]=&number[11]=1",
        ),
        post("unknown[x]=1&tag=1&price[0]=&%5B0%5D=&[=&]=&=&tags]=1"),
        request("POST /things/1?count=1 HTTP/1.1\nHost: h_-.~:", ""),
        request(
            "PUT /old HTTP/1.1\nHost: example.org:65535\nConnection: keep-alive",
            "",
        ),
    ];
    // What is no request for a page, or not as its page says.
    let bad = [
        get("/old"),
        get("/nothing"),
        get("/things"),
        get("/things/"),
        get("/things/7/"),
        get("/things/-6"),
        get("/things/x"),
        get("/shelf//things"),
        get("/things/x/most"),
        get("/things/7?Color=pink"),
        get("/things/7?Color=%zz"),
        get("/things/7?Color%=red"),
        get("/things/7?part=%ff"),
        get("/things/7?part=a%00"),
        get("/things/7?day=2023-02-29"),
        get("/things/7?day=2023-13-01"),
        get("/things/7?price=1."),
        get("/things/7?price=1234567890123"),
        get("/things/7?price=.5"),
        get("/things/7?count=11"),
        get("/things/7?count="),
        get("/things/7?count=-"),
        get("/things/7?count=1&count=1"),
        get("/things/7?tags[0]=a&tags[0]=b"),
        get("/things/7?tags[1]=a"),
        get("/things/7?tags[3]=a"),
        get("/things/7?tags[00]=a"),
        get("/things/7?tags[000000000000000000000000000000]=a"),
        with("/things/7", "X-Agent: abcdefghi"),
        with("/things/7", "X-Agent: a\u{7f}"),
        post("key[0]=a"),
        post("key[0]=abcde&number[0]=1"),
        post("key[0]=%E6%9D%B1a%E6%9D%B1%E6%9D%B1%E6%9D%B1&number[0]=1"),
        with("/", "Host: again"),
        request("GET / HTTP/1.1", ""),
        request("GET / HTTP/1.1\nHost: a b", ""),
        request("GET / HTTP/1.1\nHost: a@b", ""),
        request("GET / HTTP/1.1\nHost: h:65536", ""),
        request("GET /a\u{e9} HTTP/1.1\nHost: h", ""),
        request("GET  HTTP/1.1\nHost: h", ""),
        request("DELETE / HTTP/1.1\nHost: h", ""),
        request("POST / HTTP/1.1\nHost: h\nContent-Length: 1", ""),
        with("/", "A: b\n".repeat(12).trim()),
        with("/", "Connection: close"),
        // What the host would answer, and the device leaves to it.
        request("HEAD / HTTP/1.1\nHost: h", ""),
        request("GET / HTTP/1.0\nHost: h", ""),
        get("http://h/"),
        get("/things/%37"),
        get("/things/files/a"),
        post("a%20name%20of%20more%20than%2024%20bytes=1"),
        get("/things/7?count=%31"),
        get("/things/7?count=0000000000000000001"),
        get("/things/7?tags[1]=b&tags[0]=a"),
        get("/things/7?tags[]=a"),
        get("/things/7?tags=a&tags=b"),
        post("tags[0]=a&key=b&number=1"),
        request(
            "POST /things/1?tags[0]=a HTTP/1.1\nHost: h",
            "tags[0]=b&tags[1]=c",
        ),
        with("/things/7?Color=red", "Cookie: Color=red"),
        with("/", "Range: bytes=0-1"),
    ];
    check(&service, &good, &bad, 512);
}

#[test]
fn requests_that_do_not_fit_are_left_to_the_host() {
    let service = service(&[("root", "route = \"GET /\"")]);
    let sized = |bytes: usize| {
        let start = "GET / HTTP/1.1\nHost: h\nA: ";
        // The lines end with one byte more.
        request(
            &format!("{start}{}", "x".repeat(bytes - start.len() - 6)),
            "",
        )
    };
    assert_eq!(sized(256).len(), 256);
    check(
        &service,
        &[sized(255), sized(256)],
        &[sized(257), sized(400), Vec::new()],
        256,
    );
}

#[test]
fn lanes_whose_texts_do_not_fit_are_left_to_the_host() {
    let service = banking();
    let mut host = Host::new(&service);
    let mut rng = Rng(5);
    let requests: Vec<Vec<u8>> = (0..256).map(|_| bank_request(&mut rng)).collect();
    let mut device = Device::new(&service, LaneOrder::Descending);
    let mut accepted = |text_max| {
        device.text_max = text_max;
        host.compare(&requests, &device.parse(&requests, 1024, true))
    };
    let (few, more) = (accepted(16), accepted(80));
    assert!(0 < few && few < more && more < 256, "{few}, {more}");
}

#[test]
fn many_pages_are_sorted_by_fewer_warps() {
    let pages: Vec<(String, String)> = (0..600)
        .map(|page| (format!("p{page:03}"), format!("route = \"GET /{page}\"")))
        .collect();
    let pages: Vec<(&str, &str)> = (pages.iter())
        .map(|(name, header)| (name.as_str(), header.as_str()))
        .collect();
    let service = service(&pages);
    let mut rng = Rng(4);
    let requests: Vec<Vec<u8>> = (0..2000)
        .map(|_| {
            let page = rng.below(40) * rng.below(20);
            request(&format!("GET /{page} HTTP/1.1\nHost: h"), "")
        })
        .collect();
    let is = accepted(&service, &requests, 64);
    let mut host = Host::new(&service);
    let by_host: Vec<bool> = (requests.iter())
        .map(|request| host.parse(request).is_some())
        .collect();
    assert!(by_host.contains(&false));
    assert_eq!(is, by_host);
}
