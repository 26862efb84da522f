//! The Rhythm server: the cohort pipeline and what drives it.
#![forbid(unsafe_code)]

mod answer;
pub mod backend;
mod client;
mod flight;
mod host;
mod intake;
pub mod observe;
mod pipeline;
#[doc(hidden)]
pub mod reference;
mod server;
mod site;
mod worker;

pub use answer::response::Random;
pub use client::{ClientLimits, SEND_RATE_MIN};
pub use flight::backends::BackendFactory;
pub use flight::link::DeviceLink;
pub use host::statics::{StaticFile, Statics};
pub use pipeline::{Pipeline, PipelineOptions, PipelineParts};
pub use server::{
    Control, DeviceFactory, Handle, Loader, Server, ServerOptions, ServerParts,
    SharedBackendFactory, StartError,
};
pub use site::{BackendSettings, Site, SiteSettings};
