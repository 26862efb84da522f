//! Memory that is given to a stream until the device has told that it is done.

use super::interface::{GpuError, SharedGpu, Stream};
use super::queue::Queue;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the device tells.
#[derive(Debug, Default)]
struct Told {
    /// The last lending that is over, counted from 1.
    over: AtomicU64,
    error: Mutex<Option<GpuError>>,
}

impl Told {
    fn tell(&self, lending: u64, outcome: Result<(), GpuError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = outcome.err();
        self.over.store(lending, Ordering::Release);
    }

    /// How a lending has ended, if it has.
    fn take(&self, lending: u64) -> Option<Result<(), GpuError>> {
        if self.over.load(Ordering::Acquire) != lending {
            return None;
        }
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        Some(error.take().map_or(Ok(()), Err))
    }
}

/// A stream and what its work uses: the host's and the stream's in turn, never both's.
#[derive(Debug)]
pub struct Lent<M> {
    gpu: SharedGpu,
    stream: Stream,
    memory: M,
    is_lent: bool,
    /// How often it has been lent.
    lendings: u64,
    told: Arc<Told>,
}

impl<M> Lent<M> {
    /// Memory, and a stream of its own.
    ///
    /// # Errors
    /// The device failed.
    pub fn new(gpu: &SharedGpu, memory: M) -> Result<Lent<M>, GpuError> {
        Ok(Lent {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            memory,
            is_lent: false,
            lendings: 0,
            told: Arc::default(),
        })
    }

    /// Whether the stream has it.
    #[must_use]
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// The memory, which the host has.
    ///
    /// # Panics
    /// The stream has it.
    pub fn memory(&mut self) -> &mut M {
        assert!(!self.is_lent, "the stream has it");
        &mut self.memory
    }

    /// Puts work on the memory into the stream, which has it until [`Lent::take_back`] tells
    /// otherwise; `wake` is called when that has something to tell.
    ///
    /// # Errors
    /// That of the work, or the device failed. Some of it may have been put into the stream: only
    /// [`Lent::wait`] gives the memory back.
    ///
    /// # Panics
    /// The stream has it already.
    pub fn lend(
        &mut self,
        work: impl for<'m> FnOnce(&Queue<'m>, &'m M) -> Result<(), GpuError>,
        wake: impl FnOnce() + Send + 'static,
    ) -> Result<(), GpuError> {
        assert!(!self.is_lent, "the stream has it");
        self.is_lent = true;
        self.lendings += 1;
        // SAFETY: the closure can borrow nothing for the queue's lifetime but the memory, and that
        // is ours and touched by nobody until `is_lent` is false again: when the stream has done
        // all, as told by the completion that was put in behind it or by a wait. So before it is
        // dropped; where it is leaked, it stays.
        let queue = unsafe { Queue::new(&*self.gpu, self.stream) };
        work(&queue, &self.memory)?;
        let (told, lending) = (self.told.clone(), self.lendings);
        let call = move |outcome| {
            told.tell(lending, outcome);
            wake();
        };
        self.gpu.on_completion(self.stream, Box::new(call))
    }

    /// Whether the stream has done what it was lent the memory for, and how that ended; the memory
    /// is the host's then.
    pub fn take_back(&mut self) -> Option<Result<(), GpuError>> {
        if !self.is_lent {
            return None;
        }
        let outcome = self.told.take(self.lendings)?;
        self.is_lent = false;
        Some(outcome)
    }

    /// Waits until the stream has done whatever it was given.
    pub fn wait(&mut self) {
        if self.is_lent {
            // An error means that nothing runs any more.
            let _ = self.gpu.synchronize(self.stream);
            self.is_lent = false;
        }
    }
}

impl<M> Drop for Lent<M> {
    fn drop(&mut self) {
        self.wait();
    }
}
