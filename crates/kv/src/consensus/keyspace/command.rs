//! What clients want changed, what comes of it, and the batches in which commands are in the log.

use crate::bytes::{Put, Reader};
use crate::wire::Mode;

/// A change of the keyspace, executed by every node in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stores a value.
    Store {
        /// When.
        mode: Mode,
        /// Where.
        key: Vec<u8>,
        /// The client's flags.
        flags: u32,
        /// What.
        value: Vec<u8>,
        /// The revision that must be there: for [`Mode::Cas`], and where it is not 0 for
        /// [`Mode::Append`] and [`Mode::Prepend`], too.
        cas: u64,
        /// The lease with which the item ends.
        lease: Option<u64>,
    },
    /// Deletes an item.
    Delete {
        /// Where.
        key: Vec<u8>,
        /// The revision that must be there.
        cas: Option<u64>,
    },
    /// Adds to a number, or takes away from it.
    Arithmetic {
        /// Where.
        key: Vec<u8>,
        /// Adds.
        up: bool,
        /// How much.
        delta: u64,
    },
    /// Begins a lease.
    Open {
        /// How long it lives without a sign of life, in milliseconds.
        ttl: u64,
    },
    /// A sign of life.
    Renew {
        /// Of this lease.
        lease: u64,
    },
    /// Ends a lease, and with it its items.
    End {
        /// Which.
        lease: u64,
        /// Only if there was no sign of life after so many.
        renewals: Option<u64>,
    },
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stored; the item has this revision.
    Stored(u64),
    /// Something is there (`add`), or nothing is (`replace`, `append`, `prepend`).
    NotStored,
    /// The item has another revision.
    Exists,
    /// There is no such item, or lease.
    NotFound,
    /// It was deleted.
    Deleted,
    /// The number is this now; the item has this revision.
    Number(u64, u64),
    /// It is no number.
    NotANumber,
    /// The value would be longer than values may be.
    TooLong,
    /// There is no room: in bytes, keys or leases.
    Full,
    /// The lease that the item was to end with is over.
    LeaseOver,
    /// A lease began, or gave a sign of life; its number.
    Alive(u64),
    /// The lease is over.
    Ended,
}

/// What one node has to say to the log at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::consensus) struct Batch {
    /// Which node.
    pub(in crate::consensus) origin: u64,
    /// Its how-manieth life, and the how-manieth batch of it: batches that are not beyond the
    /// node's last one were executed, or given up, so that one may be said again.
    pub(in crate::consensus) number: (u64, u64),
    pub(in crate::consensus) commands: Vec<Command>,
}

/// Modes by their numbers in the log. Those that may demand a revision have another number where
/// they do: what is under the old one was executed without, and has to be again.
const MODES: [(Mode, bool); 8] = [
    (Mode::Set, false),
    (Mode::Add, false),
    (Mode::Replace, false),
    (Mode::Append, false),
    (Mode::Prepend, false),
    (Mode::Cas, true),
    (Mode::Append, true),
    (Mode::Prepend, true),
];

fn number(mode: Mode, cas: u64) -> u8 {
    let demands = match mode {
        Mode::Append | Mode::Prepend => cas != 0,
        Mode::Cas => true,
        Mode::Set | Mode::Add | Mode::Replace => false,
    };
    let number = MODES.iter().position(|one| *one == (mode, demands));
    number.unwrap_or(0) as u8
}

fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    out.put_u64(number.unwrap_or(0));
}

fn take_option(reader: &mut Reader<'_>) -> Option<Option<u64>> {
    let is_some = reader.bool()?;
    let number = reader.u64()?;
    Some(is_some.then_some(number))
}

impl Command {
    /// About how many bytes it takes.
    pub(in crate::consensus) fn len(&self) -> usize {
        const FIXED: usize = 64;
        FIXED
            + match self {
                Command::Store { key, value, .. } => key.len() + value.len(),
                Command::Delete { key, .. } | Command::Arithmetic { key, .. } => key.len(),
                _ => 0,
            }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Command::Store {
                mode,
                key,
                flags,
                value,
                cas,
                lease,
            } => {
                out.extend([0, number(*mode, *cas)]);
                out.put_bytes(key);
                out.put_u32(*flags);
                out.put_bytes(value);
                out.put_u64(*cas);
                put_option(out, *lease);
            }
            Command::Delete { key, cas } => {
                out.push(1);
                out.put_bytes(key);
                put_option(out, *cas);
            }
            Command::Arithmetic { key, up, delta } => {
                out.extend([2, u8::from(*up)]);
                out.put_bytes(key);
                out.put_u64(*delta);
            }
            Command::Open { ttl } => {
                out.push(3);
                out.put_u64(*ttl);
            }
            Command::Renew { lease } => {
                out.push(4);
                out.put_u64(*lease);
            }
            Command::End { lease, renewals } => {
                out.push(5);
                out.put_u64(*lease);
                put_option(out, *renewals);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Command> {
        Some(match reader.u8()? {
            0 => {
                let (mode, demands) = *MODES.get(usize::from(reader.u8()?))?;
                Command::Store {
                    mode,
                    key: reader.bytes()?.to_vec(),
                    flags: reader.u32()?,
                    value: reader.bytes()?.to_vec(),
                    cas: reader.u64().map(|cas| if demands { cas } else { 0 })?,
                    lease: take_option(reader)?,
                }
            }
            1 => Command::Delete {
                key: reader.bytes()?.to_vec(),
                cas: take_option(reader)?,
            },
            2 => Command::Arithmetic {
                up: reader.bool()?,
                key: reader.bytes()?.to_vec(),
                delta: reader.u64()?,
            },
            3 => Command::Open { ttl: reader.u64()? },
            4 => Command::Renew {
                lease: reader.u64()?,
            },
            5 => Command::End {
                lease: reader.u64()?,
                renewals: take_option(reader)?,
            },
            _ => return None,
        })
    }
}

impl Batch {
    pub(in crate::consensus) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.origin);
        out.put_u64(self.number.0);
        out.put_u64(self.number.1);
        out.put_u32(self.commands.len() as u32);
        self.commands
            .iter()
            .for_each(|command| command.encode(&mut out));
        out
    }

    pub(in crate::consensus) fn decode(bytes: &[u8]) -> Option<Batch> {
        let mut reader = Reader(bytes);
        let origin = reader.u64()?;
        let number = (reader.u64()?, reader.u64()?);
        let count = reader.u32()?;
        let commands = (0..count).map(|_| Command::decode(&mut reader));
        let commands = commands.collect::<Option<_>>()?;
        reader.0.is_empty().then_some(Batch {
            origin,
            number,
            commands,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_the_same_behind_its_bytes_and_none_when_cut() {
        let store = |(mode, demands), lease| Command::Store {
            mode,
            key: b"key".to_vec(),
            flags: 7,
            value: b"value".to_vec(),
            cas: if demands { 9 } else { 0 },
            lease,
        };
        let mut commands: Vec<_> = MODES.iter().map(|mode| store(*mode, None)).collect();
        commands.extend([
            store(MODES[0], Some(3)),
            Command::Delete {
                key: b"d".to_vec(),
                cas: Some(4),
            },
            Command::Arithmetic {
                key: b"n".to_vec(),
                up: true,
                delta: 5,
            },
            Command::Open { ttl: 1000 },
            Command::Renew { lease: 3 },
            Command::End {
                lease: 3,
                renewals: Some(1),
            },
        ]);
        let batch = Batch {
            origin: 2,
            number: (1, 8),
            commands,
        };
        let bytes = batch.encode();
        assert_eq!(Batch::decode(&bytes).as_ref(), Some(&batch));
        for cut in 0..bytes.len() {
            assert_eq!(Batch::decode(&bytes[..cut]), None, "{cut}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Batch::decode(&longer), None);
    }

    /// Nodes that executed it before did so: the others, and this one at its next start.
    #[test]
    fn what_was_appended_without_a_look_at_its_revision_still_is() {
        let append = |cas| Command::Store {
            mode: Mode::Append,
            key: b"key".to_vec(),
            flags: 0,
            value: b"value".to_vec(),
            cas,
            lease: None,
        };
        let mut bytes = Vec::new();
        append(9).encode(&mut bytes);
        assert_eq!(Command::decode(&mut Reader(&bytes)), Some(append(9)));
        // The number that both had.
        bytes[1] = 3;
        assert_eq!(Command::decode(&mut Reader(&bytes)), Some(append(0)));
    }
}
