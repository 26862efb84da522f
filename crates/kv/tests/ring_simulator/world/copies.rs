//! Who says that it has a range complete has all of it that was acknowledged: it may be the next to
//! serve it.

use super::World;
use crate::cluster::key;

impl World {
    /// Looks at a key with all nodes that say so.
    pub(super) fn check_copies(&mut self, number: usize) {
        if !self.options.acked || self.is_split {
            return;
        }
        let now = self.time();
        let range = self.placement.range(key(number).as_bytes());
        for (node, live) in self.nodes.iter_mut().enumerate() {
            let Some(live) = live else { continue };
            // One whose key was just removed is heard by nobody, and takes nothing before it hears
            // of that.
            if self.unaware[node] > self.now {
                continue;
            }
            // One without a lease takes nothing, and has nothing when it has another.
            if live.node.complete() & 1 << range == 0 || !live.may_write(now) {
                continue;
            }
            let had = self.keys[number].read_late(live.value(number, now));
            had.unwrap_or_else(|wrong| {
                panic!("{} at {node}, which has it complete: {wrong}", key(number))
            });
        }
    }

    /// Looks at all keys.
    pub(super) fn check_all_copies(&mut self) {
        if self.may_be_flushed() {
            self.lose_all();
        }
        for number in 0..self.keys.len() {
            self.check_copies(number);
        }
    }
}
