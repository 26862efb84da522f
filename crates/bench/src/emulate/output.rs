//! What a benchmark writes of an answer.

/// What of an answer is written to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Heads and whole pages.
    #[default]
    Pages,
    /// Heads and runs: what differs from answer to answer.
    Runs,
}

impl Output {
    /// Its name, as in `--output` and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Output::Pages => "pages",
            Output::Runs => "runs",
        }
    }
}
