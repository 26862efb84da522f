//! A thread that makes memory resident before the workers need it: the first touch of a huge page
//! takes milliseconds, which a worker would spend in the middle of a turn.

use crate::store::Store;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often memory is made ready.
const EVERY: Duration = Duration::from_millis(10);

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Preparer {
    /// Its end ends the thread.
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Preparer {
    /// Makes the first memory ready, and starts the thread. Where the system cannot do it there is
    /// none, and all works as well.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(store: &Arc<Store>) -> io::Result<Preparer> {
        if !store.prepare() {
            return Ok(Preparer {
                end: None,
                thread: None,
            });
        }
        let store = Arc::clone(store);
        let (end, ended) = mpsc::sync_channel(0);
        let thread = thread::Builder::new().name("kv memory".into());
        let thread = thread.spawn(move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) && store.prepare() {}
        })?;
        Ok(Preparer {
            end: Some(end),
            thread: Some(thread),
        })
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
