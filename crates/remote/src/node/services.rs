//! The services that a node keeps, for all of its threads, and the thread that compiles them.
//!
//! They are kept under the digests of what they were compiled of, so that front ends that serve the
//! same have one, and a front end that comes again finds it. How many there are is bounded, and so
//! are their bytes: those that nobody used for longest go first, and are asked for again. Of those
//! that are not fit, of which the last few are remembered, too, nothing is kept but why.

use crate::bundle::{Compiled, StageMax, compile_bundle};
use crate::wire::message::{Digest, words};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

/// Most services, and most bytes of their sources and programs together.
const SERVICES_MAX: usize = 32;
const BYTES_MAX: usize = 128 << 20;
/// Most services that wait to be compiled.
const WAITING_MAX: usize = 8;

/// Whom the outcome is told: it is called on the thread that compiles, or on that of who asks.
pub(super) type Tell = Box<dyn FnOnce(Result<Compiled, String>) + Send>;

#[derive(Debug)]
struct Kept {
    compiled: Compiled,
    used: u64,
}

#[derive(Default)]
struct State {
    kept: HashMap<Digest, Kept>,
    /// Those that are not fit, and why: the last ones.
    unfit: VecDeque<(Digest, String)>,
    /// Under way, and who waits for them.
    pending: HashMap<Digest, Vec<Tell>>,
    /// Counts uses.
    uses: u64,
}

/// See the module's text.
pub(super) struct Services {
    state: Mutex<State>,
    jobs: SyncSender<(Digest, Vec<u8>)>,
}

/// What there is of a service.
pub(super) enum Found {
    /// It was compiled, or is not fit, and why.
    Known(Result<Compiled, String>),
    /// It is compiled just now: whoever asked is told.
    Pending,
    /// Nobody has it.
    Unknown,
}

impl Services {
    /// None yet, and a thread that compiles those that ask for no more than this.
    ///
    /// # Errors
    /// There can be no thread.
    pub(super) fn start(most: StageMax) -> io::Result<Arc<Services>> {
        let (jobs, waiting) = sync_channel(WAITING_MAX);
        let services = Arc::new(Services {
            state: Mutex::default(),
            jobs,
        });
        let own = Arc::downgrade(&services);
        let work = move |waiting: Receiver<(Digest, Vec<u8>)>| {
            for (digest, bytes) in waiting {
                let compiled = catch_unwind(AssertUnwindSafe(|| compile_bundle(&bytes, most)));
                let Some(services) = own.upgrade() else {
                    return;
                };
                match compiled {
                    Ok(compiled) => services.compiled(digest, compiled),
                    // Perhaps not the next time.
                    Err(_) => services.tell(
                        digest,
                        Err("the compiler failed there: this is a mistake of Rhythm's".to_owned()),
                    ),
                }
            }
        };
        let thread = thread::Builder::new().name("compile".to_owned());
        thread.spawn(move || work(waiting))?;
        Ok(services)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service, for a cohort.
    pub(super) fn get(&self, digest: &Digest) -> Option<Compiled> {
        self.state().used(digest)
    }

    /// What is known of a service that was offered; `tell` is told if it is pending.
    pub(super) fn find(&self, digest: &Digest, tell: Tell) -> Found {
        let mut state = self.state();
        if let Some(known) = state.known(digest) {
            return Found::Known(known);
        }
        match state.pending.get_mut(digest) {
            Some(told) => {
                told.push(tell);
                Found::Pending
            }
            None => Found::Unknown,
        }
    }

    /// Has sources compiled; `tell` is told what comes of it. False: too many wait.
    pub(super) fn compile(&self, digest: Digest, bytes: Vec<u8>, tell: Tell) -> bool {
        let mut state = self.state();
        if let Some(known) = state.known(&digest) {
            // Another had it compiled meanwhile.
            drop(state);
            tell(known);
            return true;
        }
        if let Some(told) = state.pending.get_mut(&digest) {
            told.push(tell);
            return true;
        }
        match self.jobs.try_send((digest, bytes)) {
            Ok(()) => drop(state.pending.insert(digest, vec![tell])),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return false,
        }
        true
    }

    /// A service was compiled: what came of it is kept, and told to those who wait.
    fn compiled(&self, digest: Digest, compiled: Result<Compiled, String>) {
        // Names of files are the front end's, and as long as it likes.
        let compiled = compiled.map_err(|why| words(&why).to_owned());
        {
            let state = &mut *self.state();
            state.uses += 1;
            match &compiled {
                Ok(compiled) => {
                    let kept = Kept {
                        compiled: compiled.clone(),
                        used: state.uses,
                    };
                    state.kept.insert(digest, kept);
                    state.make_room();
                }
                Err(why) => {
                    state.unfit.truncate(SERVICES_MAX - 1);
                    state.unfit.push_front((digest, why.clone()));
                }
            }
        }
        self.tell(digest, compiled);
    }

    fn tell(&self, digest: Digest, compiled: Result<Compiled, String>) {
        let told = self.state().pending.remove(&digest).unwrap_or_default();
        told.into_iter().for_each(|tell| tell(compiled.clone()));
    }
}

impl State {
    /// The service, if it is kept, which is used by that.
    fn used(&mut self, digest: &Digest) -> Option<Compiled> {
        self.uses += 1;
        let kept = self.kept.get_mut(digest)?;
        kept.used = self.uses;
        Some(kept.compiled.clone())
    }

    /// What came of a service that was compiled, as far as that is remembered.
    fn known(&mut self, digest: &Digest) -> Option<Result<Compiled, String>> {
        let unfit = self.unfit.iter().find(|(unfit, _)| unfit == digest);
        let unfit = unfit.map(|(_, why)| Err(why.clone()));
        self.used(digest).map(Ok).or(unfit)
    }

    /// Lets go of those that were used least lately, but for the last one.
    fn make_room(&mut self) {
        let is_too_much = |kept: &HashMap<Digest, Kept>| {
            let bytes: usize = kept.values().map(|kept| kept.compiled.bytes).sum();
            kept.len() > SERVICES_MAX || (bytes > BYTES_MAX && kept.len() > 1)
        };
        while is_too_much(&self.kept) {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(digest, _)| *digest) else {
                return;
            };
            self.kept.remove(&oldest);
        }
    }
}
