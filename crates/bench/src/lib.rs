//! What loads servers and measures them: the load generator ([`load`]), the paper's emulation
//! ([`emulate`]) and the limit that no server beats ([`limit`]).
#![forbid(unsafe_code)]

pub mod emulate;
pub mod limit;
pub mod load;
