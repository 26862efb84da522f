//! Logs: structured, to standard error.

use rhythm_engine::settings::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging. `RHYTHM_LOG` chooses what is logged (`debug`, `rhythm_server=trace`, ...);
/// `info` without it.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("RHYTHM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().init(),
    }
}
