//! Spans in the form in which a collector takes them: OTLP, as JSON (the OpenTelemetry Protocol,
//! *JSON Protobuf Encoding*). It is written from the spans as they lie, names of fields as they
//! stand here, without a tree of it, since whoever is traced at a percent is not to feel it.
//!
//! JSON and not Protobuf, since the protocol lets both be sent to the same place, and this needs no
//! generated code: bytes here are few beside what a collector does with them.

use super::context::write_hex;
use super::span::{AttributeValue, Span};
use rhythm_net::Time;
use std::fmt::Display;
use std::io::Write as _;

/// What the request to a collector has for a body. Times on the wall are `wall_zero` nanoseconds
/// after 1970 where ours begin.
pub(super) fn write(spans: &[Span], service: &str, wall_zero: u64, out: &mut Vec<u8>) {
    let mut json = Json(out);
    let resource = [
        ("service.name", service),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.name", "rhythm"),
    ];
    json.put(r#"{"resourceSpans":[{"resource":{"attributes":"#);
    json.list(resource, |json, (key, value)| {
        json.attribute(key, |json| {
            json.put(r#""stringValue":"#).text(value);
        });
    });
    json.put(r#"},"scopeSpans":[{"scope":{"name":"rhythm","version":"#);
    json.text(env!("CARGO_PKG_VERSION")).put(r#"},"spans":"#);
    json.list(spans, |json, span| json.span(span, wall_zero));
    json.put("}]}]}");
}

/// JSON that grows.
struct Json<'o>(&'o mut Vec<u8>);

impl Json<'_> {
    /// What is JSON as it is.
    fn put(&mut self, json: &str) -> &mut Self {
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        // Neither a text nor writing to a Vec can fail.
        let _ = serde_json::to_writer(&mut *self.0, text);
        self
    }

    fn number(&mut self, number: impl Display) -> &mut Self {
        let _ = write!(self.0, "{number}");
        self
    }

    /// A number of 64 bits, which is a text there.
    fn long(&mut self, number: impl Display) -> &mut Self {
        self.put("\"").number(number).put("\"")
    }

    /// An id of so many bytes, in hexadecimal digits.
    fn id<const BYTES: usize>(&mut self, id: [u8; BYTES]) -> &mut Self {
        let mut digits = [0; 32];
        let digits = &mut digits[..2 * BYTES];
        write_hex(&id, digits);
        self.put("\"").0.extend_from_slice(digits);
        self.put("\"")
    }

    fn list<T>(
        &mut self,
        all: impl IntoIterator<Item = T>,
        mut one: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        let mut before = "[";
        for it in all {
            self.put(before);
            one(self, it);
            before = ",";
        }
        match before {
            "[" => self.put("[]"),
            _ => self.put("]"),
        }
    }

    fn attribute(&mut self, key: &str, value: impl FnOnce(&mut Self)) {
        self.put(r#"{"key":""#).put(key).put(r#"","value":{"#);
        value(self);
        self.put("}}");
    }

    fn span(&mut self, span: &Span, wall_zero: u64) {
        let time = |time: Time| wall_zero.saturating_add(time.as_nanos());
        self.put(r#"{"traceId":"#).id(span.trace.to_be_bytes());
        self.put(r#","spanId":"#).id(span.id.to_be_bytes());
        if let Some(parent) = span.parent {
            self.put(r#","parentSpanId":"#).id(parent.to_be_bytes());
        }
        self.put(r#","name":"#).text(&span.name);
        self.put(r#","kind":"#).number(span.kind as u8);
        self.put(r#","startTimeUnixNano":"#).long(time(span.from));
        self.put(r#","endTimeUnixNano":"#).long(time(span.to));
        self.put(r#","attributes":"#);
        self.list(&span.attributes, |json, (key, value)| {
            json.attribute(key, |json| {
                match value {
                    AttributeValue::Text(text) => json.put(r#""stringValue":"#).text(text),
                    AttributeValue::Int(number) => json.put(r#""intValue":"#).long(number),
                };
            });
        });
        self.put(r#","links":"#);
        self.list(&span.links, |json, (trace, span)| {
            json.put(r#"{"traceId":"#).id(trace.to_be_bytes());
            json.put(r#","spanId":"#).id(span.to_be_bytes()).put("}");
        });
        self.put(r#","droppedLinksCount":"#);
        self.number(span.links_left_out);
        // An error has its code, and what went well has none.
        self.put(match span.has_failed {
            true => r#","status":{"code":2}}"#,
            false => r#","status":{}}"#,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::SpanKind;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_collector_reads_what_spans_have() {
        let at = |nanos| Time::ZERO + std::time::Duration::from_nanos(nanos);
        let name = "GET /a\"b\\\n\u{1}é";
        let mut own = Span::new((0xab, 0xc), Some(7), SpanKind::Server, name, (at(5), at(9)));
        own.text("x", "\"");
        own.int("y", i64::MIN);
        own.link(1, 2);
        own.link(u128::MAX, u64::MAX);
        own.fail("timeout");
        let bare = Span::new((1, 1), None, SpanKind::Internal, "b", (at(0), at(0)));
        let mut out = b"before".to_vec();
        write(&[own, bare], "a \"site\"", 1000, &mut out);
        let read: Value = serde_json::from_slice(&out["before".len()..]).expect("it is JSON");
        let resource = &read["resourceSpans"][0];
        let service = json!({"key": "service.name", "value": {"stringValue": "a \"site\""}});
        assert_eq!(resource["resource"]["attributes"][0], service);
        let of_scope = &resource["scopeSpans"][0];
        assert_eq!(of_scope["scope"]["name"], "rhythm");
        let spans = &of_scope["spans"];
        assert_eq!(spans.as_array().map(Vec::len), Some(2));
        let attribute = |key: &str, value: Value| json!({"key": key, "value": value});
        let expected = json!({
            "traceId": "000000000000000000000000000000ab",
            "spanId": "000000000000000c",
            "parentSpanId": "0000000000000007",
            "name": name,
            "kind": 2,
            "startTimeUnixNano": "1005",
            "endTimeUnixNano": "1009",
            "attributes": [
                attribute("x", json!({"stringValue": "\""})),
                attribute("y", json!({"intValue": "-9223372036854775808"})),
                attribute("error.type", json!({"stringValue": "timeout"})),
            ],
            "links": [
                {"traceId": "00000000000000000000000000000001", "spanId": "0000000000000002"},
                {"traceId": "ffffffffffffffffffffffffffffffff", "spanId": "ffffffffffffffff"},
            ],
            "droppedLinksCount": 0,
            "status": {"code": 2},
        });
        assert_eq!(spans[0], expected);
        assert_eq!(spans[1]["attributes"], json!([]));
        assert_eq!(spans[1]["status"], json!({}));
        assert!(spans[1].get("parentSpanId").is_none());
    }
}
