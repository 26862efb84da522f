//! Typed parts of buffers: planned as an [`Extent`] before the buffer is made, borrowed as a
//! [`Slice`] once it is there.

use super::interface::{Address, DeviceId};
use crate::plain::{Plain, read};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// So many items of a type in a buffer, from a byte on.
pub struct Extent<T> {
    start: usize,
    count: usize,
    items: PhantomData<fn() -> T>,
}

impl<T> Extent<T> {
    /// `count` items from byte `start` on.
    #[must_use]
    pub const fn new(start: usize, count: usize) -> Extent<T> {
        Extent {
            start,
            count,
            items: PhantomData,
        }
    }

    /// Its first byte.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// How many items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its bytes.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.start..self.start + self.count * size_of::<T>()
    }
}

impl<T> Extent<T> {
    /// The same place, of items of another type of the same size.
    pub(crate) const fn cast<U>(self) -> Extent<U> {
        assert!(size_of::<T>() == size_of::<U>(), "items of one size");
        Extent::new(self.start, self.count)
    }
}

impl<T: Plain> Extent<T> {
    /// An item, in the bytes of the buffer.
    ///
    /// # Panics
    /// There is no such item.
    #[must_use]
    pub fn read(&self, memory: &[u8], index: usize) -> T {
        assert!(index < self.count, "item {index} of {}", self.count);
        read(&memory[self.start + index * size_of::<T>()..])
    }
}

impl<T> Clone for Extent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Extent<T> {}

impl<T> Default for Extent<T> {
    fn default() -> Self {
        Extent::new(0, 0)
    }
}

impl<T> fmt::Debug for Extent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items at {}", self.count, self.start)
    }
}

/// Extents in a buffer, handed out one after the other.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    bytes: usize,
}

impl Extents {
    /// What each begins at a multiple of.
    pub(crate) const ALIGN: usize = 256;

    /// Room for so many items, aligned.
    pub(crate) fn take<T>(&mut self, count: usize) -> Extent<T> {
        let place = Extent::new(self.bytes, count);
        self.bytes = place.range().end.next_multiple_of(Extents::ALIGN);
        place
    }

    /// Bytes of a buffer that has them all.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// So many items in memory that the device can use, of a buffer that is borrowed.
pub struct Slice<'m, T> {
    device: DeviceId,
    address: Address,
    count: usize,
    items: PhantomData<&'m [T]>,
}

impl<'m, T> Slice<'m, T> {
    /// The items of a buffer of a device, of so many bytes at `base`.
    pub(super) fn of(
        device: DeviceId,
        base: Address,
        bytes: usize,
        place: Extent<T>,
    ) -> Slice<'m, T> {
        let range = place.range();
        assert!(range.end <= bytes, "{place:?} in a buffer of {bytes} bytes");
        Slice {
            device,
            address: base.plus(range.start),
            count: place.count,
            items: PhantomData,
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Where it is, for this device, whose it must be.
    pub(super) fn address_on(&self, device: DeviceId) -> Address {
        assert_eq!(self.device, device, "memory of the device that uses it");
        self.address
    }

    /// How many items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all items.
    pub(super) const fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }

    /// Some of the items.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Slice<'m, T> {
        let Range { start, end } = range;
        assert!(
            start <= end && end <= self.count,
            "{start}..{end} of {self:?}"
        );
        Slice {
            device: self.device,
            address: self.address.plus(start * size_of::<T>()),
            count: end - start,
            items: PhantomData,
        }
    }
}

impl<'m, T, const N: usize> Slice<'m, [T; N]> {
    /// The items of all arrays.
    #[must_use]
    pub(crate) fn flat(&self) -> Slice<'m, T> {
        Slice {
            device: self.device,
            address: self.address,
            count: self.count * N,
            items: PhantomData,
        }
    }
}

impl<T> Clone for Slice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slice<'_, T> {}

impl<T> fmt::Debug for Slice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} items at {:#x}", self.count, self.address.0)
    }
}
