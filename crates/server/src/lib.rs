//! The Rhythm server: the cohort pipeline and what drives it.
//!
//! In the order of a request, between the connections of `rhythm_http`:
//!
//! - `intake/`: which way a request goes, and its parameters into a lane of a cohort;
//! - `flight/`: cohorts through their stages: formed, run on the device, asking backends;
//! - [`backend`]: where pages get their data from, a folder a kind;
//! - `answer/`: heads and bodies of finished lanes, and errors. Sessions are looked up, made and
//!   ended here, too, for a whole cohort at a time;
//! - `host/`: what is answered without a cohort: files, redirects, hosts, the admin listener;
//! - `proxy/`: what other servers answer.
//!
//! What goes along: `flash.rs` is messages that one page leaves for the next, `seal.rs` how what
//! browsers keep is known again, `shared_sessions.rs` how several machines share sessions; `site/`
//! is everything that a reload replaces, [`observe`] figures and the access log; `limits/` is what
//! is allowed, and its sums. `pipeline.rs` joins the parts, without I/O and clock
//! (`pipeline/events.rs`: what each event sets going; `pipeline/process.rs`: the paper's
//! *Process*); `server.rs` starts workers, each of which drives one pipeline on a thread's loop
//! (`server/worker.rs`); `drain.rs` is how they end.
#![forbid(unsafe_code)]

mod admin_tls;
mod answer;
mod answer_reader;
pub mod backend;
mod drain;
mod flash;
mod flight;
mod host;
mod intake;
mod json;
mod limits;
pub mod observe;
mod owner;
mod pipeline;
mod proxy;
#[doc(hidden)]
pub mod reference;
mod seal;
mod server;
mod shared_sessions;
mod site;
mod timed;
mod trace;

pub use admin_tls::AdminTls;
pub use answer::sessions::{Random, Visitors};
pub use drain::{Drain, DrainOptions};
pub use flight::asker::ClientsBy;
pub use flight::backends::BackendFactory;
pub use flight::cohorts::CohortBytes;
pub use flight::link::DeviceLink;
pub use host::disk::{Disk, Read};
pub use limits::memory::Memory;
pub use limits::options::{PipelineOptions, ServerOptions};
pub use observe::access_log::LogOpener;
pub use observe::metrics::DeviceFigures;
pub use owner::ConnectionOwner;
pub use pipeline::{Pipeline, PipelineParts};
pub use rhythm_http::{ClientLimits, HELD_MAX, RATE_MIN, UNSENT_MAX};
pub use server::{
    Control, DeviceFactory, Handle, HostFactory, Inherited, Server, ServerParts,
    SharedBackendFactory, StartError,
};
pub use site::loader::{Loaded, Loader};
pub use site::names::{Resolver, system_resolver};
pub use site::static_file::{FileContent, FileSource, StaticFile};
pub use site::statics::Statics;
pub use site::{BackendSettings, HostRoute, ProxyRoute, Site, SiteSettings, Sites};
pub use trace::{SpanSink, WatchOptions};
