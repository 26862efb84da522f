//! What the commands of a turn cost, and how much of it there may be: everybody waits for a turn's
//! end, and a short command may be about a long value.
//!
//! ```text
//!   a connection    WORK_MAX, then its commands wait in line         (line.rs)
//!   all of them     CONNECTIONS_MAX, then who takes much waits in line
//!                   twice that, then the others do, too
//!   all datagrams   DATAGRAMS_MAX, then they wait                    (backlog.rs)
//! ```
//!
//! Each bound is looked at before something is executed, so it is passed by one command, or one
//! datagram's. Cost is in bytes: of values that were made, copied, looked through or sent, and what
//! takes as long. It is known when it has arisen, so that of what a connection asks for now, what
//! it took in its last turn is the measure.

/// What a connection takes in one turn before its commands wait for the next.
pub(super) const WORK_MAX: usize = 2 << 20;
/// What all that take much have of a turn.
const CONNECTIONS_MAX: usize = 2 * WORK_MAX;
/// Who took more in his last turn takes much.
const LIGHT_MAX: usize = 64 << 10;
/// What all datagrams have of a turn.
const DATAGRAMS_MAX: usize = 1 << 20;
/// What a command of a datagram costs beside its values, and an answer beside its bytes.
const PIECE: usize = 128;
/// What a `stats` costs, in whichever protocol: it takes a hundred times as long as other commands
/// do. A connection has 64 in a turn.
const STATS: usize = WORK_MAX / 64 + 1;
/// To put together a byte of its answer takes so many times as long as to copy one: that to `stats
/// detail dump` may have many MiB.
const STATS_BYTE: usize = 4;

/// What was taken of a turn so far.
#[derive(Debug, Default)]
pub(super) struct Work {
    connections: usize,
    datagrams: usize,
    /// The connection that waited for longest has its turn, whatever others took of it.
    pub(super) owes: bool,
    /// One had that.
    pub(super) has_owed: bool,
}

impl Work {
    /// Whether there is room for a connection's commands, where so much is expected of others.
    pub(super) fn has_room(&self, is_light: bool, expected: usize) -> bool {
        let most = match is_light {
            true => 2 * CONNECTIONS_MAX,
            false => CONNECTIONS_MAX,
        };
        self.connections + expected < most
    }

    /// Whether there is room for a datagram's.
    pub(super) fn has_room_for_datagrams(&self) -> bool {
        self.datagrams < DATAGRAMS_MAX
    }

    /// A connection took so much.
    pub(super) fn add(&mut self, took: usize) {
        self.connections += took;
    }

    /// A datagram did.
    pub(super) fn add_datagram(&mut self, took: usize) {
        self.datagrams += took;
    }
}

/// Whether who took so much in his last turn takes little.
pub(super) fn is_light(took: usize) -> bool {
    took <= LIGHT_MAX
}

/// What a `stats` cost that has an answer of so many bytes.
pub(super) fn of_stats(answer: usize) -> usize {
    STATS.max(STATS_BYTE * answer)
}

/// What a datagram's commands and answers cost, so many of them together, beside values: of the
/// answers so many bytes.
pub(super) fn of_datagram(pieces: usize, answered: usize) -> usize {
    PIECE * pieces + answered
}
