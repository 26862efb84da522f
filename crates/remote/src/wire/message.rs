//! Frames, and all messages but for what is in a cohort.

use super::bytes::{Bounded, Put, Taker, Wrong};
use rhythm_venice::secret::{Nonce, Proof};

/// The number of this protocol: ends that have others do not work together.
pub(crate) const PROTOCOL: u16 = 2;
/// What both ends have to be the same of: the protocol, and what compiles and runs programs.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Sees that both ends are the same.
///
/// # Errors
/// They are not, in words.
pub(crate) fn check_version(protocol: u16, version: &str) -> Result<(), String> {
    match (protocol, version) == (PROTOCOL, VERSION) {
        true => Ok(()),
        false => Err(format!(
            "it is rhythm {version:?} (protocol {protocol}), and this end is rhythm {VERSION} \
             (protocol {PROTOCOL}): both ends must be the same version"
        )),
    }
}

/// What a greeting begins with.
const MAGIC: [u8; 8] = *b"RhythmD\0";

/// Most bytes of a message before both ends know each other, and of any without columns.
pub(crate) const SMALL_MAX: usize = 4096;
/// Most bytes of any message: what does not fit is run by the front end itself.
pub(crate) const MESSAGE_MAX: usize = 64 << 20;
/// Most bytes of a service's sources.
pub(crate) const SOURCES_MAX: usize = 16 << 20;
/// Bytes of a message's length, which does not count them.
const LENGTH_BYTES: usize = 4;
/// Most bytes of a reason, in words.
const WHY_MAX: usize = 2048;

/// What names a service, and what says what it was compiled to: SHA-256.
pub(crate) type Digest = [u8; 32];

/// A message. What a cohort or a service has comes as bytes, which others take apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A node says what it is.
    Greeting {
        protocol: u16,
        version: &'a str,
        nonce: Nonce,
        /// It wants to see that the other end has the key.
        has_key: bool,
        /// Works under way on a connection at most.
        in_flight: u16,
    },
    /// A front end does, and shows that it has the key, where there is one.
    Hello {
        protocol: u16,
        version: &'a str,
        nonce: Nonce,
        proof: Proof,
    },
    /// The node shows that it has it, too.
    Welcome { proof: Proof },
    /// The node takes nothing from this front end.
    Refused { why: &'a str },
    /// A service that cohorts are to come of.
    Offer { digest: Digest },
    /// Its sources are wanted.
    Send { digest: Digest },
    /// They are these.
    Sources { bytes: &'a [u8] },
    /// It is compiled, to these programs.
    Ready { digest: Digest, programs: Digest },
    /// It is not, and will not be.
    Unfit { digest: Digest, why: &'a str },
    /// It is not now, for what passes: it may be offered again.
    Later { digest: Digest, why: &'a str },
    /// A stage of a cohort is to be run.
    Work {
        token: u64,
        digest: Digest,
        cohort: &'a [u8],
    },
    /// It was run.
    Done { token: u64, answer: &'a [u8] },
    /// It was not; `is_unknown`: the service is none that is kept.
    Declined { token: u64, is_unknown: bool },
    /// Is anybody there?
    Ping,
    /// Yes.
    Pong,
}

/// Begins a message of this kind, which [`end`] ends.
fn begin(kind: u8, to: &mut Vec<u8>) -> usize {
    let at = to.len();
    to.put_u32(0);
    to.push(kind);
    at
}

fn end(at: usize, to: &mut [u8]) {
    let length = (to.len() - at - LENGTH_BYTES) as u32;
    to[at..at + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Appends a [`Message::Work`] whose cohort `write` appends. Where it comes to more than a message
/// may have, nothing is appended.
pub(crate) fn put_work(
    token: u64,
    digest: &Digest,
    to: &mut Vec<u8>,
    write: impl FnOnce(&mut Bounded<'_>),
) -> bool {
    let at = begin(10, to);
    to.put_u64(token);
    to.put(digest);
    put_rest(at, to, write)
}

/// Appends a [`Message::Done`] likewise.
pub(crate) fn put_done(token: u64, to: &mut Vec<u8>, write: impl FnOnce(&mut Bounded<'_>)) -> bool {
    let at = begin(11, to);
    to.put_u64(token);
    put_rest(at, to, write)
}

/// Appends the rest of the message that begins there, as long as it is none that is too long: of
/// what a cohort has no more is copied.
fn put_rest(at: usize, to: &mut Vec<u8>, write: impl FnOnce(&mut Bounded<'_>)) -> bool {
    let mut bounded = Bounded::new(to, at + LENGTH_BYTES + MESSAGE_MAX);
    write(&mut bounded);
    let fits = bounded.has_all();
    match fits {
        true => end(at, to),
        false => to.truncate(at),
    }
    fits
}

/// As much of a reason as a message takes.
fn words(why: &str) -> &str {
    let mut end = why.len().min(WHY_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    &why[..end]
}

/// Appends a message.
pub(crate) fn put(message: Message<'_>, to: &mut Vec<u8>) {
    let greet = |protocol: u16, version: &str, nonce: &Nonce, to: &mut Vec<u8>| {
        to.extend_from_slice(&MAGIC);
        to.put_u16(protocol);
        to.put_text(version.as_bytes());
        to.extend_from_slice(nonce);
    };
    let at = begin(message.kind(), to);
    match message {
        Message::Greeting {
            protocol,
            version,
            nonce,
            has_key,
            in_flight,
        } => {
            greet(protocol, version, &nonce, to);
            to.push(has_key.into());
            to.put_u16(in_flight);
        }
        Message::Hello {
            protocol,
            version,
            nonce,
            proof,
        } => {
            greet(protocol, version, &nonce, to);
            to.extend_from_slice(&proof);
        }
        Message::Welcome { proof } => to.extend_from_slice(&proof),
        Message::Refused { why } => to.put_text(words(why).as_bytes()),
        Message::Offer { digest } | Message::Send { digest } => to.extend_from_slice(&digest),
        Message::Sources { bytes } => to.extend_from_slice(bytes),
        Message::Ready { digest, programs } => {
            to.extend_from_slice(&digest);
            to.extend_from_slice(&programs);
        }
        Message::Unfit { digest, why } | Message::Later { digest, why } => {
            to.extend_from_slice(&digest);
            to.put_text(words(why).as_bytes());
        }
        Message::Work {
            token,
            digest,
            cohort,
        } => {
            to.put_u64(token);
            to.extend_from_slice(&digest);
            to.extend_from_slice(cohort);
        }
        Message::Done { token, answer } => {
            to.put_u64(token);
            to.extend_from_slice(answer);
        }
        Message::Declined { token, is_unknown } => {
            to.put_u64(token);
            to.push(is_unknown.into());
        }
        Message::Ping | Message::Pong => {}
    }
    end(at, to);
}

/// A front of bytes: a whole message, and how many bytes it has; `None`: not all of it is here. No
/// more than `most` bytes of one are ever waited for.
pub(crate) fn take(bytes: &[u8], most: usize) -> Result<Option<(Message<'_>, usize)>, Wrong> {
    let mut head = Taker(bytes);
    let Ok(length) = head.u32() else {
        return Ok(None);
    };
    let length = length as usize;
    if length == 0 || length > most {
        return Err(Wrong("a message has no length that it may have"));
    }
    match head.slice(length) {
        Ok(body) => Ok(Some((Message::of(body)?, LENGTH_BYTES + length))),
        Err(_) => Ok(None),
    }
}

impl<'a> Message<'a> {
    fn kind(&self) -> u8 {
        match self {
            Message::Greeting { .. } => 1,
            Message::Hello { .. } => 2,
            Message::Welcome { .. } => 3,
            Message::Refused { .. } => 4,
            Message::Offer { .. } => 5,
            Message::Send { .. } => 6,
            Message::Sources { .. } => 7,
            Message::Ready { .. } => 8,
            Message::Unfit { .. } => 9,
            Message::Work { .. } => 10,
            Message::Done { .. } => 11,
            Message::Declined { .. } => 12,
            Message::Ping => 13,
            Message::Pong => 14,
            Message::Later { .. } => 15,
        }
    }

    fn of(body: &'a [u8]) -> Result<Message<'a>, Wrong> {
        let mut from = Taker(body);
        let truth = |number: u8| match number {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Wrong("a truth value is none")),
        };
        let magic = |from: &mut Taker<'a>| match from.array()? == MAGIC {
            true => Ok(()),
            false => Err(Wrong("it is not Rhythm's protocol of devices")),
        };
        let message = match from.u8()? {
            1 => {
                magic(&mut from)?;
                Message::Greeting {
                    protocol: from.u16()?,
                    version: from.text()?,
                    nonce: from.array()?,
                    has_key: truth(from.u8()?)?,
                    in_flight: from.u16()?,
                }
            }
            2 => {
                magic(&mut from)?;
                Message::Hello {
                    protocol: from.u16()?,
                    version: from.text()?,
                    nonce: from.array()?,
                    proof: from.array()?,
                }
            }
            3 => Message::Welcome {
                proof: from.array()?,
            },
            4 => Message::Refused { why: from.text()? },
            5 => Message::Offer {
                digest: from.array()?,
            },
            6 => Message::Send {
                digest: from.array()?,
            },
            7 => Message::Sources {
                bytes: rest(&mut from),
            },
            8 => Message::Ready {
                digest: from.array()?,
                programs: from.array()?,
            },
            9 => Message::Unfit {
                digest: from.array()?,
                why: from.text()?,
            },
            10 => Message::Work {
                token: from.u64()?,
                digest: from.array()?,
                cohort: rest(&mut from),
            },
            11 => Message::Done {
                token: from.u64()?,
                answer: rest(&mut from),
            },
            12 => Message::Declined {
                token: from.u64()?,
                is_unknown: truth(from.u8()?)?,
            },
            13 => Message::Ping,
            14 => Message::Pong,
            15 => Message::Later {
                digest: from.array()?,
                why: from.text()?,
            },
            _ => return Err(Wrong("a message is of no kind that there is")),
        };
        from.end()?;
        Ok(message)
    }
}

fn rest<'a>(from: &mut Taker<'a>) -> &'a [u8] {
    std::mem::take(&mut from.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Message<'static>> {
        let (digest, token) = ([7; 32], 1 << 40);
        vec![
            Message::Greeting {
                protocol: PROTOCOL,
                version: VERSION,
                nonce: [1; 32],
                has_key: true,
                in_flight: 4,
            },
            Message::Hello {
                protocol: 9,
                version: "",
                nonce: [2; 32],
                proof: [3; 32],
            },
            Message::Welcome { proof: [4; 32] },
            Message::Refused { why: "no: é" },
            Message::Offer { digest },
            Message::Send { digest },
            Message::Sources { bytes: b"abc" },
            Message::Ready {
                digest,
                programs: [8; 32],
            },
            Message::Unfit { digest, why: "" },
            Message::Later { digest, why: "no" },
            Message::Work {
                token,
                digest,
                cohort: b"",
            },
            Message::Done {
                token,
                answer: b"x",
            },
            Message::Declined {
                token,
                is_unknown: true,
            },
            Message::Ping,
            Message::Pong,
        ]
    }

    #[test]
    fn each_is_read_as_it_was_written_and_none_before_it_is_whole() {
        for message in all() {
            let mut bytes = Vec::new();
            put(message, &mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(take(&bytes[..cut], SMALL_MAX), Ok(None), "{message:?}");
            }
            let length = bytes.len();
            bytes.extend_from_slice(b"more");
            assert_eq!(take(&bytes, SMALL_MAX), Ok(Some((message, length))));
            assert!(
                take(&bytes, length - 5).is_err() || length < 6,
                "{message:?}"
            );
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let why = "é".repeat(3000);
        let mut bytes = Vec::new();
        put(Message::Refused { why: &why }, &mut bytes);
        match take(&bytes, SMALL_MAX) {
            Ok(Some((Message::Refused { why }, _))) => assert_eq!(why.len(), 2048),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn of_what_is_too_long_no_more_is_copied_than_a_message_has() {
        let mut bytes = b"before".to_vec();
        let part = vec![7; 1 << 20];
        // 1 GiB, and what would find room behind it.
        let huge = |to: &mut Bounded<'_>| {
            (0..1024).for_each(|_| to.put(&part));
            to.put_u64(1);
        };
        assert!(!put_work(1, &[0; 32], &mut bytes, huge));
        assert!(!put_done(1, &mut bytes, huge));
        assert_eq!(bytes, b"before");
        assert!(bytes.capacity() <= 2 * MESSAGE_MAX, "{}", bytes.capacity());
        let token = 1 + 8;
        let longest = |to: &mut Bounded<'_>| to.put(&vec![7; MESSAGE_MAX - token]);
        bytes.clear();
        assert!(put_done(1, &mut bytes, longest));
        let taken = take(&bytes, MESSAGE_MAX);
        assert!(matches!(
            taken,
            Ok(Some((Message::Done { token: 1, .. }, _)))
        ));
        let longer = |to: &mut Bounded<'_>| to.put(&vec![7; MESSAGE_MAX - token + 1]);
        assert!(!put_done(1, &mut bytes, longer));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200),
                                           kind in 0u8..20) {
            let mut framed = Vec::new();
            framed.put_u32(bytes.len() as u32 + 1);
            framed.push(kind);
            framed.extend_from_slice(&bytes);
            for input in [&framed[..], &bytes[..]] {
                if let Ok(Some((message, length))) = take(input, SMALL_MAX) {
                    let mut again = Vec::new();
                    put(message, &mut again);
                    prop_assert_eq!(&again[..], &input[..length]);
                }
            }
        }
    }
}
