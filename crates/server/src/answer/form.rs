//! The form of an answer, and what is told of it.

/// How the answer's head depends on its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnswerForm {
    /// `HEAD`: no body is sent.
    pub(crate) head_only: bool,
    /// The client speaks HTTP/1.0.
    pub(crate) http10: bool,
    /// The connection ends after this answer.
    pub(crate) close: bool,
}

/// An answer, for log and metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body_length: u64,
}

impl Answered {
    /// An answer whose body is not counted: an error's, or none.
    pub(crate) fn bare(status: u16) -> Answered {
        Answered {
            status,
            body_length: 0,
        }
    }
}
