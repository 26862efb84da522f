//! What loads servers and measures them: the load generator ([`load`]) and the limit that no server beats ([`limit`]).

pub mod limit;
pub mod load;
