//! Where a request comes from: whose id and trace are taken over, and what is made here.
//!
//! An id, and the choice of what is traced, are believed of those who are trusted alone; that a
//! request belongs to a trace, of everybody, since nothing follows from it here.

use super::context::{self, Parent};
use super::id::RequestId;
use super::options::WatchOptions;
use super::span::mixed;
use rhythm_engine::settings::Trusted;
use rhythm_net::Client;
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::RequestHead;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its id, where requests have some.
    pub(crate) id: Option<RequestId>,
    /// Its place in a trace, where they are traced.
    pub(crate) trace: Option<Place>,
}

/// A request's own span, and that of who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The trace and the request's span in it, and whether it is recorded.
    pub(crate) own: Parent,
    /// The span of who asks; `None` where the trace begins here.
    pub(crate) parent: Option<u64>,
    /// Its `tracestate` is passed on.
    pub(crate) has_state: bool,
    /// The client speaks TLS.
    pub(crate) is_tls: bool,
}

/// What decides. Where no requests have ids or places, there is none of it.
#[derive(Debug)]
pub(crate) struct Origins {
    pub(crate) trusted: Trusted,
    /// Requests have ids.
    pub(crate) ids: bool,
    /// Clients are told of them.
    pub(crate) answers_ids: bool,
    /// What numbers their places in traces, where they have any.
    pub(crate) traces: Option<Numbers>,
    /// Of 2^32, so many are sampled where nobody who is trusted has chosen.
    pub(crate) share: u64,
}

/// The names of the fields, in lower case.
pub(crate) const ID: &str = "x-request-id";
pub(crate) const PARENT: &str = "traceparent";
pub(crate) const STATE: &str = "tracestate";

impl Origins {
    /// What settings say, where requests are to be known by something.
    pub(crate) fn of_options(watch: &WatchOptions) -> Option<Origins> {
        let origins = Origins {
            trusted: watch.trusted.clone(),
            ids: watch.ids,
            answers_ids: watch.answers_ids,
            traces: watch.traces.then(Numbers::default),
            share: watch.share,
        };
        (origins.ids || origins.traces.is_some()).then_some(origins)
    }

    /// Where a request comes from. `random` gives bits that nobody can predict.
    pub(crate) fn of(
        &mut self,
        (peer, is_tls): (Client, bool),
        head: &RequestHead,
        bytes: &[u8],
        mut random: impl FnMut() -> u128,
    ) -> Origin {
        // Of several, which would count depends on who reads them.
        let only = |known| {
            let mut all = head.all_known(known);
            let first = all.next()?;
            all.next().is_none().then(|| first.of(bytes))
        };
        let trusted = &self.trusted;
        let is_trusted = || trusted.has(peer.address());
        let id = self.ids.then(|| {
            let taken = only(Known::XRequestId).and_then(RequestId::taken);
            let taken = taken.filter(|_| is_trusted());
            taken.unwrap_or_else(|| RequestId::made(random()))
        });
        let trace = self.traces.as_mut().map(|numbers| {
            let parent = only(Known::TraceParent).and_then(context::parse);
            // Each request has a number, of whom few are sampled: the trace is that, and the rest
            // follows from it.
            let drawn = numbers.next(random);
            let sampled = match parent {
                Some(parent) if is_trusted() => parent.sampled,
                _ => self.share > mixed(drawn as u64, 1) >> 32,
            };
            Place {
                own: Parent {
                    trace: parent.map_or(drawn, |parent| parent.trace),
                    span: mixed(drawn as u64, 0),
                    sampled,
                },
                parent: parent.map(|parent| parent.span),
                is_tls,
                has_state: parent.is_some()
                    && head.known(Known::TraceState).is_some()
                    && context::is_state(states(head, bytes)),
            }
        });
        Origin { id, trace }
    }
}

/// The values of `tracestate`.
pub(crate) fn states<'a>(head: &'a RequestHead, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let values = head.all_known(Known::TraceState);
    values.map(|value| value.of(bytes))
}

/// Numbers of traces, each mixed out of a beginning, which nobody else has, and how many there were
/// before. They need differ and nothing else, so that they cost less than bits that nobody can
/// predict.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    first: Option<u128>,
    count: u64,
}

impl Numbers {
    fn next(&mut self, random: impl FnOnce() -> u128) -> u128 {
        let first = *self.first.get_or_insert_with(random);
        self.count = self.count.wrapping_add(1);
        let half = |half: u128| u128::from(mixed(half as u64, self.count));
        half(first >> 64) << 64 | half(first)
    }
}

impl Origin {
    /// Whether a field of this name tells what is told of it here. Servers that take heads for
    /// variables (RFC 3875, section 4.1.18) do not tell `_` from `-`.
    pub(crate) fn is_told_by(&self, name: &str) -> bool {
        let is = |known: &str| {
            let same = |(a, b): (u8, u8)| a.eq_ignore_ascii_case(&b) || (a, b) == (b'-', b'_');
            known.len() == name.len() && known.bytes().zip(name.bytes()).all(same)
        };
        self.id.is_some() && is(ID) || self.trace.is_some() && (is(PARENT) || is(STATE))
    }

    /// Its place in a trace, if it is recorded.
    #[inline]
    pub(crate) fn recorded(&self) -> Option<Place> {
        self.trace.filter(|place| place.own.sampled)
    }

    /// Whether nothing is known of it.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Origin::default()
    }

    /// Appends the fields by which others are told of it, each a line: who is asked has this span
    /// of the request's trace for its parent.
    pub(crate) fn write<'a>(
        &self,
        span: Option<u64>,
        states: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) {
        if let Some(id) = &self.id {
            out.extend_from_slice(b"X-Request-Id: ");
            out.extend_from_slice(id.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        if let Some(place) = &self.trace {
            out.extend_from_slice(b"traceparent: ");
            let own = place.own;
            let span = span.unwrap_or(own.span);
            context::write(&Parent { span, ..own }, out);
            out.extend_from_slice(b"\r\n");
            if place.has_state {
                let mut joint: &[u8] = b"tracestate: ";
                for state in states {
                    out.extend_from_slice(joint);
                    out.extend_from_slice(state);
                    joint = b",";
                }
                if joint == b"," {
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }
}

impl Place {
    /// The span of what is asked before this stage of the request.
    pub(crate) fn call_span(&self, stage: u32) -> u64 {
        mixed(self.own.span, u64::from(stage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_protocol::http::head::Progress;
    use rhythm_protocol::http::request::{HeadLimits, parse_head};

    const PARENT_LINE: &str =
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";

    fn origins(trusted: &str, share: u64) -> Origins {
        Origins {
            trusted: trusted.parse().expect("networks"),
            ids: true,
            answers_ids: false,
            traces: Some(Numbers::default()),
            share,
        }
    }

    /// What is told others of a request with these lines.
    fn told(mut origins: Origins, lines: &str) -> (Origin, String) {
        let bytes = format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n").into_bytes();
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, &bytes, &HeadLimits::default());
        assert!(matches!(parsed, Ok(Progress::Complete { .. })), "{lines}");
        let mut next = 0u128;
        let random = || {
            next += 1;
            next << 127 | next
        };
        let peer = Client::At(([10, 0, 0, 1], 5).into());
        let origin = origins.of((peer, false), &head, &bytes, random);
        let mut out = Vec::new();
        origin.write(Some(7), states(&head, &bytes), &mut out);
        (origin, String::from_utf8(out).expect("text"))
    }

    #[test]
    fn ids_and_choices_are_believed_of_those_who_are_trusted() {
        let lines =
            format!("X-REQUEST-ID: abc\r\n{PARENT_LINE}tracestate: a=1\r\ntracestate: b=2\r\n");
        let (origin, text) = told(origins("10.0.0.0/8", 0), &lines);
        let place = origin.trace.expect("it is traced");
        assert!(place.own.sampled);
        assert_eq!(place.parent, Some(0xb7ad_6b71_6920_3331));
        assert_eq!(
            text,
            "X-Request-Id: abc\r\n\
             traceparent: 00-0af7651916cd43dd8448eb211c80319c-0000000000000007-01\r\n\
             tracestate: a=1,b=2\r\n"
        );
        let (origin, text) = told(origins("", 0), &lines);
        assert!(!origin.trace.expect("it is traced").own.sampled);
        assert!(text.starts_with("X-Request-Id: 8"), "{text}");
        assert!(
            text.contains("-0af7651916cd43dd8448eb211c80319c-0000000000000007-00"),
            "{text}"
        );
        let (origin, _) = told(origins("", 1 << 32), &lines);
        assert!(origin.trace.expect("it is traced").own.sampled);
    }

    #[test]
    fn what_comes_twice_or_is_malformed_is_made_anew() {
        let trusting = || origins("10.0.0.0/8", 0);
        for lines in [
            "X-Request-Id: a\r\nX-Request-Id: b\r\n".to_owned(),
            format!("{PARENT_LINE}{PARENT_LINE}tracestate: a=1\r\n"),
            "traceparent: 00-xyz\r\ntracestate: a=1\r\n".to_owned(),
            "X-Request-Id: a b\r\n".to_owned(),
        ] {
            let (origin, text) = told(trusting(), &lines);
            assert_eq!(origin.trace.expect("traced").parent, None, "{lines}");
            assert!(text.starts_with("X-Request-Id: 8"), "{lines}: {text}");
            assert!(!text.contains("tracestate"), "{lines}: {text}");
        }
        let (_, text) = told(trusting(), &format!("{PARENT_LINE}tracestate: bad\r\n"));
        assert!(
            text.contains("-0af7651916cd43dd8448eb211c80319c-"),
            "{text}"
        );
        assert!(!text.contains("tracestate"), "{text}");
    }

    #[test]
    fn traces_differ_by_all_of_their_bits_and_are_of_one_draw() {
        let (mut numbers, mut draws) = (Numbers::default(), 0);
        let mut next = || {
            numbers.next(|| {
                draws += 1;
                7 << 64 | 7
            })
        };
        let all: Vec<u128> = (0..1000).map(|_| next()).collect();
        assert_eq!(draws, 1);
        let halves = |of: fn(u128) -> u64| -> std::collections::HashSet<u64> {
            all.iter().map(|number| of(*number)).collect()
        };
        assert_eq!(halves(|number| number as u64).len(), all.len());
        assert_eq!(halves(|number| (number >> 64) as u64).len(), all.len());
    }

    #[test]
    fn spans_of_calls_differ() {
        let (origin, _) = told(origins("", 0), "");
        let place = origin.trace.expect("traced");
        let mut all: Vec<u64> = (0..100).map(|stage| place.call_span(stage)).collect();
        all.push(place.own.span);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 101);
    }
}
