//! Logs: structured, to standard error.

use rhythm_engine::settings::LogFormat;
use rhythm_protocol::scan::Level;
use std::env;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The variable that chooses what is logged.
const VARIABLE: &str = "RHYTHM_LOG";
/// What it may say.
const FORM: &str = "a level (off, error, warn, info, debug, trace), or levels of parts of the \
                    program such as rhythm_server=debug, separated by commas";

/// Starts logging. `RHYTHM_LOG` chooses what is logged (`debug`, `rhythm_server=trace`, ...);
/// `info` without it. Where it says something else, that is warned of.
pub(crate) fn start(format: LogFormat) {
    let said = env::var_os(VARIABLE).map(|said| said.to_string_lossy().into_owned());
    let said = said.filter(|said| !said.trim().is_empty());
    let read = said.as_deref().map(read);
    let understood = !matches!(read, Some(None));
    let filter = read.flatten().unwrap_or_else(|| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().init(),
    }
    if !understood {
        tracing::warn!("{VARIABLE} is none of what it can be: {FORM}; logging at info");
    }
}

/// What is wrong with the SIMD level that `RHYTHM_SIMD` asks for, if anything.
pub(crate) fn simd_mistake() -> Option<String> {
    let error = Level::from_env().err()?;
    let used = error.fallback().name();
    Some(format!("{error}; {used} is used"))
}

/// Reads what the variable says. A word that is no level would be taken for the name of a part, all
/// others of which say nothing then, so that a misspelled level silences the log: it is refused.
fn read(said: &str) -> Option<EnvFilter> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    for directive in said.split(',').map(str::trim) {
        let sound = match directive.split_once('=') {
            Some((part, level)) => part.starts_with("rhythm") && is_level(level),
            None => is_level(directive) || directive.starts_with("rhythm"),
        };
        if !sound {
            return None;
        }
    }
    // Its own reader takes no spaces.
    EnvFilter::try_new(said.replace(char::is_whitespace, "")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_parts_are_read_and_nothing_else() {
        for said in [
            "debug",
            "INFO",
            "rhythm_server=trace",
            "warn, rhythm_net=debug",
        ] {
            assert!(read(said).is_some(), "{said}");
        }
        for said in [
            "infoo",
            "debug,,",
            "rhythm_server=loud",
            "server=debug",
            "=",
            "verbose,info",
        ] {
            assert!(read(said).is_none(), "{said}");
        }
    }
}
