//! What single requests are known by, here and elsewhere: an id, and a place in a trace; and what
//! is told of them to a collector of traces.
//!
//! ```text
//!    a head --> origin.rs   whose id and trace are taken over, what is made, what is recorded
//!                 |         id.rs: X-Request-Id; context.rs: traceparent, tracestate (W3C)
//!                 |
//!                 +--> access log, slow requests, answers' heads; proxied requests, backends
//!                 v         over HTTP
//!    span.rs: requests, cohorts, stages, calls
//!                 v         sink.rs: bounded, and nobody waits
//!    export.rs: a thread --- otlp.rs ---> the collector
//! ```
//!
//! A request's span is in the trace of who asks, and the calls made for it are below it. A cohort's
//! is in a trace of its own, with its stages below it, since it is run for many requests at once:
//! it has links to those of them that are recorded, and they have one to it.

mod context;
mod export;
mod id;
mod options;
mod origin;
mod otlp;
mod sink;
mod span;

pub(crate) use export::Exporter;
pub(crate) use id::RequestId;
pub use options::WatchOptions;
pub(crate) use origin::{ID, Origin, Origins, Place, states};
pub use sink::SpanSink;
pub(crate) use sink::{ExportState, bytes_max};
pub(crate) use span::{CohortSpan, Span, SpanKind, method_name};
