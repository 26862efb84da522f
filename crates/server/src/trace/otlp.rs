//! Spans in the form in which a collector takes them: OTLP, as JSON (the OpenTelemetry Protocol,
//! *JSON Protobuf Encoding*).
//!
//! JSON and not Protobuf, since the protocol lets both be sent to the same place, and this needs no
//! generated code: bytes here are few beside what a collector does with them.

use super::span::{AttributeValue, Span};
use rhythm_net::Time;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::json;

/// What the request to a collector has for a body. Times on the wall are `wall_zero` nanoseconds
/// after 1970 where ours begin.
pub(super) fn write(spans: &[Span], service: &str, wall_zero: u64, out: &mut Vec<u8>) {
    let body = Body {
        spans,
        service,
        wall_zero,
    };
    // Neither the values nor writing to a Vec can fail.
    let _ = serde_json::to_writer(out, &body);
}

struct Body<'a> {
    spans: &'a [Span],
    service: &'a str,
    wall_zero: u64,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let resource = json!({ "attributes": [
            { "key": "service.name", "value": { "stringValue": self.service } },
            { "key": "telemetry.sdk.language", "value": { "stringValue": "rust" } },
            { "key": "telemetry.sdk.name", "value": { "stringValue": "rhythm" } },
        ] });
        let scope = json!({ "name": "rhythm", "version": env!("CARGO_PKG_VERSION") });
        let scoped = [Fields(vec![
            ("scope", Field::Json(scope)),
            ("spans", Field::Spans(self.spans, self.wall_zero)),
        ])];
        let resources = [Fields(vec![
            ("resource", Field::Json(resource)),
            ("scopeSpans", Field::All(&scoped)),
        ])];
        Fields(vec![("resourceSpans", Field::All(&resources))]).serialize(to)
    }
}

/// An object.
struct Fields<'a>(Vec<(&'static str, Field<'a>)>);

enum Field<'a> {
    Json(serde_json::Value),
    All(&'a [Fields<'a>]),
    Spans(&'a [Span], u64),
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, field) in &self.0 {
            map.serialize_entry(name, field)?;
        }
        map.end()
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Json(value) => value.serialize(to),
            Field::All(all) => all.serialize(to),
            Field::Spans(spans, wall_zero) => {
                let mut all = to.serialize_seq(Some(spans.len()))?;
                for span in *spans {
                    // One at a time: the whole would be a tree of many times its size.
                    all.serialize_element(&value_of(span, *wall_zero))?;
                }
                all.end()
            }
        }
    }
}

/// A span. Ids are hexadecimal, and numbers of 64 bits are texts.
fn value_of(span: &Span, wall_zero: u64) -> serde_json::Value {
    let time = |time: Time| wall_zero.saturating_add(time.as_nanos()).to_string();
    let attributes: Vec<_> = (span.attributes.iter())
        .map(|(key, value)| {
            let value = match value {
                AttributeValue::Text(text) => json!({ "stringValue": text }),
                AttributeValue::Int(number) => json!({ "intValue": number.to_string() }),
            };
            json!({ "key": key, "value": value })
        })
        .collect();
    let links: Vec<_> = (span.links.iter())
        .map(|(trace, id)| {
            json!({ "traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}") })
        })
        .collect();
    let parent = span.parent.map(|parent| format!("{parent:016x}"));
    json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "parentSpanId": parent.unwrap_or_default(),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": time(span.from),
        "endTimeUnixNano": time(span.to),
        "attributes": attributes,
        "links": links,
        "droppedLinksCount": span.links_left_out,
        "status": if span.has_failed { json!({ "code": 2 }) } else { json!({}) },
    })
}
