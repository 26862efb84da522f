//! What crosses between host and kernels: the structs, and the numbers of things. A file for each
//! of `kernels/*.cu`, and `lane` for what they share; the C++ side says the same with the same
//! names.
//!
//! What a kernel is launched with is declared whole: the types that its pointers lead to, how many
//! items each must have there, and the grid. A launch asserts it.
//!
//! One side alone cannot change: a test compiles each of `kernels/*.cu` with an assertion on every
//! field's place, on what it points to, and every number that is declared here.

#[macro_use]
mod declare;

pub(crate) mod bandwidth;
pub(crate) mod besim;
pub(crate) mod case;
#[cfg(all(test, feature = "emulation"))]
mod check;
mod columns;
mod lane;
pub(crate) mod layout;
pub(crate) mod parse;
pub(crate) mod resident;
pub(crate) mod sessions;
pub(crate) mod stage;

pub use columns::{Columns, column_slots};
pub use lane::{
    LANE_ACTIVE, LANE_FAILED, LANE_FINISHED, LANE_HOST, LaneResult, NO_TEXT, Outcome, SessionKey,
};
pub(crate) use lane::{SESSION_CREATE, SESSION_DESTROY};

/// Lanes of a warp, and of a tile of columns.
pub(crate) const WARP: usize = 32;
