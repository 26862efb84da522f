//! What `service.toml` says of a backend.

use super::definition::{count, time};
use crate::section;
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
    /// What backends of every kind have.
    pub pool: PoolSettings,
}

section! {
    /// What backends of every kind have.
    pub struct PoolSettings = "backend.NAME" {
        /// A call that takes longer fails; only its request is affected.
        timeout: Duration = Duration::from_secs(2); time(),
        /// How often a request is sent again where that is safe.
        retries: u32 = 1; count(0, 10),
        /// Connections to it from one worker at a time.
        connections_max: u32 = 16; count(1, 1024).was("connections"),
    }
}
