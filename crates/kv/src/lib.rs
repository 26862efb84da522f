//! A drop-in memcached server that works in cohorts: what one turn of the loop read is parsed,
//! hashed, prefetched, probed and answered step by step for all of it.
//!
//! [`store`] holds the items. It does no I/O and reads no clock.

pub mod store;
