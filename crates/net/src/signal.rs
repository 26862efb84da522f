//! The signals a server obeys, delivered to a closure on a thread of their own: there it may lock,
//! send and wake as it likes.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::thread::JoinHandle;

/// Those with a meaning for a server.
const ALL: [i32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGUSR1];

/// A signal with a meaning for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: finish what is begun, then leave.
    Terminate,
    /// SIGINT, as from Ctrl-C: the same, from a person who waits.
    Interrupt,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: open the log files again.
    User1,
}

impl Signal {
    fn from_number(number: i32) -> Option<Signal> {
        match number {
            SIGTERM => Some(Signal::Terminate),
            SIGINT => Some(Signal::Interrupt),
            SIGHUP => Some(Signal::Reload),
            SIGUSR1 => Some(Signal::User1),
            _ => None,
        }
    }
}

/// Whether the process of this /proc/PID/status ignores a signal: bits, from the first signal on.
fn ignores(status: &str, number: i32) -> bool {
    let mut lines = status.lines();
    let bits = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.unwrap_or_default() >> (number - 1) & 1 == 1
}

/// Watches for signals until dropped.
#[derive(Debug)]
pub struct SignalWatch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Calls `on_signal` on a new thread for each signal that arrives, in place of what the signal
/// would do by itself.
///
/// After the watch is dropped the signals are ignored, not back to killing the process.
///
/// # Errors
///
/// When the thread or the pipe behind it cannot be made.
pub fn watch(on_signal: impl FnMut(Signal) + Send + 'static) -> io::Result<SignalWatch> {
    watch_these(&ALL, on_signal)
}

/// The same, but for signals that this process was begun to ignore, as nohup has it ignore SIGHUP,
/// and a shell SIGINT of what it begins beside itself: it ignores them still, and so does whatever
/// it starts.
///
/// # Errors
///
/// As [`watch`].
pub fn watch_unless_ignored(
    on_signal: impl FnMut(Signal) + Send + 'static,
) -> io::Result<SignalWatch> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let numbers = ALL.into_iter().filter(|number| !ignores(&status, *number));
    watch_these(&numbers.collect::<Vec<i32>>(), on_signal)
}

fn watch_these(
    numbers: &[i32],
    mut on_signal: impl FnMut(Signal) + Send + 'static,
) -> io::Result<SignalWatch> {
    let mut signals = Signals::new(numbers)?;
    let handle = signals.handle();
    let thread = std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever().filter_map(Signal::from_number) {
                on_signal(signal);
            }
        })?;
    Ok(SignalWatch {
        handle,
        thread: Some(thread),
    })
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // A closure that panicked has said so on its own thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::time::Duration;

    /// Long enough to mean never: with it a test that would hang fails.
    const NEVER: Duration = Duration::from_secs(60);

    #[test]
    fn what_was_ignored_is_known() {
        let shell = "trap '' HUP; exec cat /proc/self/status";
        let output = std::process::Command::new("sh")
            .args(["-c", shell])
            .output();
        // Whoever runs this may have it ignore others, too.
        let status = String::from_utf8(output.expect("a shell").stdout).expect("a text");
        assert!(ignores(&status, SIGHUP), "{status}");
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\nSigCgt:\t2\n";
        assert_eq!(
            ALL.map(|number| ignores(status, number)),
            ALL.map(|number| number == SIGHUP)
        );
        assert!(!ignores("", SIGHUP));
    }

    #[test]
    fn each_signal_is_told_by_its_meaning() {
        let (sender, receiver) = mpsc::channel();
        let watch = watch(move |signal| sender.send(signal).expect("the test still listens"))
            .expect("a thread and a pipe");
        for (number, signal) in [
            (SIGHUP, Signal::Reload),
            (SIGUSR1, Signal::User1),
            (SIGINT, Signal::Interrupt),
            (SIGTERM, Signal::Terminate),
            (SIGHUP, Signal::Reload),
        ] {
            raise(number).expect("a process may signal itself");
            assert_eq!(receiver.recv_timeout(NEVER), Ok(signal));
        }
        drop(watch);
        assert!(
            receiver.recv_timeout(NEVER) == Err(RecvTimeoutError::Disconnected),
            "the thread ended and dropped its sender"
        );
    }
}
