//! Spans: what a request, its cohort, a stage or a call did between two times, as OpenTelemetry
//! has them. Attributes are those of its semantic conventions for HTTP, and `rhythm.` and a name
//! where there is none.

use rhythm_net::Time;
use rhythm_protocol::http::request::Method;
use std::borrow::Cow;

/// Links of a span at most; of the others only the number is told.
pub(crate) const LINKS_MAX: usize = 128;

/// Bytes of a text in an attribute at most.
const TEXT_BYTES_MAX: usize = 256;

/// What a span is about, as OTLP numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// Something within the server.
    Internal = 1,
    /// A request that it answers.
    Server = 2,
    /// A request that it makes.
    Client = 3,
}

/// The span of a cohort that has requests which are recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CohortSpan {
    pub(crate) trace: u128,
    pub(crate) id: u64,
    /// That of the cohort which its first lanes were stragglers of.
    pub(crate) parent: Option<u64>,
    pub(crate) from: Time,
}

impl CohortSpan {
    /// One of these bits, which nobody else has.
    pub(crate) fn new([trace, id]: [u128; 2], from: Time) -> CohortSpan {
        CohortSpan {
            trace: trace.max(1),
            id: (id as u64).max(1),
            parent: None,
            from,
        }
    }

    /// That of the cohort which its stragglers are from now on.
    pub(crate) fn of_stragglers(&self, now: Time) -> CohortSpan {
        CohortSpan {
            id: mixed(self.id, now.as_nanos()),
            parent: Some(self.id),
            from: now,
            ..*self
        }
    }

    /// The number of one of the spans below it.
    pub(crate) fn child(&self, number: u64) -> u64 {
        mixed(self.id, number)
    }
}

/// A span's number, out of that of another, as SplitMix64 makes one of the other: so none need be
/// kept.
pub(crate) fn mixed(span: u64, number: u64) -> u64 {
    let step = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = span.wrapping_add(step);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).max(1)
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttributeValue {
    Text(Box<str>),
    Int(i64),
}

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace: u128,
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) kind: SpanKind,
    pub(crate) name: Box<str>,
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) attributes: Vec<(&'static str, AttributeValue)>,
    /// Spans of other traces.
    pub(crate) links: Vec<(u128, u64)>,
    /// Links that were too many.
    pub(crate) links_left_out: u32,
    /// It ended in an error.
    pub(crate) has_failed: bool,
}

impl Span {
    /// One of this name.
    pub(crate) fn new(
        (trace, id): (u128, u64),
        parent: Option<u64>,
        kind: SpanKind,
        name: &str,
        (from, to): (Time, Time),
    ) -> Span {
        Span {
            trace,
            id,
            parent,
            kind,
            name: shortened(name),
            from,
            to: to.max(from),
            attributes: Vec::new(),
            links: Vec::new(),
            links_left_out: 0,
            has_failed: false,
        }
    }

    /// With a text; what is long is cut off.
    pub(crate) fn text(&mut self, name: &'static str, text: &str) {
        self.attributes
            .push((name, AttributeValue::Text(shortened(text))));
    }

    /// With a number.
    pub(crate) fn int(&mut self, name: &'static str, number: impl Into<i64>) {
        self.attributes
            .push((name, AttributeValue::Int(number.into())));
    }

    /// With a link to a span of another trace.
    pub(crate) fn link(&mut self, trace: u128, span: u64) {
        match self.links.len() < LINKS_MAX {
            true => self.links.push((trace, span)),
            false => self.links_left_out += 1,
        }
    }

    /// With what a request of this line was, and whether it came over TLS, if that is known.
    pub(crate) fn request(&mut self, line: &[u8], is_tls: impl Into<Option<bool>>) {
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut words = line.split(|byte| *byte == b' ');
        let (method, target) = (words.next(), words.next());
        if let (Some(method), Some(target)) = (method, target) {
            let text = String::from_utf8_lossy(method);
            match is_known(method) {
                true => self.text("http.request.method", &text),
                false => {
                    self.text("http.request.method", "_OTHER");
                    self.text("http.request.method_original", &text);
                }
            }
            self.text("url.path", &path(target));
        }
        if let Some(is_tls) = is_tls.into() {
            self.text("url.scheme", if is_tls { "https" } else { "http" });
        }
    }

    /// With how it was answered. Who asks for what there is not has failed, and not who says so.
    pub(crate) fn status(&mut self, status: u16) {
        self.int("http.response.status_code", status);
        self.has_failed = match self.kind {
            SpanKind::Client => status >= 400,
            SpanKind::Internal | SpanKind::Server => status >= 500,
        };
        if self.has_failed {
            self.text("error.type", &status.to_string());
        }
    }

    /// With why it has failed, in a word of few, where its status does not say that it has.
    pub(crate) fn fail(&mut self, why: &str) {
        if !self.has_failed {
            self.has_failed = true;
            self.text("error.type", why);
        }
    }
}

/// What a span is called of a request of this line, of which nothing else is known: its method.
/// Clients do not make names up, since who counts by them would count without bound.
pub(crate) fn method_name(line: &[u8]) -> Cow<'_, str> {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    match is_known(word) {
        true => String::from_utf8_lossy(word),
        false => "HTTP".into(),
    }
}

/// Whether it is a method of HTTP (RFC 9110, section 9.3), one that is refused here among them.
fn is_known(method: &[u8]) -> bool {
    Method::named(method).is_some() || method == b"CONNECT"
}

/// The path of a target, which may be a whole URL (RFC 9112, section 3.2.2).
fn path(target: &[u8]) -> Cow<'_, str> {
    let target = target.split(|byte| *byte == b'?').next().unwrap_or(target);
    let text = String::from_utf8_lossy(target);
    let Some((_, behind)) = text.split_once("://").filter(|_| !text.starts_with('/')) else {
        return text;
    };
    behind
        .find('/')
        .map_or("/", |at| &behind[at..])
        .to_owned()
        .into()
}

/// As much of a text as may be, in whole letters.
fn shortened(text: &str) -> Box<str> {
    let mut ends = (0..=text.len().min(TEXT_BYTES_MAX)).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_as_the_conventions_say() {
        for (line, method, path) in [
            ("GET /a?b HTTP/1.1", "GET", "/a"),
            ("GET http://a.test:81/b/c?d=://e HTTP/1.1", "GET", "/b/c"),
            ("GET http://a.test?b HTTP/1.1", "GET", "/"),
            ("GET /a://b HTTP/1.1", "GET", "/a://b"),
            ("OPTIONS * HTTP/1.1", "OPTIONS", "*"),
            ("get / HTTP/1.1", "_OTHER", "/"),
        ] {
            let times = (Time::ZERO, Time::ZERO);
            let mut span = Span::new((1, 2), None, SpanKind::Server, "", times);
            span.request(line.as_bytes(), None);
            let text = |name: &str| {
                let mut all = span.attributes.iter();
                all.find(|(known, _)| *known == name)
                    .map(|(_, value)| value)
            };
            let told = |text: &str| AttributeValue::Text(text.into());
            assert_eq!(text("http.request.method"), Some(&told(method)), "{line}");
            assert_eq!(text("url.path"), Some(&told(path)), "{line}");
            let original = (method == "_OTHER").then(|| told("get"));
            assert_eq!(text("http.request.method_original"), original.as_ref());
            let name = if method == "_OTHER" { "HTTP" } else { method };
            assert_eq!(method_name(line.as_bytes()), name);
        }
        for (status, fails) in [(399, [false; 2]), (404, [false, true]), (500, [true; 2])] {
            let failed = [SpanKind::Server, SpanKind::Client].map(|kind| {
                let mut span = Span::new((1, 2), None, kind, "", (Time::ZERO, Time::ZERO));
                span.status(status);
                span.has_failed
            });
            assert_eq!(failed, fails, "{status}");
        }
    }

    #[test]
    fn what_clients_say_is_cut_off_and_links_are_counted() {
        let times = (Time::ZERO, Time::ZERO);
        let mut span = Span::new((1, 2), None, SpanKind::Server, &"é".repeat(500), times);
        let line = format!("GET /{}?secret=1 HTTP/1.1", "x".repeat(9000));
        span.request(line.as_bytes(), false);
        span.status(503);
        for link in 0..200 {
            span.link(1, link);
        }
        assert_eq!(span.name.len(), TEXT_BYTES_MAX);
        assert_eq!((span.links.len(), span.links_left_out), (LINKS_MAX, 72));
        assert!(span.has_failed);
        for (_, value) in &span.attributes {
            if let AttributeValue::Text(text) = value {
                assert!(text.len() <= TEXT_BYTES_MAX && !text.contains("secret"));
            }
        }
    }
}
