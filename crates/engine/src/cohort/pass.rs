//! One of the passes of a stage (`passes.rs`).

/// How a stage that was run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// All lanes have run it.
    Over,
    /// It is to be run again, for those that were left out.
    Again,
    /// The same, and others may have their turn before: enough was done at a time.
    Yield,
    /// The same, and there is no use in it before there is more memory: nobody has found any.
    Short,
}

/// The passes of a stage so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passes {
    /// How many lanes the last of them left out; `None`: there was none.
    pub(super) left_out: Option<usize>,
}
