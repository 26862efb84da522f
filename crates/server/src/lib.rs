//! The Rhythm server: the cohort pipeline and what drives it.
#![forbid(unsafe_code)]

pub mod access_log;
mod admin;
pub mod backend;
mod connection;
mod dispatch;
pub mod metrics;
mod params;
mod parser;
mod pipeline;
mod process;
mod reader;
#[doc(hidden)]
pub mod reference;
mod request;
mod response;
mod routes;
mod server;
mod site;
mod statics;
mod worker;

pub use connection::{ClientLimits, SEND_RATE_MIN};
pub use pipeline::{BackendFactory, Pipeline, PipelineOptions, PipelineParts};
pub use response::Random;
pub use server::{
    Control, ExecutorFactory, Handle, Loader, Server, ServerOptions, ServerParts,
    SharedBackendFactory, StartError,
};
pub use site::{BackendSettings, Site, SiteSettings};
pub use statics::{StaticFile, Statics};
