//! What is told while it is measured.

/// How it is getting on: this is point `done` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReproduceProgress<'a> {
    /// Points that are measured.
    pub done: usize,
    /// Points in all.
    pub of: usize,
    /// What is measured now.
    pub what: &'a str,
}
