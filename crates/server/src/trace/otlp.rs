//! Spans in the form in which a collector takes them: OTLP, as JSON (the OpenTelemetry Protocol,
//! *JSON Protobuf Encoding*). It is written from the spans as they lie, without a tree of it, since
//! whoever is traced at a percent is not to feel it.
//!
//! JSON and not Protobuf, since the protocol lets both be sent to the same place, and this needs no
//! generated code: bytes here are few beside what a collector does with them.

use super::context::write_hex;
use super::span::{AttributeValue, Span};
use rhythm_net::Time;
use serde::{Serialize, Serializer};
use serde_json::json;
use std::fmt::Display;

/// What the request to a collector has for a body. Times on the wall are `wall_zero` nanoseconds
/// after 1970 where ours begin.
pub(super) fn write(spans: &[Span], service: &str, wall_zero: u64, out: &mut Vec<u8>) {
    let resource = json!({ "attributes": [
        { "key": "service.name", "value": { "stringValue": service } },
        { "key": "telemetry.sdk.language", "value": { "stringValue": "rust" } },
        { "key": "telemetry.sdk.name", "value": { "stringValue": "rhythm" } },
    ] });
    let of_scope = ScopeSpans {
        scope: json!({ "name": "rhythm", "version": env!("CARGO_PKG_VERSION") }),
        spans: Spans { spans, wall_zero },
    };
    let of_resource = ResourceSpans {
        resource,
        scope_spans: [of_scope],
    };
    let body = Body {
        resource_spans: [of_resource],
    };
    // Neither the values nor writing to a Vec can fail.
    let _ = serde_json::to_writer(out, &body);
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'s> {
    resource_spans: [ResourceSpans<'s>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'s> {
    resource: serde_json::Value,
    scope_spans: [ScopeSpans<'s>; 1],
}

#[derive(Serialize)]
struct ScopeSpans<'s> {
    scope: serde_json::Value,
    spans: Spans<'s>,
}

struct Spans<'s> {
    spans: &'s [Span],
    wall_zero: u64,
}

impl Serialize for Spans<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let time = |time: Time| AsText(self.wall_zero.saturating_add(time.as_nanos()));
        to.collect_seq(self.spans.iter().map(|span| SpanFields {
            trace_id: Hex(span.trace),
            span_id: Hex(span.id.into()),
            parent_span_id: span.parent.map(|parent| Hex(parent.into())),
            name: &span.name,
            kind: span.kind as u8,
            start_time_unix_nano: time(span.from),
            end_time_unix_nano: time(span.to),
            attributes: Attributes(&span.attributes),
            links: Links(&span.links),
            dropped_links_count: span.links_left_out,
            status: Status {
                code: span.has_failed.then_some(2),
            },
        }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanFields<'s> {
    trace_id: Hex<32>,
    span_id: Hex<16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<Hex<16>>,
    name: &'s str,
    kind: u8,
    start_time_unix_nano: AsText<u64>,
    end_time_unix_nano: AsText<u64>,
    attributes: Attributes<'s>,
    links: Links<'s>,
    dropped_links_count: u32,
    status: Status,
}

/// An error has its code, and what went well has none.
#[derive(Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
}

struct Attributes<'s>(&'s [(&'static str, AttributeValue)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|(key, value)| Attribute {
            key,
            value: match value {
                AttributeValue::Text(text) => AnyValue::StringValue(text),
                AttributeValue::Int(number) => AnyValue::IntValue(AsText(*number)),
            },
        }))
    }
}

#[derive(Serialize)]
struct Attribute<'s> {
    key: &'static str,
    value: AnyValue<'s>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue<'s> {
    StringValue(&'s str),
    IntValue(AsText<i64>),
}

struct Links<'s>(&'s [(u128, u64)]);

impl Serialize for Links<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|(trace, span)| Link {
            trace_id: Hex(*trace),
            span_id: Hex((*span).into()),
        }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    trace_id: Hex<32>,
    span_id: Hex<16>,
}

/// An id, in so many hexadecimal digits.
struct Hex<const DIGITS: usize>(u128);

impl<const DIGITS: usize> Serialize for Hex<DIGITS> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut all = [0; 32];
        write_hex(&self.0.to_be_bytes(), &mut all);
        // They are ASCII, and those that are left out are 0.
        let digits = std::str::from_utf8(&all[all.len() - DIGITS..]);
        to.serialize_str(digits.unwrap_or_default())
    }
}

/// A number of 64 bits, which is a text there.
struct AsText<T>(T);

impl<T: Display> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}
