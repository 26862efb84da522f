//! The kinds of backends there are. A new one is a folder beside `besim/` and a line here.

use super::kind::{Kind, Opened, peers};
use rhythm_engine::kind::BackendKind;
use rhythm_engine::settings::{BackendConfig, UrlPlace};
use rhythm_net::Peer;

/// Names each kind's folder, and puts its `KIND` into the table. What others use of a kind is shown
/// in `mod.rs`; of most that is nothing.
macro_rules! kinds {
    ($($folder:ident = $path:literal,)+) => {
        $(#[path = $path] #[allow(unreachable_pub)] pub mod $folder;)+

        /// All kinds, by which `kind = "..."` of service.toml is looked up.
        pub const KINDS: &[Kind] = &[$($folder::KIND),+];
    };
}

kinds! {
    besim = "besim/mod.rs",
    http = "http/mod.rs",
    memcached = "memcached/mod.rs",
    postgres = "postgres/mod.rs",
    redis = "redis/mod.rs",
    sqlite = "sqlite/mod.rs",
}

/// What the compiler must know of them.
pub fn kinds() -> Vec<BackendKind> {
    KINDS.iter().map(|kind| kind.declaration.clone()).collect()
}

/// Looks up where a backend of service.toml is. It may wait for the system's resolver: this is for
/// whoever loads a site, not for its workers.
///
/// # Errors
/// What is wrong with its configuration, or that its host has no address, in words.
pub fn locate(config: &BackendConfig) -> Result<Vec<Peer>, String> {
    of(config, |kind| (kind.locate)(config))
}

/// Looks up what is at a place: the addresses of a host's name, or a socket. As [`locate`], it may
/// wait.
///
/// # Errors
/// There is no such name, or nobody tells, in words.
pub fn find(place: &UrlPlace) -> Result<Vec<Peer>, String> {
    peers(place, None)
}

/// Opens a connection to a backend of service.toml, as its workers will, and gives it up. It may
/// wait for seconds: this is for whoever asks whether a site could be served.
///
/// # Errors
/// Why it cannot be asked, in words.
pub fn reach(config: &BackendConfig) -> Result<(), String> {
    of(config, |kind| (kind.reach)(config))
}

/// Most bytes that a backend of service.toml takes for queries, in each worker.
pub(crate) fn query_bytes_max(config: &BackendConfig) -> usize {
    of(config, |kind| Ok((kind.query_bytes_max)(config))).unwrap_or(0)
}

/// Opens a backend of service.toml that is where [`locate`] found it, for one worker.
///
/// # Errors
/// What is wrong with its configuration, in words.
pub fn open(config: &BackendConfig, peers: &[Peer]) -> Opened {
    of(config, |kind| (kind.open)(config, peers))
}

/// Does something with a backend's kind, and tells of which backend an error is.
fn of<T>(
    config: &BackendConfig,
    act: impl FnOnce(&Kind) -> Result<T, String>,
) -> Result<T, String> {
    let kind = KINDS
        .iter()
        .find(|kind| kind.declaration.name == config.kind);
    let kind = kind.ok_or_else(|| format!("there is no kind {} of backends", config.kind));
    kind.and_then(act)
        .map_err(|why| format!("backend {}: {}", config.name, config.flags.told(&why)))
}
