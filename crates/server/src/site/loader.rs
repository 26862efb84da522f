//! Reloads, on a thread of their own: what a site is made from may hang (a file system that is
//! gone, a name that is not resolved), and nothing else waits for it.
//!
//! While nothing is reloaded, it looks up the names of backends again (`names.rs`).
//!
//! One reload is under way at a time, and at most one follows it. One that is under way when the
//! server shuts down is abandoned.

use crate::site::{Site, Sites};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the thread does what is to be done between reloads.
const MEANWHILE_EVERY: Duration = Duration::from_secs(1);

/// Why there is no site where reading it has panicked.
const PANICKED: &str = "a fault of this server kept it from reading the service: see its log";

/// Gives each of the sites that are served anew, in their order, or says why it cannot: what they
/// were made from may have changed. It has a thread of its own: what takes waiting, such as reading
/// files and looking names up, is done here.
pub type Loader = Box<dyn FnMut(&Sites) -> Loaded + Send>;

/// What a reload has loaded.
pub type Loaded = Vec<Result<Arc<Site>, String>>;

/// What became of a reload.
pub(crate) type Reloaded = Result<(), String>;

/// Who waits for a reload, if anybody does.
type Order = Option<Sender<Reloaded>>;

/// Has the loader's thread load the sites.
#[derive(Debug)]
pub(crate) struct Reloads {
    orders: SyncSender<Order>,
    /// When that under way began.
    began: Arc<Mutex<Option<Instant>>>,
}

impl Reloads {
    /// Starts the thread. What is loaded, or why nothing is, goes to `serve`; `meanwhile` is done
    /// each second, until it says that there is nothing to do before the next reload.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start(
        mut loader: impl FnMut() -> Loaded + Send + 'static,
        mut serve: impl FnMut(Loaded) -> Reloaded + Send + 'static,
        mut meanwhile: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Reloads> {
        let (orders, waiting): (_, Receiver<Order>) = sync_channel(1);
        let began = Arc::<Mutex<Option<Instant>>>::default();
        let its = began.clone();
        let set = move |at| *its.lock().unwrap_or_else(PoisonError::into_inner) = at;
        let run = move || {
            let mut is_awake = true;
            loop {
                let order = match is_awake {
                    true => waiting.recv_timeout(MEANWHILE_EVERY),
                    false => waiting.recv().map_err(RecvTimeoutError::from),
                };
                let order = match order {
                    Ok(order) => order,
                    Err(RecvTimeoutError::Timeout) => {
                        // It is tried again.
                        is_awake = catch_unwind(AssertUnwindSafe(&mut meanwhile)).unwrap_or(true);
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                is_awake = true;
                set(Some(Instant::now()));
                // Whatever is wrong with what it reads, later reloads are to be made.
                let loaded = catch_unwind(AssertUnwindSafe(&mut loader));
                let loaded = loaded.unwrap_or_else(|_| vec![Err(PANICKED.to_owned())]);
                let reloaded = catch_unwind(AssertUnwindSafe(|| serve(loaded)));
                let reloaded = reloaded.unwrap_or_else(|_| Err(PANICKED.to_owned()));
                set(None);
                if let Some(waits) = order {
                    // It may have given up.
                    let _ = waits.send(reloaded);
                }
            }
        };
        std::thread::Builder::new()
            .name("loader".to_owned())
            .spawn(run)?;
        Ok(Reloads { orders, began })
    }

    /// A reload, which is waited for.
    pub(crate) fn wait(&self) -> Reloaded {
        let (done, result) = channel();
        let gone = || Err("the loader has ended".to_owned());
        match self.orders.send(Some(done)) {
            Ok(()) => result.recv().unwrap_or_else(|_| gone()),
            Err(_) => gone(),
        }
    }

    /// A reload, which nobody waits for.
    pub(crate) fn ask(&self) {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(began) = *began {
            let seconds = began.elapsed().as_secs();
            tracing::warn!(
                seconds,
                "a reload is under way that has not read the service yet; another follows it"
            );
        }
        match self.orders.try_send(None) {
            // The one that follows already will do.
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                tracing::error!("the loader has ended: restart the server to load the service");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A test that waits longer has failed.
    const NEVER: Duration = Duration::from_secs(60);

    #[test]
    fn one_reload_that_hangs_is_followed_by_one_and_nobody_waits() {
        let (free, hangs) = sync_channel::<()>(0);
        let (begins, begun) = sync_channel(9);
        let loader = move || {
            begins.send(()).expect("the test listens");
            if hangs.recv().is_err() {
                return vec![Err("not freed".to_owned())];
            }
            vec![Err("no site".to_owned())]
        };
        let served = Arc::new(AtomicUsize::new(0));
        let counts = served.clone();
        let serve = move |loaded: Loaded| {
            counts.fetch_add(1, Ordering::AcqRel);
            loaded.into_iter().try_for_each(|site| site.map(drop))
        };
        let reloads = Reloads::start(loader, serve, || false).expect("a thread");
        reloads.ask();
        begun.recv_timeout(NEVER).expect("it begins");
        for _ in 0..5 {
            reloads.ask();
        }
        free.send(()).expect("it waits");
        begun.recv_timeout(NEVER).expect("another follows");
        free.send(()).expect("it waits");
        drop(free);
        assert_eq!(reloads.wait(), Err("not freed".to_owned()));
        assert_eq!(served.load(Ordering::Acquire), 3);
    }

    #[test]
    fn a_reload_that_panics_is_followed_by_others() {
        let mut is_first = true;
        let loader = move || {
            assert!(!std::mem::take(&mut is_first), "the test wants it so");
            Vec::new()
        };
        let serve = |loaded: Loaded| loaded.into_iter().try_for_each(|site| site.map(drop));
        let reloads = Reloads::start(loader, serve, || false).expect("a thread");
        assert_eq!(reloads.wait(), Err(PANICKED.to_owned()));
        assert_eq!(reloads.wait(), Ok(()));
    }

    #[test]
    fn what_is_done_between_reloads_is_done_again_where_it_panicked() {
        let (tells, told) = channel();
        let meanwhile = move || -> bool {
            tells.send(()).expect("the test listens");
            panic!("the test wants it so");
        };
        let reloads = Reloads::start(Vec::new, |_| Ok(()), meanwhile).expect("a thread");
        for _ in 0..2 {
            told.recv_timeout(NEVER).expect("it is done");
        }
        assert_eq!(reloads.wait(), Ok(()));
    }
}
