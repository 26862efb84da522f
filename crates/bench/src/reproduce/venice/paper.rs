//! The paper's figures (*Venice*, HPCA 2016), as far as its text says them: most of its bars are
//! drawn, and nothing else.

/// Programs with 75 % of their memory remote, in times of all local: least and most (Figure 15).
pub(super) const REMOTE_SLOWER: (f64, f64) = (1.03, 2.5);
/// Cache lines that are fetched on the chip, in times of off the chip (Figure 5).
pub(super) const ON_CHIP_FASTER: f64 = 1.4;
/// With a router in times of without, by CRMA, at least (Figure 6).
pub(super) const ROUTER_SLOWER: f64 = 1.2;
/// Mebibytes of redis and seconds for 10,000 queries, at the ends of Figure 14.
pub(super) const CACHE_SECONDS: [(u64, f64); 2] = [(70, 11_900.0), (350, 758.0)];
/// Percent that local memory is faster at the last of these.
pub(super) const CACHE_LOCAL_FASTER: f64 = 7.0;
/// Misses in percent there.
pub(super) const CACHE_MISSES: f64 = 5.0;
/// Percent of three remote NICs that are used, by bytes of packets (Figure 16b).
pub(super) const NIC_USED: [(usize, f64); 2] = [(4, 40.0), (256, 85.0)];
/// Bandwidth with credits by CRMA in times of credits by messages: least and most (Figure 18).
pub(super) const CREDITS_FASTER: (f64, f64) = (1.28, 1.51);
