//! Logs: structured, to standard error, by a thread of their own.
//!
//! Who reads them may be slow, or not read at all: that costs lines, of which the log tells when it
//! is read again, but keeps nobody waiting who logs.

use rhythm_engine::settings::LogFormat;
use rhythm_protocol::scan::Level;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::env;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;

/// The variable that chooses what is logged.
const VARIABLE: &str = "RHYTHM_LOG";
/// What it may say.
const FORM: &str = "a level (off, error, warn, info, debug, trace), or levels of parts of the \
                    program such as rhythm_server=debug, separated by commas";

/// What is not logged unless it is worse: h2 warns of what any client may do as often as it likes;
/// what matters of that is told here, at most once a second.
const QUIET: &str = "h2=error";

/// Lines that may wait to be written.
const LINES_MAX: usize = 1024;
/// How long a program that ends waits for them to be.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// What the thread is told.
enum Order {
    Write(Vec<u8>),
    /// Tells when all before it is written.
    Tell(SyncSender<()>),
}

/// Where the thread takes its orders, once there is one.
static ORDERS: OnceLock<SyncSender<Order>> = OnceLock::new();

/// Hands lines to the thread.
#[derive(Clone)]
struct Lines {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

impl Write for Lines {
    /// Takes a whole line; one for which there is no room is lost.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.orders.try_send(Order::Write(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread: writes what comes.
fn write_all(orders: Receiver<Order>, mut to: impl Write, lost: &AtomicU64) {
    for order in orders {
        match order {
            Order::Write(line) => {
                // Where it cannot be written, nobody can be told.
                let _ = to.write_all(&line).and_then(|()| to.flush());
                let lost = lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(lost, "nobody read this log: lines of it are lost");
                }
            }
            Order::Tell(done) => drop(done.send(())),
        }
    }
}

/// The program ends: waits until what was logged is written, but not for long.
pub(crate) fn finish() {
    let Some(orders) = ORDERS.get() else {
        return;
    };
    let until = Instant::now() + FINISH_MAX;
    let (done, all) = sync_channel(1);
    let mut order = Order::Tell(done);
    while let Err(TrySendError::Full(back)) = orders.try_send(order) {
        if Instant::now() > until {
            return;
        }
        thread::sleep(Duration::from_millis(1));
        order = back;
    }
    // Too late is as good as never.
    let _ = all.recv_timeout(until.saturating_duration_since(Instant::now()));
}

/// Starts logging. `RHYTHM_LOG` chooses what is logged (`debug`, `rhythm_server=trace`, ...);
/// `info` without it. Of [`QUIET`] less is. Where it says something else, that is warned of.
///
/// # Errors
/// Where no thread can be started.
pub(crate) fn start(format: LogFormat) -> io::Result<()> {
    let (orders, waiting) = sync_channel(LINES_MAX);
    let lost = Arc::<AtomicU64>::default();
    let lines = Lines {
        orders: ORDERS.get_or_init(|| orders).clone(),
        lost: lost.clone(),
    };
    let run = move || write_all(waiting, io::stderr(), &lost);
    thread::Builder::new().name("log".into()).spawn(run)?;
    let said = env::var_os(VARIABLE).map(|said| said.to_string_lossy().into_owned());
    let said = said.filter(|said| !said.trim().is_empty());
    let read = said.as_deref().map(read);
    let understood = !matches!(read, Some(None));
    let filter = read
        .flatten()
        .unwrap_or_else(|| EnvFilter::new(format!("info,{QUIET}")));
    let mut logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone());
    if !io::stderr().is_terminal() {
        // Only then: what is said here goes before NO_COLOR, which it looks at by itself.
        logs = logs.with_ansi(false);
    }
    match format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().init(),
    }
    panic::set_hook(Box::new(panicked));
    if !understood {
        tracing::warn!("{VARIABLE} is none of what it can be: {FORM}; logging at info");
    }
    Ok(())
}

/// Tells of a panic as of all else. It may be the program's last word, so it is waited for.
fn panicked(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let said = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let thread = thread::current();
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    tracing::error!(
        thread = thread.name(),
        at = panic.location().map(tracing::field::display),
        backtrace = is_captured.then(|| tracing::field::display(&backtrace)),
        "a panic: {}",
        said.unwrap_or("without words")
    );
    finish();
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
    let said = said.replace(char::is_whitespace, "");
    match said.eq_ignore_ascii_case("off") {
        true => EnvFilter::try_new(said).ok(),
        false => EnvFilter::try_new(format!("{said},{QUIET}")).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_logs_waits_for_no_reader() {
        let (orders, waiting) = sync_channel(2);
        let lost = Arc::<AtomicU64>::default();
        let mut lines = Lines {
            orders,
            lost: lost.clone(),
        };
        for line in ["a\n", "b\n", "c\n"] {
            lines.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(lost.load(Ordering::Relaxed), 1);
        drop(lines);
        let mut written = Vec::new();
        write_all(waiting, &mut written, &lost);
        assert_eq!(
            (&*written, lost.load(Ordering::Relaxed)),
            (&b"a\nb\n"[..], 0)
        );
    }

    #[test]
    fn a_panic_is_told_of_in_the_log() {
        let (orders, waiting) = sync_channel(9);
        let lines = Lines {
            orders,
            lost: Arc::default(),
        };
        let log = tracing_subscriber::fmt()
            .json()
            .with_writer(move || lines.clone())
            .finish();
        let before = panic::take_hook();
        panic::set_hook(Box::new(panicked));
        let ended = tracing::subscriber::with_default(log, || {
            panic::catch_unwind(|| panic!("planted {}", 7))
        });
        panic::set_hook(before);
        assert!(ended.is_err());
        let mut written = Vec::new();
        write_all(waiting, &mut written, &AtomicU64::new(0));
        let line: serde_json::Value = serde_json::from_slice(&written).expect("one line");
        assert_eq!(line["fields"]["message"], "a panic: planted 7");
        let at = line["fields"]["at"].as_str().expect("a place");
        assert!(at.contains("logs.rs"), "{at}");
    }

    #[test]
    fn levels_and_parts_are_read_and_nothing_else() {
        for said in [
            "debug",
            "INFO",
            "rhythm_server=trace",
            "warn, rhythm_net=debug",
        ] {
            let filter = read(said).expect(said).to_string();
            assert!(filter.contains(QUIET), "{filter}");
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
