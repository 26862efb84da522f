//! Long values take long to copy, the more so into memory that the system has yet to give: a GiB a
//! second or two. So one is made between two attempts at its write, while no lock is held that
//! others wait for, and under a guard that is made anew again and again, so that nobody waits for
//! it. The next attempt puts it in its place, if the key still has what it was made of.

use super::Pinned;
use super::change::Value;
use super::segments::{Item, Large};
use std::sync::Arc;

/// Values of more bytes are made so.
pub(super) const LONG: usize = 1 << 20;
/// Bytes that are copied under one guard.
const PIECE: usize = 2 << 20;
/// How often one is made, where others change what the key has meanwhile. Then it is copied under
/// the locks, lest others be first for ever.
const TRIES: u32 = 4;

/// What a long value is made of.
pub(super) struct Recipe<'a> {
    before: Before,
    bytes: &'a [u8],
    /// The bytes come first.
    is_prepended: bool,
}

/// What the key has that is a part of it.
enum Before {
    Nothing,
    /// In its segment.
    Here(Vec<u8>),
    Large(Arc<Large>),
}

impl Before {
    fn bytes(&self) -> &[u8] {
        match self {
            Before::Nothing => &[],
            Before::Here(bytes) => bytes,
            Before::Large(large) => large,
        }
    }
}

impl<'a> Recipe<'a> {
    /// Of this value, where the key has that item. None: it is not made of a client's bytes.
    pub(super) fn of(value: Value<'a>, current: Option<&Item<'_>>) -> Option<Recipe<'a>> {
        let before = || match current {
            None => Before::Nothing,
            Some(item) => match item.large() {
                Some(large) => Before::Large(large),
                None => Before::Here(item.value().to_vec()),
            },
        };
        let (before, bytes, is_prepended) = match value {
            Value::Bytes(bytes) => (Before::Nothing, bytes, false),
            Value::Appended(bytes) => (before(), bytes, false),
            Value::Prepended(bytes) => (before(), bytes, true),
            Value::Same | Value::Number { .. } => return None,
        };
        Some(Recipe {
            before,
            bytes,
            is_prepended,
        })
    }

    fn parts(&self) -> [&[u8]; 2] {
        match self.is_prepended {
            false => [self.before.bytes(), self.bytes],
            true => [self.bytes, self.before.bytes()],
        }
    }

    /// Does the same value come of both? Both keep what they are made of, so that what lies in one
    /// place is the same.
    fn is(&self, other: &Recipe<'_>) -> bool {
        let same_before = match (&self.before, &other.before) {
            (Before::Large(one), Before::Large(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.bytes() == two.bytes(),
        };
        let same_bytes = std::ptr::eq(self.bytes, other.bytes);
        same_before && same_bytes && self.is_prepended == other.is_prepended
    }
}

/// The long value of a write, if it has one.
#[derive(Default)]
pub(super) struct Long<'a> {
    made: Option<(Recipe<'a>, Arc<Large>)>,
    tries: u32,
}

impl Long<'_> {
    /// May it be made, or was it?
    pub(super) fn may_be_made(&self) -> bool {
        self.tries <= TRIES
    }

    /// The value that comes of this, if it was made.
    pub(super) fn made(&self, recipe: &Recipe<'_>) -> Option<Arc<Large>> {
        let made = self.made.as_ref().filter(|(of, _)| of.is(recipe));
        made.map(|(_, large)| Arc::clone(large))
    }
}

impl Pinned<'_> {
    /// Makes the long value of a write, if it may be made once more; no lock is held. False: there
    /// is no memory for it.
    pub(super) fn make_long<'a>(
        &mut self,
        long: &mut Long<'a>,
        recipe: Recipe<'a>,
        now: u32,
    ) -> bool {
        // What was made of something else takes room.
        long.made = None;
        long.tries += 1;
        if !long.may_be_made() {
            return true;
        }
        let length = recipe.parts().iter().map(|part| part.len()).sum();
        self.work += length;
        let large = loop {
            match self.guard.reserve(length) {
                Ok(large) => break large,
                Err(wanted) if self.make_room(wanted, now) => {}
                Err(_) => return false,
            }
        };
        let Some(mut large) = large else {
            return false;
        };
        for piece in recipe.parts().iter().flat_map(|part| part.chunks(PIECE)) {
            // Nothing is borrowed from the guard.
            self.guard.renew();
            if !large.push(piece) {
                debug_assert!(false, "it was reserved for all parts");
                return false;
            }
        }
        long.made = Some((recipe, Arc::new(large)));
        true
    }
}
