//! Why etcd could not be asked.

/// See the head of this file.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// The place is none.
    #[error("{0:?} is no place of etcd: HOST:PORT[,HOST:PORT]/PREFIX")]
    Place(String),
    /// None of its servers answered, or could do it now: asked later, they may. The last one's
    /// reason.
    #[error("etcd at {at} does not answer: {error}")]
    Silent {
        /// Which.
        at: String,
        /// Why.
        error: std::io::Error,
    },
    /// Its space is used up: it stores nothing before somebody gives it more.
    #[error(
        "etcd at {at} has no space left ({said}): compact and defragment it, or give it more, and \
         disarm its alarm"
    )]
    NoSpace {
        /// Which.
        at: String,
        /// What it said.
        said: String,
    },
    /// It refused: asked later, it will again.
    #[error("etcd at {at} refuses: {said}")]
    Refused {
        /// Which.
        at: String,
        /// What it said.
        said: String,
    },
}
