//! A collector of traces, which takes OTLP as JSON over HTTP, or does not.

use crate::servers::{request, value};
use serde_json::Value;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// What it does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    Takes,
    /// It takes connections, and says nothing.
    Silent,
    /// What it says is no HTTP, and has no end.
    Raves,
    /// It says that it is busy.
    Refuses,
    /// It says so at first, and then takes what comes.
    RefusesOnce,
    /// It says that it does not take one of those that came.
    TakesAllButOne,
}

/// See the module's text. It ends with its process.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    posts: Arc<Mutex<Vec<Vec<Received>>>>,
}

/// A span that came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty: it has none.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) links: Vec<(String, String)>,
    pub(crate) has_failed: bool,
    attributes: Value,
}

impl Received {
    /// The value of an attribute, a number as its text.
    pub(crate) fn attribute(&self, key: &str) -> Option<&str> {
        let all = self.attributes.as_array().expect("a list");
        let value = &all.iter().find(|it| it["key"] == key)?["value"];
        value["stringValue"].as_str().or(value["intValue"].as_str())
    }
}

fn decode(body: &[u8]) -> Vec<Received> {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let mut spans = Vec::new();
    for resource in body["resourceSpans"].as_array().expect("resources") {
        let of = resource["resource"]["attributes"]
            .as_array()
            .expect("attributes");
        assert!(of.iter().any(|it| it["key"] == "service.name"), "{of:?}");
        for scope in resource["scopeSpans"].as_array().expect("scopes") {
            assert_eq!(scope["scope"]["name"], "rhythm");
            for span in scope["spans"].as_array().expect("spans") {
                let text = |key: &str| span[key].as_str().expect("a text").to_owned();
                let time = |key: &str| text(key).parse().expect("nanoseconds");
                let links = span["links"].as_array().expect("links").iter();
                let hex = |value: &Value| value.as_str().expect("a text").to_owned();
                spans.push(Received {
                    trace: text("traceId"),
                    id: text("spanId"),
                    parent: span["parentSpanId"].as_str().unwrap_or_default().to_owned(),
                    name: text("name"),
                    kind: span["kind"].as_u64().expect("a number"),
                    from: time("startTimeUnixNano"),
                    to: time("endTimeUnixNano"),
                    links: links
                        .map(|it| (hex(&it["traceId"]), hex(&it["spanId"])))
                        .collect(),
                    has_failed: span["status"]["code"] == 2,
                    attributes: span["attributes"].clone(),
                });
            }
        }
    }
    spans
}

impl Collector {
    pub(crate) fn new(manners: Manners) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has one");
        let posts = Arc::<Mutex<Vec<Vec<Received>>>>::default();
        let kept = posts.clone();
        std::thread::spawn(move || {
            let (mut silent, mut is_first) = (Vec::new(), true);
            for mut stream in listener.incoming().flatten() {
                let is_first = std::mem::take(&mut is_first);
                match manners {
                    Manners::Silent => silent.push(stream),
                    Manners::Raves => {
                        std::thread::spawn(
                            move || {
                                while stream.write_all(&[b'x'; 4096]).is_ok() {}
                            },
                        );
                    }
                    Manners::Refuses | Manners::RefusesOnce
                        if is_first || matches!(manners, Manners::Refuses) =>
                    {
                        let _ = request(&mut stream);
                        let _ = stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
                    }
                    Manners::Takes
                    | Manners::Refuses
                    | Manners::RefusesOnce
                    | Manners::TakesAllButOne => {
                        let Some((head, body)) = request(&mut stream) else {
                            continue;
                        };
                        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
                        assert_eq!(value(&head, "content-type"), Some("application/json"));
                        let decoded = decode(&body);
                        kept.lock().expect("nobody panics").push(decoded);
                        let answer = match manners {
                            Manners::TakesAllButOne => {
                                r#"{"partialSuccess":{"rejectedSpans":"1"}}"#
                            }
                            _ => "{}",
                        };
                        let _ = write!(
                            stream,
                            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}",
                            answer.len()
                        );
                    }
                }
            }
        });
        Collector { address, posts }
    }

    /// The spans that came until now.
    pub(crate) fn spans(&self) -> Vec<Received> {
        self.posts.lock().expect("nobody panics").concat()
    }

    /// How often some came until now.
    pub(crate) fn posts(&self) -> usize {
        self.posts.lock().expect("nobody panics").len()
    }
}
