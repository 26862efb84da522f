//! What a connection waits for, where no more input is taken from it.

/// Why no more input is taken from a connection for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// No cohort context is free.
    Context,
    /// No cohort has memory for its request: others have it.
    Memory,
    /// It is others' turn: it asks for more than they (`quantum.rs`).
    Turn,
    /// All connections hold as much as they may.
    Room,
    /// A host takes no more of a request's content.
    Host,
    /// Too many of its requests are under way.
    Pipelined,
    /// It does not take its answers, or as much as it may have of them is under way.
    Output,
}
