//! Messages, but for what is in a cohort. Frames around them are in frame.rs.

use super::bytes::{Bounded, Put, Taker, Wrong};
use super::frame::{self, Broken, Incoming, MAGIC, PROTOCOL};
use rhythm_venice::secret::{Nonce, Proof};
use std::cmp::Ordering;

/// What both ends have to be the same of, beside the protocol: what compiles and runs programs.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why an end of another version is not worked with, and what helps.
pub(crate) fn other_version(protocol: u16, version: &str) -> String {
    let older = match protocol.cmp(&PROTOCOL) {
        Ordering::Less => "that end",
        Ordering::Equal => "the older one",
        Ordering::Greater => "this end",
    };
    format!(
        "it is rhythm {version:?} (protocol {protocol}), and this end is rhythm {VERSION} \
         (protocol {PROTOCOL}): both ends must be the same version; update {older} and start it \
         anew"
    )
}

/// Most bytes of a message before both ends know each other, and of any without columns.
pub(crate) const SMALL_MAX: usize = 4096;
/// Most bytes of any message: what does not fit is run by the front end itself.
pub(crate) const MESSAGE_MAX: usize = 64 << 20;
/// Most bytes of a service's sources.
pub(crate) const SOURCES_MAX: usize = 16 << 20;
/// Most bytes of a reason, in words.
const WHY_MAX: usize = 2048;

/// What names a service, and what says what it was compiled to: SHA-256.
pub(crate) type Digest = [u8; 32];

/// A message. What a cohort or a service has comes as bytes, which others take apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A node says what it is.
    Greeting {
        version: &'a str,
        nonce: Nonce,
        /// It wants to see that the other end has the key.
        has_key: bool,
        /// Works under way on a connection at most.
        in_flight: u16,
    },
    /// A front end does, and shows that it has the key, where there is one.
    Hello {
        version: &'a str,
        nonce: Nonce,
        proof: Proof,
    },
    /// An end of another protocol greets, or says hello: no more of it is known.
    Foreign { protocol: u16, version: &'a str },
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
    /// What the node was told is not what the front end has said: it ends the connection.
    Corrupt,
}

/// Appends a [`Message::Work`] whose cohort `write` appends. Where it comes to more than a message
/// may have, nothing is appended.
pub(crate) fn put_work(
    token: u64,
    digest: &Digest,
    to: &mut Vec<u8>,
    write: impl FnOnce(&mut Bounded<'_>),
) -> bool {
    frame::put_bounded(to, MESSAGE_MAX, |to| {
        to.put_u8(10);
        to.put_u64(token);
        to.put(digest);
        write(to);
    })
}

/// Appends a [`Message::Done`] likewise.
pub(crate) fn put_done(token: u64, to: &mut Vec<u8>, write: impl FnOnce(&mut Bounded<'_>)) -> bool {
    frame::put_bounded(to, MESSAGE_MAX, |to| {
        to.put_u8(11);
        to.put_u64(token);
        write(to);
    })
}

/// As much of a reason as a message takes.
pub(crate) fn words(why: &str) -> &str {
    let mut end = why.len().min(WHY_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    &why[..end]
}

/// Appends a message.
pub(crate) fn put(message: Message<'_>, to: &mut Vec<u8>) {
    match message {
        Message::Greeting { .. } | Message::Hello { .. } | Message::Foreign { .. } => {
            frame::put_first(to, |to| message.write(to));
        }
        _ => frame::put(to, |to| message.write(to)),
    }
}

/// The next message of what came, once it is whole and was checked; no more than `most` bytes of
/// one are ever waited for.
///
/// # Errors
/// The connection cannot be used any further.
pub(crate) fn next(input: &mut Incoming, most: usize) -> Result<Option<Message<'_>>, Broken> {
    match input.next(most)? {
        Some(body) => Ok(Some(Message::of(body)?)),
        None => Ok(None),
    }
}

impl<'a> Message<'a> {
    fn kind(&self) -> u8 {
        match self {
            Message::Greeting { .. } | Message::Foreign { .. } => 1,
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
            Message::Corrupt => 16,
        }
    }

    /// Appends its kind, and what belongs to it.
    fn write(&self, to: &mut Vec<u8>) {
        let greet = |protocol: u16, version: &str, to: &mut Vec<u8>| {
            to.put(&MAGIC);
            to.put_u16(protocol);
            to.put_text(version.as_bytes());
        };
        to.put_u8(self.kind());
        match *self {
            Message::Greeting {
                version,
                nonce,
                has_key,
                in_flight,
            } => {
                greet(PROTOCOL, version, to);
                to.put(&nonce);
                to.put_u8(has_key.into());
                to.put_u16(in_flight);
            }
            Message::Hello {
                version,
                nonce,
                proof,
            } => {
                greet(PROTOCOL, version, to);
                to.put(&nonce);
                to.put(&proof);
            }
            Message::Foreign { protocol, version } => greet(protocol, version, to),
            Message::Welcome { proof } => to.put(&proof),
            Message::Refused { why } => to.put_text(words(why).as_bytes()),
            Message::Offer { digest } | Message::Send { digest } => to.put(&digest),
            Message::Sources { bytes } => to.put(bytes),
            Message::Ready { digest, programs } => {
                to.put(&digest);
                to.put(&programs);
            }
            Message::Unfit { digest, why } | Message::Later { digest, why } => {
                to.put(&digest);
                to.put_text(words(why).as_bytes());
            }
            Message::Work {
                token,
                digest,
                cohort,
            } => {
                to.put_u64(token);
                to.put(&digest);
                to.put(cohort);
            }
            Message::Done { token, answer } => {
                to.put_u64(token);
                to.put(answer);
            }
            Message::Declined { token, is_unknown } => {
                to.put_u64(token);
                to.put_u8(is_unknown.into());
            }
            Message::Ping | Message::Pong | Message::Corrupt => {}
        }
    }

    fn of(body: &'a [u8]) -> Result<Message<'a>, Wrong> {
        let mut from = Taker(body);
        let truth = |number: u8| match number {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Wrong("a truth value is none")),
        };
        let kind = from.u8()?;
        let mut version = "";
        if let 1 | 2 = kind {
            if from.array()? != MAGIC {
                return Err(Wrong("it is not Rhythm's protocol of devices"));
            }
            let protocol = from.u16()?;
            version = from.text()?;
            if protocol != PROTOCOL {
                return Ok(Message::Foreign { protocol, version });
            }
        }
        let message = match kind {
            1 => Message::Greeting {
                version,
                nonce: from.array()?,
                has_key: truth(from.u8()?)?,
                in_flight: from.u16()?,
            },
            2 => Message::Hello {
                version,
                nonce: from.array()?,
                proof: from.array()?,
            },
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
            16 => Message::Corrupt,
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

    const HELLO: Message<'_> = Message::Hello {
        version: "",
        nonce: [2; 32],
        proof: [3; 32],
    };

    fn first() -> Vec<Message<'static>> {
        let (protocol, version) = (9, "9.0.0");
        vec![
            Message::Greeting {
                version: VERSION,
                nonce: [1; 32],
                has_key: true,
                in_flight: 4,
            },
            HELLO,
            Message::Foreign { protocol, version },
        ]
    }

    fn further() -> Vec<Message<'static>> {
        let (digest, token) = ([7; 32], 1 << 40);
        vec![
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
            Message::Corrupt,
        ]
    }

    /// What has come of somebody who has said hello.
    fn incoming() -> Incoming {
        let (mut input, mut bytes) = (Incoming::default(), Vec::new());
        put(HELLO, &mut bytes);
        input.extend(&bytes);
        assert_eq!(next(&mut input, SMALL_MAX), Ok(Some(HELLO)));
        input
    }

    #[test]
    fn each_is_read_as_it_was_written_and_none_before_it_is_whole() {
        let first = first().into_iter().map(|it| (Incoming::default(), it));
        let further = further().into_iter().map(|it| (incoming(), it));
        for (mut input, message) in first.chain(further) {
            let mut bytes = Vec::new();
            put(message, &mut bytes);
            for byte in bytes {
                assert_eq!(next(&mut input, SMALL_MAX), Ok(None), "{message:?}");
                input.extend(&[byte]);
            }
            input.extend(b"more");
            assert_eq!(next(&mut input, SMALL_MAX), Ok(Some(message)));
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let why = "é".repeat(3000);
        let (mut input, mut bytes) = (incoming(), Vec::new());
        put(Message::Refused { why: &why }, &mut bytes);
        input.extend(&bytes);
        match next(&mut input, SMALL_MAX) {
            Ok(Some(Message::Refused { why })) => assert_eq!(why.len(), 2048),
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
        let mut input = incoming();
        input.extend(&bytes);
        let taken = next(&mut input, MESSAGE_MAX);
        assert!(matches!(taken, Ok(Some(Message::Done { token: 1, .. }))));
        let longer = |to: &mut Bounded<'_>| to.put(&vec![7; MESSAGE_MAX - token + 1]);
        assert!(!put_done(1, &mut bytes, longer));
    }

    #[test]
    fn ends_of_other_versions_are_told_what_helps() {
        // The greeting of protocol 2, which had no checksums.
        let mut body = [&[1], &MAGIC[..]].concat();
        body.put_u16(2);
        body.put_text(b"0.0.9");
        body.extend_from_slice(&[0; 35]);
        let mut old = Vec::new();
        old.put_text(&body);
        let mut input = Incoming::default();
        input.extend(&old);
        let (protocol, version) = (2, "0.0.9");
        let foreign = Message::Foreign { protocol, version };
        assert_eq!(next(&mut input, SMALL_MAX), Ok(Some(foreign)));
        let why = other_version(2, "0.0.9");
        assert!(why.contains("protocol 2") && why.contains("update that end"));
        assert!(other_version(PROTOCOL + 1, "").contains("update this end"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200),
                                           kind in 0u8..20) {
            let mut framed = Vec::new();
            frame::put(&mut framed, |to| {
                to.push(kind);
                to.extend_from_slice(&bytes);
            });
            for came in [&framed[..], &bytes[..]] {
                let mut input = incoming();
                input.extend(came);
                if let Ok(Some(message)) = next(&mut input, SMALL_MAX) {
                    let mut again = Vec::new();
                    put(message, &mut again);
                    prop_assert_eq!(&again[..], came);
                }
            }
        }
    }
}
