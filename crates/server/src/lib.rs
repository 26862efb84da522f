//! The Rhythm server: the cohort pipeline and what drives it.
#![forbid(unsafe_code)]

mod answer;
pub mod backend;
mod flight;
mod host;
mod intake;
pub mod observe;
mod options;
mod pipeline;
#[doc(hidden)]
pub mod reference;
mod server;
mod site;
mod worker;

pub use answer::response::Random;
pub use flight::backends::BackendFactory;
pub use flight::link::DeviceLink;
pub use host::statics::{StaticFile, Statics};
pub use options::ServerOptions;
pub use pipeline::{Pipeline, PipelineOptions, PipelineParts};
pub use rhythm_http::{ClientLimits, SEND_RATE_MIN, UNSENT_MAX};
pub use server::{
    Control, DeviceFactory, Handle, HostFactory, Loader, Server, ServerParts, SharedBackendFactory,
    StartError,
};
pub use site::{BackendSettings, HostRoute, Site, SiteSettings};
