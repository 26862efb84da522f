//! Who has what: by slot, which replicas have what was written there last.

/// What is known of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Counts what was written there: what is on its way of before is nothing any more.
    pub(super) version: u32,
    /// The checksum of what was written last.
    pub(super) sum: u32,
    /// A bit a replica: it has said that it has that.
    pub(super) has: u8,
}

/// All slots; those that were never written take nothing.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Slots that may have been written.
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn get(&self, slot: u32) -> Place {
        self.0.get(slot as usize).copied().unwrap_or_default()
    }

    /// Something else is written; its version.
    pub(super) fn written(&mut self, slot: u32, sum: u32) -> u32 {
        let index = slot as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, Place::default());
        }
        let place = &mut self.0[index];
        *place = Place {
            version: place.version.wrapping_add(1),
            sum,
            has: 0,
        };
        place.version
    }

    /// Nobody needs what is there.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Some(place) = self.0.get_mut(slot as usize) {
            place.version = place.version.wrapping_add(1);
            place.has = 0;
        }
    }

    /// A replica has a version of a slot: who has it now. None: it is another by now.
    pub(super) fn confirm(&mut self, slot: u32, version: u32, bit: u8) -> Option<u8> {
        let place = self.0.get_mut(slot as usize)?;
        if place.version != version {
            return None;
        }
        place.has |= bit;
        Some(place.has)
    }

    /// A replica is gone: how many slots nobody has now, of those that are not `here`.
    pub(super) fn lose(&mut self, bit: u8, here: impl Fn(u32) -> bool) -> usize {
        let mut lost = 0;
        for (slot, place) in self.0.iter_mut().enumerate() {
            let had = place.has & bit != 0;
            place.has &= !bit;
            lost += usize::from(had && place.has == 0 && !here(slot as u32));
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_confirmed_late_says_nothing_of_what_was_written_since() {
        let mut places = Places::default();
        let first = places.written(7, 1);
        assert_eq!(places.confirm(7, first, 1), Some(1));
        let second = places.written(7, 2);
        assert_eq!(places.get(7).has, 0);
        assert_eq!(places.confirm(7, first, 2), None);
        assert_eq!(places.confirm(7, second, 2), Some(2));
        places.forget(7);
        assert_eq!(places.confirm(7, second, 1), None);
        assert_eq!(places.get(7).has, 0);
        // Nothing is known of one that was never written.
        places.forget(99);
        assert_eq!((places.count(), places.get(99).has), (8, 0));
    }

    #[test]
    fn lost_is_what_nobody_else_has_and_is_not_here() {
        let mut places = Places::default();
        for (slot, bits) in [(0, 1), (1, 3), (2, 2), (3, 1)] {
            let version = places.written(slot, 0);
            places.confirm(slot, version, bits);
        }
        assert_eq!(places.lose(1, |slot| slot == 3), 1);
        assert_eq!(places.get(1).has, 2);
        assert_eq!(places.lose(2, |_| false), 2);
    }
}
