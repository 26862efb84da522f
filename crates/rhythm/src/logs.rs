//! Logs: structured, to standard error.

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// A JSON object a line, for machines.
    Json,
}

/// Starts logging. `RHYTHM_LOG` chooses what is logged (`debug`, `rhythm_server=trace`, ...);
/// `info` without it.
pub(crate) fn start(format: Format) {
    let filter = EnvFilter::try_from_env("RHYTHM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        Format::Text => logs.with_target(false).init(),
        Format::Json => logs.json().init(),
    }
}
