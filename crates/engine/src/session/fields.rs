//! What sessions keep beside their user: for each slot a record of words.
//!
//! ```text
//!   record = [ version | owner | words ... ]
//! ```
//!
//! A record is its session's alone: the owner is a half of the secret of the session that wrote it
//! last, and to any other the record is empty. So nothing need be done where a session begins or
//! ends, and none ever sees what another has left in its slot.
//!
//! The version is odd while a record is being changed, and grows with each change. Who changes it
//! makes it odd by a compare-and-swap, so that one does at a time; who reads it looks at the
//! version before and after, and reads again where it has changed. It is sound because words are
//! stored with `Release` and loaded with `Acquire`: a reader that sees anything of a change
//! therefore also sees, on its second look, that there was one. Changes are some stores long.
//!
//! A request may be late: its session has ended, and the slot has another. Whether its session is
//! there is therefore looked at while the record is its own to change; if the next session has
//! written to it before, that is seen there.

use super::atomic::{AtomicU64, Ordering, pause};
use super::id::SessionId;

/// Words of a record before those of its fields.
const HEAD: usize = 2;

/// The records of all slots. All memory is allocated at the start.
pub(super) struct FieldStore {
    words: Box<[AtomicU64]>,
    /// Words of a record, its head included; 0 where there are no fields.
    record: usize,
}

impl FieldStore {
    /// One for this many slots, of so many words each; without words it takes no memory.
    pub(super) fn new(capacity: usize, words: usize) -> FieldStore {
        let record = if words == 0 { 0 } else { HEAD + words };
        FieldStore {
            words: (0..capacity * record).map(|_| AtomicU64::new(0)).collect(),
            record,
        }
    }

    /// The bytes that it takes.
    pub(super) fn bytes(capacity: usize, words: usize) -> usize {
        let record = if words == 0 { 0 } else { HEAD + words };
        capacity.saturating_mul(record * size_of::<AtomicU64>())
    }

    fn record(&self, id: &SessionId) -> Option<&[AtomicU64]> {
        let start = (id.slot as usize).checked_mul(self.record)?;
        let record = self.words.get(start..)?.get(..self.record)?;
        (self.record > 0).then_some(record)
    }

    /// Reads the words of a session; those of one that has none are 0. The session must have been
    /// looked up.
    pub(super) fn read(&self, id: &SessionId, into: &mut [u64]) {
        into.fill(0);
        let Some([version, owner, words @ ..]) = self.record(id) else {
            return;
        };
        loop {
            let before = version.load(Ordering::Acquire);
            if before & 1 == 0 {
                let is_its_own = owner.load(Ordering::Acquire) == id.secret[0];
                for (to, word) in into.iter_mut().zip(words) {
                    *to = word.load(Ordering::Acquire);
                }
                if version.load(Ordering::Relaxed) == before {
                    if !is_its_own {
                        into.fill(0);
                    }
                    return;
                }
            }
            pause();
        }
    }

    /// Sets words of a session, each by its index, if the session `is_there`: that is asked while
    /// nobody else can change them.
    pub(super) fn write(
        &self,
        id: &SessionId,
        changes: &[(usize, u64)],
        is_there: impl FnOnce() -> bool,
    ) {
        let Some([version, owner, words @ ..]) = self.record(id) else {
            return;
        };
        let mut before = version.load(Ordering::Relaxed);
        loop {
            if before & 1 == 0 {
                let odd = before.wrapping_add(1);
                match version.compare_exchange(before, odd, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => before = now,
                }
            } else {
                pause();
                before = version.load(Ordering::Relaxed);
            }
        }
        if is_there() {
            // Another's is empty to this one.
            if owner.load(Ordering::Relaxed) != id.secret[0] {
                words
                    .iter()
                    .for_each(|word| word.store(0, Ordering::Release));
                owner.store(id.secret[0], Ordering::Release);
            }
            for (index, word) in changes {
                words[*index].store(*word, Ordering::Release);
            }
        }
        version.store(before.wrapping_add(2), Ordering::Release);
    }
}
