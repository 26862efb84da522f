//! Values in slots, each under a key that names it and nothing that came before or after it in the
//! same slot.
//!
//! ```text
//!   key = generation (31 bits) : slot (32 bits)
//!
//!   slot         0         1         2         3
//!   generation   4         0         7         1        raised when a value leaves
//!   value        [ A ]     [   ]     [ B ]     [   ]
//!   free         3, 1                                   the last used on top: its memory is warm
//! ```
//!
//! Slots are dense: there are never more of them than there were values at one time, so a slot can
//! index an array or a [`TimerWheel`](crate::TimerWheel) beside the slab. Nothing is given back to
//! the system while the slab lives: whoever bounds the values bounds the memory, to the size of a
//! value (and 12 bytes) for each.

use std::fmt;

/// Names one value of a [`Slab`]: a slot, which is used again, and a generation, which changes each
/// time it is.
///
/// A key kept too long names nothing rather than somebody else (until its slot has been used 2^31
/// times since).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

/// How many generations a slot has before they begin again.
const GENERATION_MASK: u32 = u32::MAX >> 1;

impl Key {
    /// The key of the value in `slot` at its `generation`, of which 31 bits count.
    pub const fn new(slot: u32, generation: u32) -> Key {
        Key(((generation & GENERATION_MASK) as u64) << 32 | slot as u64)
    }

    /// The slot: small and dense.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Which of the slot's values this is.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Both parts in one number whose highest bit is 0.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The inverse of [`Key::as_u64`]; the highest bit is ignored.
    pub const fn from_u64(bits: u64) -> Key {
        Key(bits & (u64::MAX >> 1))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.generation())
    }
}

#[derive(Clone, Debug)]
struct Slot<T> {
    /// Of the value in it, or of the next one.
    generation: u32,
    value: Option<T>,
}

/// Values by [`Key`]: insertion, look-up and removal each take one step.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// An empty slab, which has allocated nothing.
    pub const fn new() -> Slab<T> {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots that exist: the most values there were at one time.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The key that the next [`Slab::insert`] gives.
    #[inline]
    pub(crate) fn next_key(&self) -> Key {
        match self.free.last() {
            Some(&slot) => Key::new(slot, self.slots[slot as usize].generation),
            None => Key::new(self.slots.len() as u32, 0),
        }
    }

    /// Takes a value in and names it.
    #[inline]
    pub fn insert(&mut self, value: T) -> Key {
        let key = self.next_key();
        if self.free.pop().is_none() {
            assert!(self.slots.len() < u32::MAX as usize, "slots have 32 bits");
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
        }
        let slot = &mut self.slots[key.slot() as usize];
        debug_assert!(slot.value.is_none(), "a free slot holds nothing");
        slot.value = Some(value);
        key
    }

    /// The value, if the key names one.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.slot() as usize)?;
        if slot.generation != key.generation() {
            return None;
        }
        slot.value.as_ref()
    }

    /// The value, to be changed, if the key names one.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.slot() as usize)?;
        if slot.generation != key.generation() {
            return None;
        }
        slot.value.as_mut()
    }

    /// Takes the value out, if the key names one; the key names nothing from now on.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.slot() as usize)?;
        if slot.generation != key.generation() {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(key.slot());
        Some(value)
    }

    /// The key of the value that is in a slot now, if one is.
    pub(crate) fn key_at(&self, slot: u32) -> Option<Key> {
        let entry = self.slots.get(slot as usize)?;
        entry.value.as_ref()?;
        Some(Key::new(slot, entry.generation))
    }

    /// All values with their keys, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let entries = self.slots.iter().enumerate();
        entries.filter_map(|(index, slot)| {
            let value = slot.value.as_ref()?;
            Some((Key::new(index as u32, slot.generation), value))
        })
    }

    /// All values with their keys, by slot, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        let entries = self.slots.iter_mut().enumerate();
        entries.filter_map(|(index, slot)| {
            let generation = slot.generation;
            let value = slot.value.as_mut()?;
            Some((Key::new(index as u32, generation), value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_key_keeps_both_parts_and_leaves_the_highest_bit_free() {
        let key = Key::new(7, 0x8000_0003);
        assert_eq!((key.slot(), key.generation()), (7, 3));
        assert_eq!(Key::from_u64(key.as_u64() | 1 << 63), key);
        assert_ne!(Key::new(7, 4), key);
    }

    #[test]
    fn generations_begin_again_after_the_last() {
        let mut slab = Slab::new();
        let first = slab.insert('a');
        slab.slots[0].generation = GENERATION_MASK;
        let last = Key::new(0, GENERATION_MASK);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(last), Some('a'));
        assert_eq!(slab.insert('b'), first);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16),
        /// One of the keys ever given, by its place.
        Remove(usize),
        Change(usize, u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            any::<u16>().prop_map(Step::Insert),
            any::<usize>().prop_map(Step::Remove),
            (any::<usize>(), any::<u16>()).prop_map(|(at, value)| Step::Change(at, value)),
        ]
    }

    proptest! {
        #[test]
        fn the_slab_does_what_a_map_does(steps in prop::collection::vec(step(), 1..200)) {
            let mut slab = Slab::new();
            let mut map = HashMap::new();
            let mut given = Vec::new();
            let mut most = 0;
            for step in steps {
                let any = |at: usize| (!given.is_empty()).then(|| given[at % given.len()]);
                match step {
                    Step::Insert(value) => {
                        let foretold = slab.next_key();
                        let key = slab.insert(value);
                        prop_assert_eq!(foretold, key);
                        prop_assert_eq!(map.insert(key, value), None, "a key is given once");
                        given.push(key);
                    }
                    Step::Remove(at) => if let Some(key) = any(at) {
                        prop_assert_eq!(slab.remove(key), map.remove(&key));
                    },
                    Step::Change(at, value) => if let Some(key) = any(at) {
                        let new = slab.get_mut(key).map(|old| std::mem::replace(old, value));
                        prop_assert_eq!(new, map.get_mut(&key).map(|old| {
                            std::mem::replace(old, value)
                        }));
                    },
                }
                most = most.max(map.len());
                prop_assert_eq!((slab.len(), slab.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(slab.slots(), most, "slots are dense");
                for key in &given {
                    prop_assert_eq!(slab.get(*key), map.get(key));
                    let is_there = slab.key_at(key.slot()) == Some(*key);
                    prop_assert_eq!(is_there, map.contains_key(key));
                }
                let mut all: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
                all.sort_by_key(|(key, _)| key.slot());
                let listed: Vec<_> = slab.iter().map(|(key, value)| (key, *value)).collect();
                prop_assert_eq!(&listed, &all);
                let listed: Vec<_> = slab.iter_mut().map(|(key, value)| (key, *value)).collect();
                prop_assert_eq!(&listed, &all);
            }
        }
    }
}
