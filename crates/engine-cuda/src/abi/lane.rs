//! What all kernels know of a lane: `kernels/abi.cuh`.

use rhythm_engine::cohort::{LaneError, View};

/// A view of this length is no text: an answer that has not come, a file that was not asked for.
pub const NO_TEXT: u32 = u32::MAX;

/// Where a lane stands, as a byte: see [`Outcome`].
pub const LANE_ACTIVE: u8 = 0;
/// It has its answer.
pub const LANE_FINISHED: u8 = 1;
/// One of its regions is too small: to be run again with larger ones.
pub(crate) const LANE_ROOM: u8 = 2;
/// It asks for something that only the host computes: the reference runs it.
pub const LANE_HOST: u8 = 3;
/// Added to its error.
pub const LANE_FAILED: u8 = 64;

/// What became of a lane in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It takes part in the next stage.
    Active,
    /// It has its answer.
    Finished,
    /// One of its regions is too small.
    Room,
    /// The host must run it.
    Host,
    /// It failed.
    Failed(LaneError),
}

impl Outcome {
    /// What the byte says; one that says nothing is the device's failure.
    #[must_use]
    pub fn of(byte: u8) -> Outcome {
        match byte {
            LANE_ACTIVE => Outcome::Active,
            LANE_FINISHED => Outcome::Finished,
            LANE_ROOM => Outcome::Room,
            LANE_HOST => Outcome::Host,
            _ => {
                let error = byte.checked_sub(LANE_FAILED).and_then(LaneError::of_number);
                Outcome::Failed(error.unwrap_or(LaneError::DeviceFailed))
            }
        }
    }
}

/// What a lane's answer does to sessions: one of its `user` is created.
pub(crate) const SESSION_CREATE: u8 = 1;
/// The lane's own is destroyed.
pub(crate) const SESSION_DESTROY: u8 = 2;

structs! {
    /// What a lane's stage came to.
    #[derive(PartialEq, Eq)]
    pub struct LaneResult {
        /// See [`Outcome`].
        pub outcome: u8,
        /// 0 nothing, 1 a session of `user` is created, 2 the lane's own is destroyed.
        pub session: u8,
        /// HTTP status; 0 means 200.
        pub status: u16,
        /// Bytes of its run.
        pub run_length: u32,
        /// Its segments.
        pub segment_count: u32,
        /// Bytes of its body.
        pub body_length: u32,
        /// Queries it asks.
        pub query_count: u32,
        /// Headers it sets.
        pub header_count: u32,
        /// The file of `static/` that is its body; length [`NO_TEXT`]: none.
        pub file: View,
        /// Whose session is created.
        pub user: i64,
        /// Bytes of its text region that it used.
        pub text_used: u32,
        /// Bytes of the texts that the host needs: queries, header values, the file's path.
        pub texts_length: u32,
    }

    /// A session's id, where there is one.
    #[derive(PartialEq, Eq)]
    pub struct SessionKey {
        /// Which slot.
        pub slot: u32,
        /// Whether there is an id.
        pub present: u32,
        /// The low and the high half of the secret's 128 bits.
        pub secret: [u64; 2],
    }
}
