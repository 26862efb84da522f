//! One of the goes of a stage (`goes.rs`).

/// How a stage that was run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// All lanes have run it.
    Over,
    /// It is to be run again, for those that were left out.
    Again,
    /// The same, and there is no use in it before there is more memory: nobody has found any.
    Short,
}

/// The goes of a stage so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Goes {
    /// How many lanes the last of them left out; `None`: there was none.
    pub(super) left_out: Option<usize>,
}
