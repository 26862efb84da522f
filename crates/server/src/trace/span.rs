//! Spans: what a request, its cohort, a stage or a call did between two times, as OpenTelemetry
//! has them. Attributes are those of its semantic conventions for HTTP, and `rhythm.` and a name
//! where there is none.

use rhythm_net::Time;

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
    /// It ended in an error of the server's.
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
            let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
            self.text("http.request.method", &String::from_utf8_lossy(method));
            self.text("url.path", &String::from_utf8_lossy(path));
        }
        if let Some(is_tls) = is_tls.into() {
            self.text("url.scheme", if is_tls { "https" } else { "http" });
        }
    }

    /// With how it was answered.
    pub(crate) fn status(&mut self, status: u16) {
        self.int("http.response.status_code", status);
        self.has_failed = status >= 500;
        if self.has_failed {
            self.text("error.type", &status.to_string());
        }
    }
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
