//! The HTTP side of a server: whole requests out of connections, answers into them in order.
//!
//! ```text
//!   bytes ---> Reader --------> a request ------> whoever answers it: cohorts, or a Host
//!              (reader.rs)      with its slot          |        |           |  (host.rs)
//!                                                  head and body       begin, append, finish
//!              one hot buffer <----- in turn --- (answer/body.rs) ---------+
//!   bytes <--- (outbox.rs)          (turns.rs)                        (stream.rs)
//! ```
//!
//! [`Clients`] are all connections of one thread: their kept input, ordered answers, unsent bytes,
//! time-outs and ends (`clients/`, where all files of the picture lie but two). It does no I/O and
//! reads no clock: it acts through a [`Port`] and is given the time. Nothing calls back up: what
//! the owner has to see to (a stall that is over, a stream that has room again, a client that is
//! gone) it takes out of lists.
//!
//! A [`Host`] answers requests without cohorts, at once or later, whole or in pieces.
//! [`HostServer`] is a server of nothing but a host: the admin listener and BeSim are two.
//!
//! It is a crate of its own because two servers need it without each other: the page server and
//! BeSim, which stands below it.
//!
//! [`Port`]: rhythm_net::Port
#![forbid(unsafe_code)]

mod answer;
mod clients;
mod host;
mod limits;

pub use answer::body::{Body, Pieces};
pub use answer::error_page::{ErrorPage, is_json, write_error};
pub use answer::{AnswerShape, AnswerSlot, Answered, Given, HostId, Owed};
pub use clients::Clients;
pub use clients::admission::LONG_BYTES;
pub use clients::input::{Incoming, Next, Reading};
pub use clients::no_room::{Expected, KnownBy};
pub use clients::reader::{Left, Reader};
pub use clients::stall::Stall;
pub use clients::stream::Flow;
pub use host::hosts::{Event, Hosts};
pub use host::server::HostServer;
pub use host::{Answers, Content, Host, Request};
pub use limits::{ClientLimits, HELD_MAX, RATE_MIN, RequestLimits, UNSENT_MAX};
