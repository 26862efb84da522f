//! What a server counts. Each thread counts for itself; who asks adds them up.

use crate::counters::Kind;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[$doc])* $name),*
        }

        impl Counter {
            /// All of them, in the order of their numbers.
            pub const ALL: [Counter; Counter::COUNT] = [$(Counter::$name),*];
            /// How many there are.
            pub const COUNT: usize = [$(stringify!($name)),*].len();
        }
    };
}

counters! {
    /// Keys fetched.
    CmdGet,
    /// Of these, keys that had an item.
    GetHits,
    /// And keys that had none.
    GetMisses,
    /// Of the keys fetched or touched without an item, those whose item had expired ...
    GetExpired,
    /// ... and those whose item was flushed.
    GetFlushed,
    /// Values to be stored.
    CmdSet,
    /// Flushes.
    CmdFlush,
    /// Keys touched, or fetched and touched.
    CmdTouch,
    /// Of these, keys that had an item.
    TouchHits,
    /// And keys that had none.
    TouchMisses,
    /// `me` commands.
    CmdMeta,
    /// Keys whose item was dropped.
    DeleteHits,
    /// And keys that had none.
    DeleteMisses,
    /// Numbers that grew.
    IncrHits,
    /// And keys without one.
    IncrMisses,
    /// Numbers that shrank.
    DecrHits,
    /// And keys without one.
    DecrMisses,
    /// Values stored in the place of the item that was meant.
    CasHits,
    /// There was no item.
    CasMisses,
    /// There was another.
    CasBadval,
    /// Values larger than an item may be, but for those of binary requests.
    StoreTooLarge,
    /// Those of binary requests, which memcached does not count.
    BinaryTooLarge,
    /// Values there was no room for.
    StoreNoMemory,
    /// Clients that said who they are.
    AuthCmds,
    /// Of these, not in truth.
    AuthErrors,
    /// Bytes from clients.
    BytesRead,
    /// Bytes to clients.
    BytesWritten,
    /// Connections that were opened.
    Opened,
    /// Connections turned away since there were too many.
    Rejected,
    /// Times that clients began to wait, since there were too many.
    ListenDisabled,
    /// How long clients waited, in microseconds.
    ListenDisabledTime,
    /// Connections closed since nothing came from them.
    IdleKicks,
    /// Connections dropped since all of a thread's held too much.
    GaveWay,
    /// Times that a connection's commands were left so that others had their turn.
    Yields,
    /// Times that they waited for their answers to be taken, or for room in the ring.
    Stalls,
    /// Cohorts executed.
    Cohorts,
    /// Commands in them.
    Commands,
}

impl Kind for Counter {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

/// The counters of one thread.
pub type Counters = crate::counters::Counters<Counter, { Counter::COUNT }>;
