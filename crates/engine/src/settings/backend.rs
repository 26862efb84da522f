//! What `service.toml` says of a backend.

use std::time::Duration;

/// The protocol a backend speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// SPECweb's backend simulator.
    BeSim,
}

/// A backend of `service.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendConfig {
    /// Its name, as calls give it.
    pub name: String,
    /// The protocol it speaks.
    pub kind: BackendKind,
    /// Where it is; `None`: in this process.
    pub url: Option<String>,
    /// Number of users of a backend in this process.
    pub users: u32,
    /// A call that takes longer fails.
    pub timeout: Duration,
    /// How often a request is sent again where that is safe.
    pub retries: u32,
    /// Most connections to it from one worker.
    pub connections: u32,
}
