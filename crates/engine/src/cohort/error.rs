//! Why a lane fails: one table that gives each reason its number, status, name and words.

/// Declares [`LaneError`] from the table below.
macro_rules! lane_errors {
    ($(
        $(#[$doc:meta])*
        $reason:ident = $number:literal, $status:literal, $name:literal, $text:literal;
    )+) => {
        /// Why a lane's request could not be answered as its page says. Small and flat, so that it
        /// fits a column and crosses to a GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[repr(u8)]
        pub enum LaneError {
            $($(#[$doc])* #[error($text)] $reason = $number,)+
        }

        impl LaneError {
            /// All of them, by their numbers, from 1 on: 0 is no error.
            pub const ALL: [LaneError; [$($number),+].len()] = [$(LaneError::$reason),+];

            /// The HTTP status it is answered with (RFC 9110, section 15.6).
            pub fn status(self) -> u16 {
                match self {
                    $(LaneError::$reason => $status,)+
                }
            }

            /// Its name in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(LaneError::$reason => $name,)+
                }
            }
        }
    };
}

lane_errors! {
    /// Dividing by zero.
    DivisionByZero = 1, 500, "division_by_zero", "a division by zero in the page, or a `randrange` \
        that has nothing to choose from";
    /// An integer beyond 64 bits, or a float no integer can hold.
    Overflow = 2, 500, "overflow", "an overflow: a number of the page that has more than 64 bits";
    /// An index past the end of a list.
    OutOfRange = 3, 500, "out_of_range", "an index past the end of a list in the page";
    /// A text that is to be a number or a date, and is none.
    NotANumber = 4, 500, "not_a_number", "a text of the page is not the number or the date that it \
        is to be";
    /// The page is larger than the limit.
    TooLarge = 5, 500, "too_large", "the page is longer than `limits.response_bytes_max`";
    /// A loop of more turns than the limit.
    TooManyTurns = 6, 500, "too_many_turns", "the page's loops take more turns than \
        `limits.stage_turns_max`";
    /// A backend's answer does not follow its protocol or has not the rows the page expects.
    BadAnswer = 7, 502, "bad_answer", "the backend answered something the page cannot read";
    /// The backend could not be reached or broke off.
    BackendFailed = 8, 502, "backend_failed", "the backend failed";
    /// The backend is known to be down (circuit open) or its queue is full.
    BackendRefused = 9, 503, "backend_refused", "the backend is overloaded or down";
    /// The backend did not answer in time.
    BackendTimeout = 10, 504, "backend_timeout", "the backend did not answer in time";
    /// No slot for a new session is free.
    SessionsFull = 11, 503, "sessions_full", "no session is free: all of `session.sessions_max` \
        are in use";
    /// The device failed.
    DeviceFailed = 12, 500, "device_failed", "the device failed";
    /// Other cohorts have the memory that it needs.
    MemoryShort = 13, 503, "memory_short", "no memory is left for its data";
    /// A stage makes, or looks through, more text than the limit.
    TooMuchText = 14, 500, "too_much_text", "the page makes or looks through more text than \
        `limits.stage_text_bytes_max` lets it";
    /// The cohort has no room for the lane's texts, even if it were alone.
    ArenaFull = 15, 500, "arena_full", "the page's data finds no room in `cohort.arena_bytes_max`";
    /// A text is too long for what it is to be kept in.
    TextTooLong = 16, 500, "text_too_long", "a text is longer than its field of `session.fields`, \
        or than a `flash` may be";
    /// A session for user 0, which is nobody.
    NoUser = 17, 500, "no_user", "a session was to begin for user 0, which is nobody's number";
}

const _: () = {
    let mut index = 0;
    while index < LaneError::ALL.len() {
        assert!(LaneError::ALL[index] as usize == index + 1);
        index += 1;
    }
};

impl LaneError {
    /// Its place in [`LaneError::ALL`].
    pub fn index(self) -> usize {
        self as usize - 1
    }

    /// The one of this number, if there is one.
    pub fn of_number(number: u8) -> Option<LaneError> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneState {
    /// It takes part in the next stage.
    #[default]
    Active,
    /// It was left out of the stage last run, for want of memory or of time, and takes part in its
    /// next pass.
    Later,
    /// It has run the stage that others are yet to run.
    Ahead,
    /// Its answer is in the cohort's output.
    Finished,
    /// It gets an error answer.
    Failed(LaneError),
    /// Nobody waits for its answer here: it goes on in another cohort, or its client is gone.
    Vacant,
}
