//! What a benchmark writes of an answer.

/// What of an answer is written to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Heads and whole pages.
    #[default]
    Pages,
    /// Heads and runs: what differs from answer to answer.
    Runs,
    /// Heads and whole pages, each in a buffer of the next power of two, which is written whole: as
    /// the paper's are (Table 2).
    Buffers,
}

impl Output {
    /// Its name, as in `--output` and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Output::Pages => "pages",
            Output::Runs => "runs",
            Output::Buffers => "buffers",
        }
    }
}
