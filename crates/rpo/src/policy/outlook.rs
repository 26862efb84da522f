//! What a policy that learns expects, and how it has gone so far.

/// What a policy that learns expects of the setting in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// What part of their time requests are spared by it, against the other setting.
    pub gain: f64,
    /// How sure it is that they are spared any.
    pub confidence: f64,
    /// How it has gone so far.
    pub learning: Learning,
}

/// How it has gone so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Times something was tried.
    pub explorations: u64,
    /// Switches for a gain.
    pub switches: u64,
    /// Decisions taken back because they made it worse.
    pub reverts: u64,
    /// Times that what was known was found to hold no longer.
    pub changes: u64,
}
