//! How backends fail, in words.

/// How a backend fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// No connection could be opened.
    Unreachable,
    /// A connection with requests on it broke.
    Lost,
    /// Requests were not answered in time.
    Late,
    /// An answer broke the protocol or a limit.
    Unreadable,
    /// It answered that it is not in order.
    Unwell,
}

impl Cause {
    /// What happened, and what to do about it, for the log.
    pub(super) fn words(self) -> [&'static str; 2] {
        match self {
            Cause::Unreachable => [
                "no connection could be opened",
                "start it, or mend its address in service.toml",
            ],
            Cause::Lost => [
                "a connection broke while requests were on it",
                "see in its own log why it hangs up",
            ],
            Cause::Late => [
                "requests were not answered in time",
                "see what slows it down, or raise its `timeout` in service.toml",
            ],
            Cause::Unreadable => [
                "an answer could not be read",
                "see whether its address and `kind` in service.toml name the same",
            ],
            Cause::Unwell => [
                "it answered that it is not in order",
                "see in its own log what it lacks",
            ],
        }
    }
}
