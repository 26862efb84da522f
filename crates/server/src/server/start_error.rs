//! Why a server does not start.

use rhythm_engine::settings::ServerSettings;
use rhythm_net::workers;
use std::fmt;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen where a setting says.
    #[error("{}: {error}", name_of(.setting))]
    Listen {
        /// The setting, of the table `server`.
        setting: &'static str,
        /// Why.
        error: rhythm_net::ListenError,
    },
    /// Clients are to speak TLS, and cannot.
    #[error("{}: {error}", name_of("tls_listen"))]
    Tls {
        /// Why.
        error: String,
    },
    /// Clients of the admin listener are to speak TLS, and cannot.
    #[error("{}: {error}", name_of("admin_certificate"))]
    AdminTls {
        /// Why.
        error: String,
    },
    /// The access log cannot be written.
    #[error("{}: {error}", name_of(.setting))]
    Log {
        /// The setting, of the table `server`.
        setting: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// A folder that a setting names is none.
    #[error("{}: {error}", name_of(.setting))]
    Folder {
        /// The setting, of the table `server`.
        setting: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// The system has no resources for it.
    #[error("the system lacks resources: {0}")]
    System(#[from] std::io::Error),
    /// A device cannot be used, or there is no such host as a route's.
    #[error("{0}")]
    Device(String),
}

impl<E: fmt::Display> From<workers::StartError<E>> for StartError {
    fn from(error: workers::StartError<E>) -> StartError {
        match error {
            workers::StartError::System(error) => StartError::System(error),
            other => StartError::Device(other.to_string()),
        }
    }
}

/// Whoever reads of a setting of `server` learns where to change it.
fn name_of(setting: &str) -> String {
    let mut known = ServerSettings::DEFINITIONS.iter();
    match known
        .find(|known| known.key == setting)
        .map(|known| known.rule.flag)
    {
        Some(Some(flag)) => format!("server.{setting} (--{flag})"),
        // Of another table.
        None if setting.contains('.') => setting.to_owned(),
        _ => format!("server.{setting}"),
    }
}
