//! What kernels take: fields of their structs as the host has them, and what must hold of these.
//!
//! `abi/` declares each kernel's struct once, with borrowed [`Slice`]s where the kernel has
//! pointers, how many items each must have, and the grid. What comes of a declaration is a
//! [`Launch`], which a [`Queue`](super::Queue) takes from safe code.

use super::extent::Slice;
use super::interface::{Address, DeviceId, Grid};
use super::kernel::Kernel;
use std::ops::{Add, Mul};

/// A number of items or bytes. Sums and products end at the largest, so that what is too much
/// stays too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(u64);

impl Count {
    /// As a number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// How many groups of so many there are, the last perhaps not full.
    #[must_use]
    pub const fn div_ceil(self, by: u64) -> Count {
        Count(self.0.div_ceil(by))
    }

    /// A thread for each, in blocks of so many.
    #[must_use]
    pub const fn over(self, threads: u32) -> Grid {
        Grid::over(self.get(), threads)
    }
}

impl<T: Into<Count>> Mul<T> for Count {
    type Output = Count;

    fn mul(self, by: T) -> Count {
        Count(self.0.saturating_mul(by.into().0))
    }
}

impl<T: Into<Count>> Add<T> for Count {
    type Output = Count;

    fn add(self, more: T) -> Count {
        Count(self.0.saturating_add(more.into().0))
    }
}

/// A field of a kernel's struct, as the host has it.
pub trait Field: Copy {
    /// How it lies in the struct.
    type Raw: Copy;
    /// What it is where the lengths of other fields are told: a number is a [`Count`].
    type Counted: Copy;
    /// The name of the type that it points to.
    const POINTEE: Option<fn() -> &'static str> = None;

    /// As it is where lengths are told.
    fn counted(self) -> Self::Counted;

    /// As it lies in the struct of a kernel that this device runs.
    ///
    /// # Panics
    /// It is memory of another device, or shorter than the kernel uses it.
    fn lower(self, device: DeviceId) -> Self::Raw;
}

/// A field that points to items.
pub(crate) trait Pointer {
    /// Whether there are so many; of what is optional, if it is there.
    fn has(&self, count: Count) -> bool;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Count {
            fn from(number: $number) -> Count {
                Count(number as u64)
            }
        }

        impl Field for $number {
            type Raw = $number;
            type Counted = Count;

            fn counted(self) -> Count {
                self.into()
            }

            fn lower(self, _: DeviceId) -> $number {
                self
            }
        }
    )*};
}

numbers!(u32, u64, usize);

impl<T> Field for Slice<'_, T> {
    type Raw = Address;
    type Counted = Self;
    const POINTEE: Option<fn() -> &'static str> = Some(std::any::type_name::<T>);

    fn counted(self) -> Self {
        self
    }

    fn lower(self, device: DeviceId) -> Address {
        self.address_on(device)
    }
}

impl<T> Pointer for Slice<'_, T> {
    fn has(&self, count: Count) -> bool {
        Count::from(self.len()) >= count
    }
}

/// Null where there is none.
impl<T> Field for Option<Slice<'_, T>> {
    type Raw = Address;
    type Counted = Self;
    const POINTEE: Option<fn() -> &'static str> = Some(std::any::type_name::<T>);

    fn counted(self) -> Self {
        self
    }

    fn lower(self, device: DeviceId) -> Address {
        self.map_or(Address::NULL, |slice| slice.lower(device))
    }
}

impl<T> Pointer for Option<Slice<'_, T>> {
    fn has(&self, count: Count) -> bool {
        self.is_none_or(|slice| slice.has(count))
    }
}

/// All that a kernel is launched with, of memory that is borrowed for `'m`.
///
/// # Safety
/// [`Field::lower`] gives the struct that the kernel takes; the slices in it are borrowed for `'m`
/// and have as many items as the kernel uses with the struct's numbers in such a grid, which has
/// the shared memory that it uses.
pub unsafe trait Launch<'m>: Field {
    /// The kernel that takes it.
    fn kernel(&self) -> Kernel;

    /// By how many threads it is run.
    fn grid(&self) -> Grid;
}
