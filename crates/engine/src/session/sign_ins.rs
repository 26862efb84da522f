//! How often users sign in, and addresses fail to: counted in a fixed number of cells.
//!
//! A cell is a bucket that leaks (the generic cell rate algorithm of ITU-T I.371: one number, the
//! time at which the bucket is empty again) and the tag of whom it counts:
//!
//! ```text
//!   cell = empty at (44 bits, 1/16 ms) | tag (20 bits)
//! ```
//!
//! A key belongs to a set of [`WAYS`] cells, a cache line. It finds its own by the tag, or takes
//! the one of the set that is empty first. So where more keys fail at once than there are cells,
//! those that failed least are forgotten: limits get looser by that, never tighter. Who is counted
//! in the cell of another has the same set and the same tag, which nobody can bring about who does
//! not know the seed: at most one key in 100,000 suffers from any that are over their limit.
//!
//! Nothing here blocks, and a refusal costs a cache line.

use super::Millis;
use super::atomic::{AtomicU64, Ordering};
use core::num::NonZeroU32;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Cells that a key may have.
const WAYS: usize = 8;
/// Keys that are counted at a time, at most.
const CELLS: usize = 65_536;
const TAG_BITS: u32 = 20;
/// Parts of a millisecond that time is counted in.
const PARTS: u64 = 16;

/// How often it may be, in each `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInRules {
    /// How often one user may sign in; `None` for any number.
    pub per_user_max: Option<NonZeroU32>,
    /// How often sign-ins from one address may fail, which for IPv6 is a network of 64 bits; `None`
    /// for any number.
    pub failed_per_address_max: Option<NonZeroU32>,
    /// For how long these count.
    pub window: Millis,
}

impl SignInRules {
    /// No limits.
    pub const NONE: SignInRules = SignInRules {
        per_user_max: None,
        failed_per_address_max: None,
        window: 0,
    };
}

/// There were too many: again after so many seconds, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many sign-ins: again in {0} s")]
pub struct TooMany(pub u64);

/// The counters, shared by all threads. See the module's text.
pub struct SignIns {
    cells: Box<[AtomicU64]>,
    seed: u128,
    rules: SignInRules,
}

/// A limit: what one adds to its bucket, and how much that holds.
#[derive(Clone, Copy)]
struct Bucket {
    one: u64,
    holds: u64,
}

impl SignIns {
    /// Bytes of all cells.
    pub const BYTES: usize = CELLS * size_of::<AtomicU64>();

    /// Counters by these rules. The seed is to be one that nobody can predict.
    pub fn new(rules: SignInRules, seed: u128) -> SignIns {
        let any = rules.per_user_max.is_some() || rules.failed_per_address_max.is_some();
        let cells = if any { CELLS } else { 0 };
        SignIns {
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            seed,
            rules,
        }
    }

    /// Whether an address may try to sign in; it is counted only once that has
    /// [failed](Self::failed).
    ///
    /// # Errors
    /// Too many tries have failed.
    pub fn may_try(&self, address: IpAddr, now: Millis) -> Result<(), TooMany> {
        match self.bucket(self.rules.failed_per_address_max) {
            Some(bucket) => self.find(self.key_of_address(address), bucket, now * PARTS, false),
            None => Ok(()),
        }
    }

    /// A sign-in from this address has failed.
    ///
    /// # Errors
    /// So have too many before: it is to learn nothing of this one.
    pub fn failed(&self, address: IpAddr, now: Millis) -> Result<(), TooMany> {
        match self.bucket(self.rules.failed_per_address_max) {
            Some(bucket) => self.find(self.key_of_address(address), bucket, now * PARTS, true),
            None => Ok(()),
        }
    }

    /// A user is about to get a session.
    ///
    /// # Errors
    /// There were too many before, and it is not counted.
    pub fn signs_in(&self, user: i64, now: Millis) -> Result<(), TooMany> {
        match self.bucket(self.rules.per_user_max) {
            Some(bucket) => self.find(self.key(user), bucket, now * PARTS, true),
            None => Ok(()),
        }
    }

    fn bucket(&self, most: Option<NonZeroU32>) -> Option<Bucket> {
        let holds = self.rules.window.saturating_mul(PARTS);
        let one = (holds / u64::from(most?.get())).max(1);
        Some(Bucket { one, holds })
    }

    fn key_of_address(&self, address: IpAddr) -> u64 {
        match address.to_canonical() {
            IpAddr::V4(address) => self.key(address.to_bits()),
            IpAddr::V6(address) => self.key((address.to_bits() >> 64) as u64),
        }
    }

    /// SipHash of a value of its own type, keyed by the seed.
    fn key(&self, value: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.seed.hash(&mut hasher);
        // Integers of other sizes are other bytes; users and networks differ by the length.
        size_of_val(&value).hash(&mut hasher);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether there is room for one more in the bucket of a key, which is put there if it is
    /// wanted.
    fn find(&self, key: u64, bucket: Bucket, now: u64, put: bool) -> Result<(), TooMany> {
        let sets = self.cells.len() / WAYS;
        let set = (key >> 32) as usize % sets * WAYS;
        let set = &self.cells[set..set + WAYS];
        let tag = key & ((1 << TAG_BITS) - 1);
        loop {
            let (mut place, mut known) = (&set[0], u64::MAX);
            for cell in set {
                let seen = cell.load(Ordering::Relaxed);
                let is_its = seen != 0 && seen & ((1 << TAG_BITS) - 1) == tag;
                if is_its || seen < known {
                    (place, known) = (cell, seen);
                }
                if is_its {
                    break;
                }
            }
            let is_its = known & ((1 << TAG_BITS) - 1) == tag;
            let empty_at = if is_its { known >> TAG_BITS } else { 0 };
            let then = empty_at.max(now) + bucket.one;
            if let Some(over) = then
                .checked_sub(now + bucket.holds)
                .filter(|over| *over > 0)
            {
                return Err(TooMany(over.div_ceil(1000 * PARTS).max(1)));
            }
            if !put {
                return Ok(());
            }
            let put = place.compare_exchange(
                known,
                then << TAG_BITS | tag,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if put.is_ok() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn sign_ins(user: u32, failed: u32) -> SignIns {
        let rules = SignInRules {
            per_user_max: NonZeroU32::new(user),
            failed_per_address_max: NonZeroU32::new(failed),
            window: 60_000,
        };
        SignIns::new(rules, 7)
    }

    #[test]
    fn a_user_signs_in_so_often_in_a_window_and_others_are_none_the_worse() {
        let sign_ins = sign_ins(30, 0);
        for round in 0..1000 {
            let may = sign_ins.signs_in(7, 5_000_000);
            assert_eq!(may.is_ok(), round < 30, "{round}");
        }
        assert_eq!(sign_ins.signs_in(7, 5_000_000), Err(TooMany(2)));
        for user in 100..1000 {
            assert_eq!(sign_ins.signs_in(user, 5_000_000), Ok(()));
        }
        // Two seconds for each.
        assert!(sign_ins.signs_in(7, 5_002_000).is_ok());
        assert!(sign_ins.signs_in(7, 5_003_000).is_err());
        assert!((0..30).all(|_| sign_ins.signs_in(7, 5_070_000).is_ok()));
        assert!(sign_ins.failed(Ipv4Addr::LOCALHOST.into(), 0).is_ok());
    }

    #[test]
    fn an_address_fails_so_often_and_then_may_not_try() {
        let sign_ins = sign_ins(0, 10);
        let address = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1));
        for _ in 0..10 {
            assert_eq!(sign_ins.may_try(address, 1000), Ok(()));
            assert_eq!(sign_ins.failed(address, 1000), Ok(()));
        }
        assert_eq!(sign_ins.may_try(address, 1000), Err(TooMany(6)));
        assert_eq!(sign_ins.failed(address, 1000), Err(TooMany(6)));
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
        assert!(sign_ins.may_try(mapped.into(), 1000).is_err());
        assert!(sign_ins.may_try(address, 7000).is_ok());
        // Of a network of 64 bits all are one.
        let of = |low| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, low));
        for low in 0..10 {
            assert!(sign_ins.failed(of(low), 1000).is_ok());
        }
        assert!(sign_ins.failed(of(10), 1000).is_err());
        assert!((0..100).all(|user| sign_ins.signs_in(user, 0).is_ok()));
    }

    #[test]
    fn more_than_there_are_cells_for_loosen_limits_and_tighten_none() {
        let sign_ins = sign_ins(2, 0);
        let mut refused = 0;
        for user in 0..400_000 {
            refused += u32::from(sign_ins.signs_in(user, 1000).is_err());
        }
        // A key is refused only for another's sake: the bound is in the module's text.
        assert!(refused <= 8, "{refused}");
    }
}
