//! A thread that makes memory resident before the workers need it: the first touch of a huge page
//! takes milliseconds, which a worker would spend in the middle of a turn.

use crate::store::Store;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it is seen whether memory is to be made ready, and how soon again while there is more:
/// the thread may be on the processor of a worker, whose clients wait for each piece.
const EVERY: Duration = Duration::from_millis(10);
const AGAIN: Duration = Duration::from_millis(1);
/// Where nothing was to be done it is seen half as often each time, down to this, so that a server
/// that does nothing sleeps: what is ready lasts so long where 800 MB a second are written.
const IDLE: Duration = Duration::from_millis(40);

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Preparer {
    /// Its end ends the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Preparer {
    /// Makes the first memory ready, unless the server `is_ending` before, and starts the thread.
    /// Where the system cannot do it there is none, and all works as well.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(store: &Arc<Store>, is_ending: impl Fn() -> bool) -> io::Result<Preparer> {
        loop {
            match store.prepare() {
                Some(true) if is_ending() => break,
                Some(true) => {}
                Some(false) => break,
                None => {
                    return Ok(Preparer {
                        end: None,
                        thread: None,
                    });
                }
            }
        }
        let store = Arc::clone(store);
        let (end, ended) = mpsc::sync_channel(0);
        let thread = thread::Builder::new().name("kv memory".into());
        let thread = thread.spawn(move || {
            let mut wait = EVERY;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
                && let Some(has_more) = store.prepare()
            {
                wait = next(wait, has_more);
            }
        })?;
        Ok(Preparer {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

/// How long the thread waits after `wait`.
fn next(wait: Duration, has_more: bool) -> Duration {
    match has_more {
        true => AGAIN,
        false => (wait * 2).clamp(EVERY, IDLE),
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say, not even if it panicked: the server does without.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreOptions;

    #[test]
    fn who_has_nothing_to_do_looks_less_and_less_and_soon_again_where_there_is_more() {
        let mut wait = next(EVERY, true);
        let waits = [false, false, false, false, false, true].map(|has_more| {
            wait = next(wait, has_more);
            wait.as_millis()
        });
        assert_eq!(waits, [10, 20, 40, 40, 40, 1]);
    }

    #[test]
    fn who_is_told_to_end_makes_no_more_memory_ready() {
        let options = StoreOptions {
            memory: 256 << 20,
            resident: true,
            ..StoreOptions::default()
        };
        let store = Arc::new(Store::new(options).expect("it is only reserved"));
        let has_begun = store.prepare();
        let asked = std::cell::Cell::new(0);
        let preparer = Preparer::start(&store, || {
            asked.set(asked.get() + 1);
            true
        });
        let preparer = preparer.expect("there is a thread");
        if has_begun.is_some() {
            assert_eq!(asked.get(), 1, "it went on");
        }
        drop(preparer);
    }
}
