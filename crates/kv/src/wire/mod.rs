//! memcached's protocols: bytes to commands, with no I/O and no store.
//!
//! ```text
//!   bytes --> parse --> Commands: Command { where it began, key, what to do }
//!               |         spans of the bytes: nothing is copied
//!               v
//!             State: what the bytes that follow belong to
//! ```
//!
//! One [`parse`] takes what there is of a connection's bytes, or a datagram's, and appends the
//! commands that are whole. A command names its key and value as [`Span`]s of those bytes. Keys
//! that came in base64 are the exception: they lie decoded in [`Commands::decoded`].
//!
//! Parsing needs nothing but the bytes and the [`Rules`] of the server, so that a cohort's commands
//! are all parsed before the first is executed. A command that can be refused without a look at the
//! store is refused here, with memcached's very words ([`Kind::Say`]).
//!
//! Where a connection's answers are more than it may have unsent, the commands that are left are
//! thrown away and their bytes parsed again later. So parsing the same bytes from the same
//! [`State`] must give the same commands.

mod ascii;
pub(crate) mod base64;
mod binary;
mod command;
mod greet;
mod keys;
mod line;
pub(crate) mod meta;
pub(crate) mod number;
mod stream;
pub mod udp;

#[cfg(feature = "consensus")]
pub(crate) use binary::MAGIC_REQUEST;
pub(crate) use binary::{MAGIC_RESPONSE, drop_key};
#[cfg(feature = "consensus")]
pub(crate) use command::KEY_MAX;
pub use command::{
    Command, Commands, Flags, Get, Key, Kind, Mode, Refusal, Request, Span, Status, Store, Verb,
    What,
};
pub(crate) use keys::END;
pub(crate) use stream::ITEM_HEADER;
pub use stream::{Parsed, Protocol, Rules, State, Stream, Users};

use stream::Step;

/// Appends the commands in `bytes`, until there are `commands_max` of them or one more.
///
/// What is left begins with a command that is not whole, or is beyond the bound.
pub fn parse(
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    commands_max: usize,
    commands: &mut Commands,
) -> Parsed {
    let goes_on = |commands: &Commands| commands.list.len() < commands_max;
    parse_while(goes_on, stream, rules, bytes, commands_max, commands)
}

/// Appends the commands of so many requests in a datagram at most: all keys of each, since nobody
/// can go on with the others later.
pub(crate) fn parse_datagram(
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    requests_max: usize,
    commands: &mut Commands,
) -> Parsed {
    let mut requests = 0..requests_max;
    let goes_on = |_: &Commands| requests.next().is_some();
    parse_while(goes_on, stream, rules, bytes, usize::MAX, commands)
}

#[inline]
fn parse_while(
    mut goes_on: impl FnMut(&Commands) -> bool,
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    commands_max: usize,
    commands: &mut Commands,
) -> Parsed {
    let mut at = 0;
    let (mut needed, mut or_line) = (0, false);
    while at < bytes.len() && goes_on(commands) {
        if stream.protocol == Protocol::Negotiating {
            stream.protocol = match bytes[at] {
                binary::MAGIC_REQUEST => Protocol::Binary,
                _ => Protocol::Ascii,
            };
        }
        let step = match (stream.state, stream.protocol) {
            (State::Closed, _) => Step::Done(bytes.len() - at),
            (State::Swallow(left), _) => {
                let here = left.min((bytes.len() - at) as u64);
                stream.state = match left - here {
                    0 => State::Between,
                    left => State::Swallow(left),
                };
                Step::Done(here as usize)
            }
            (_, Protocol::Binary) => binary::parse(stream, rules, bytes, at, commands),
            _ if stream.is_stranger => greet::greet(stream, rules, bytes, at, commands),
            _ => ascii::parse(stream, rules, bytes, at, commands_max, commands),
        };
        match step {
            Step::Done(taken) => at += taken,
            Step::Need(bytes) => {
                needed = bytes;
                break;
            }
            Step::NeedLine(bytes) => {
                (needed, or_line) = (bytes, true);
                break;
            }
        }
    }
    Parsed {
        consumed: at,
        needed,
        or_line,
    }
}

#[cfg(test)]
mod tests;
