//! What a thread tells of its loop. It alone writes it; who asks adds up those of all threads.

use crate::class::Class;
use rhythm_observe::{Count, SizeHistogram, TimeHistogram};

/// One thread's, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Figures {
    /// How long turns of the loop took in which something came, in nanoseconds: from when the
    /// thread woke to when their answers were sent.
    pub(crate) turns: TimeHistogram,
    /// The same of the commands that were executed in them, by their class: what others of their
    /// turn took is their time, too. That of other nodes of a ring comes behind it.
    pub(crate) commands: [TimeHistogram; Class::COUNT],
    /// How long answers waited for copies to exist on other nodes, and for other nodes to give
    /// them, from when that was asked for.
    pub(crate) for_copies: TimeHistogram,
    pub(crate) for_answers: TimeHistogram,
    /// Commands of each cohort.
    pub(crate) cohort_size: SizeHistogram,
    /// Bytes that connections hold now.
    pub(crate) held: Count,
    /// Times the thread was started again after a panic.
    pub(crate) restarts: Count,
}
