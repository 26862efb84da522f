//! Items as they are left in a memory file when a server ends: those that nothing refers to have an
//! expiry that has passed, and a long value, which is in another place of the file, has its length
//! where its address was.

use super::{Header, Item, LARGE, VALUE_MAX, flags_length, key_length};
use crate::store::segments::large::Large;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// The expiry of items that are not there any more. No clock shows an earlier second.
pub(crate) const GONE: u32 = 1;

impl<'p> Item<'p> {
    /// What lies at an address, if it can be an item that has at most `room` bytes: then its parts
    /// are inside of them. Its long value is as it was left.
    ///
    /// # Safety
    /// There are as many bytes, initialized and aligned to 4, which no other thread writes to and
    /// which are not used for anything else as long as `'p` lasts.
    pub(in super::super) unsafe fn left_at(at: NonNull<u8>, room: usize) -> Option<Item<'p>> {
        if room < size_of::<Header>() {
            return None;
        }
        let item = Item {
            at: at.cast(),
            guard: PhantomData,
        };
        // All bytes are headers, and of this one nothing is used yet but the lengths.
        let marks = item.bits();
        let has_two_lengths = marks & LARGE != 0 && marks & VALUE_MAX as u32 != 0;
        (!has_two_lengths && item.length() <= room).then_some(item)
    }

    /// Leaves the length of its long value in the place of its count of it, which the caller has
    /// from now on.
    ///
    /// # Safety
    /// It has a long value, nobody finds it any more, and all guards are dropped that might have
    /// found it.
    pub(in super::super) unsafe fn leave_large(&self) -> Option<Arc<Large>> {
        // SAFETY: by contract nobody else can take it; and below the address is gone.
        let large = unsafe { self.take_large() }?;
        self.put_large(large.len());
        Some(large)
    }

    /// The length that was left in the place of a long value.
    pub(crate) fn large_left(&self) -> usize {
        self.large_address().addr()
    }

    /// Gives it a long value.
    ///
    /// # Safety
    /// It was left without, and nobody can find it yet.
    pub(in super::super) unsafe fn put_back_large(&self, large: Arc<Large>) {
        self.put_large(Arc::into_raw(large).expose_provenance());
    }

    /// Writes where the address of its long value is.
    fn put_large(&self, word: usize) {
        let marks = self.bits();
        assert!(marks & LARGE != 0, "the value lies here");
        let from = size_of::<Header>() + flags_length(marks) + key_length(marks);
        let bytes = word.to_ne_bytes();
        // SAFETY: the address is a part of the item. That nobody reads it now is the contract of
        // those who call this.
        unsafe {
            let at = self.at.cast::<u8>().add(from);
            at.copy_from_nonoverlapping(NonNull::from(&bytes).cast(), bytes.len());
        }
    }
}
