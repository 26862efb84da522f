//! What an operator sees of a server, whichever it is: figures, and the listener that tells them.
//!
//! ```text
//!   each thread: Count, Histogram <--- added to where things happen, by one thread
//!        | read                        (figures.rs)
//!        v
//!   Writer: families, labels, samples  the Prometheus text format (families.rs)
//!        |
//!        v
//!   Observed::tell(path)  <----------- the admin listener, on a thread of its own (admin.rs), that
//!        ^                             looks after workers that hang, too (hangs.rs)
//!        |
//!   Dashboard: panels <--------------- a page for people, which shows them live (dashboard.rs)
//! ```
//!
//! It is a crate of its own because two servers need it without each other: the page server and the
//! memcached server. What is counted, and how it is called, is theirs.
#![forbid(unsafe_code)]

pub mod admin;
mod costly;
pub mod dashboard;
mod families;
mod figures;
pub mod hangs;
#[cfg(feature = "tls")]
mod no_tls;
pub mod process;

pub use families::{HistogramSum, NANOSECOND, Sample, Writer, encode};
pub use figures::{
    Count, FineTimeHistogram, Histogram, SizeHistogram, TimeHistogram, TurnHistogram,
};
#[cfg(feature = "tls")]
pub use no_tls::NoTls;
