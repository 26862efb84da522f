//! Loom's atomics, made to try every interleaving.
//!
//! To save work loom tries another order of two accesses only if they depend on each other, but it
//! remembers just the last access to each atomic. A thread that loads and then exchanges a value
//! hides the loads of others before it, and orders that matter are never tried (seen with loom
//! 0.7.2: of a thread that loads and exchanges and one that loads, the second never sees the
//! exchanged value). So each access here first exchanges one more atomic that they all share, which
//! makes any two depend on each other. It is relaxed and hence orders no memory: what a load may
//! return stays the same.

use loom::sync::atomic::{self, AtomicUsize};
pub(super) use loom::sync::atomic::{Ordering, fence};

/// Another thread is to go on before this one can.
pub(super) fn pause() {
    loom::thread::yield_now();
}

loom::lazy_static! {
    static ref SHARED: AtomicUsize = AtomicUsize::new(0);
}

fn depend() {
    SHARED.fetch_add(1, Ordering::Relaxed);
}

macro_rules! atomics {
    ($($name:ident of $value:ty),*) => { $(
        pub(super) struct $name(atomic::$name);

        impl $name {
            pub(super) fn new(value: $value) -> Self {
                $name(atomic::$name::new(value))
            }

            pub(super) fn load(&self, order: Ordering) -> $value {
                depend();
                self.0.load(order)
            }

            pub(super) fn store(&self, value: $value, order: Ordering) {
                depend();
                self.0.store(value, order);
            }

            pub(super) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                depend();
                self.0.fetch_add(value, order)
            }

            pub(super) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                depend();
                self.0.fetch_sub(value, order)
            }

            pub(super) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                depend();
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    )* };
}

atomics!(AtomicI64 of i64, AtomicU32 of u32, AtomicU64 of u64);
