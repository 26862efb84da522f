//! What answers are made of, in every protocol.

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A key's value.
    Value { key: &'a [u8], value: &'a [u8] },
    /// There are no more values.
    End,
    /// It is stored.
    Stored,
    /// An error, in the server's words. The connection can go on after `SERVER_ERROR` only: with
    /// others the server may have taken a value for commands.
    Refused { line: &'a [u8], goes_on: bool },
}

/// Says that this is no answer.
pub(super) fn nonsense(line: &[u8]) -> String {
    let start = &line[..line.len().min(60)];
    format!("no answer of memcached: \"{}\"", start.escape_ascii())
}
