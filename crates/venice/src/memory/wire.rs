//! What borrower and donor say to each other, without I/O.
//!
//! A message is a head of 32 bytes and a payload, all numbers little-endian:
//!
//! | at | bytes | |
//! |---:|---:|---|
//! | 0 | 4 | `RVM1` |
//! | 4 | 4 | kind |
//! | 8 | 8 | id of the request; its answer has the same |
//! | 16 | 8 | where in the loan |
//! | 24 | 4 | bytes of the payload; of a read: bytes wanted, and there is no payload |
//! | 28 | 4 | CRC-32 of the head up to here and the payload |
//!
//! The first message of a connection is [`Request::Hello`]. Requests are executed in the order in
//! which they are sent on their connection, and answered in that order.

use crate::loan::{LoanId, LoanKey};
use thiserror::Error;

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 32;
/// The most that a message carries.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

const MAGIC: [u8; 4] = *b"RVM1";
const CRC_AT: usize = HEAD_BYTES - 4;
const HELLO_BYTES: usize = 56;
const REFUSAL_BYTES_MAX: usize = 512;

mod kind {
    pub(super) const HELLO: u32 = 1;
    pub(super) const READ: u32 = 2;
    pub(super) const WRITE: u32 = 3;
    pub(super) const FREE: u32 = 4;
    pub(super) const WELCOME: u32 = 0x81;
    pub(super) const DATA: u32 = 0x82;
    pub(super) const DONE: u32 = 0x83;
    pub(super) const REFUSED: u32 = 0x84;
}

/// What a borrower asks.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Who it is.
    Hello(Hello),
    /// The bytes at a place.
    Read {
        /// Where in the loan.
        offset: u64,
        /// How many bytes.
        length: u32,
    },
    /// These bytes are at a place from now on.
    Write {
        /// Where in the loan.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// What is at a place is not needed any more: it reads as zeros.
    Free {
        /// Where in the loan.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
}

/// What a borrower shows first.
#[derive(Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which loan; 0 for a share of what the donor offers to all who have its key.
    pub loan: LoanId,
    /// The loan's secret.
    pub key: LoanKey,
    /// A random number, the same for all connections of one borrower: a loan is used by one.
    pub session: u64,
    /// Bytes wanted.
    pub bytes: u64,
}

/// What a donor answers.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// To a [`Hello`].
    Welcome {
        /// The loan, also where 0 was asked for.
        loan: LoanId,
        /// How many bytes it has.
        bytes: u64,
    },
    /// To a read.
    Data(&'a [u8]),
    /// To a write, or where something was freed.
    Done,
    /// The donor does not do that, and says why; the connection is over.
    Refused(&'a str),
}

/// Bytes that are no message of this protocol.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Another protocol, or another version.
    #[error("these are not messages of rhythm venice, or of another version")]
    Magic,
    /// A kind that there is not, or not in this direction.
    #[error("a message of unknown kind {0}")]
    Kind(u32),
    /// A length that its kind cannot have.
    #[error("a message of kind {kind} with {length} bytes")]
    Length {
        /// The message's kind.
        kind: u32,
        /// What it says.
        length: u32,
    },
    /// What came is not what was sent.
    #[error("the checksum of a message is wrong: the network or a memory changes bytes")]
    Checksum,
}

/// A message, the id of its request, and how many bytes it took; none while more must come.
pub type Parsed<T> = Result<Option<(T, u64, usize)>, Malformed>;

struct Head {
    kind: u32,
    id: u64,
    offset: u64,
    length: u32,
    crc: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// A head whose length is one that its kind can have, with its payload.
fn split(bytes: &[u8], is_kind: fn(u32) -> bool) -> Result<Option<(Head, &[u8])>, Malformed> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(Malformed::Magic);
    }
    if bytes.len() < HEAD_BYTES {
        return Ok(None);
    }
    let head = Head {
        kind: u32_at(bytes, 4),
        id: u64_at(bytes, 8),
        offset: u64_at(bytes, 16),
        length: u32_at(bytes, 24),
        crc: u32_at(bytes, CRC_AT),
    };
    if !is_kind(head.kind) {
        return Err(Malformed::Kind(head.kind));
    }
    let length = head.length as usize;
    let fits = match head.kind {
        kind::HELLO => length == HELLO_BYTES,
        kind::READ | kind::WRITE | kind::DATA => (1..=PAYLOAD_BYTES_MAX).contains(&length),
        kind::FREE => length == 8,
        kind::WELCOME => length == 16,
        kind::REFUSED => length <= REFUSAL_BYTES_MAX,
        _ => length == 0,
    };
    if !fits {
        return Err(Malformed::Length {
            kind: head.kind,
            length: head.length,
        });
    }
    let payload_bytes = if head.kind == kind::READ { 0 } else { length };
    let Some(payload) = bytes.get(HEAD_BYTES..HEAD_BYTES + payload_bytes) else {
        return Ok(None);
    };
    if checksum(&bytes[..CRC_AT], payload) != head.crc {
        return Err(Malformed::Checksum);
    }
    Ok(Some((head, payload)))
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// The request that `bytes` begin with.
///
/// # Errors
/// [`Malformed`]: the connection cannot be used any further.
pub fn parse_request(bytes: &[u8]) -> Parsed<Request<'_>> {
    let Some((head, payload)) = split(bytes, |kind| (kind::HELLO..=kind::FREE).contains(&kind))?
    else {
        return Ok(None);
    };
    let request = match head.kind {
        kind::HELLO => {
            let mut key = [0; 32];
            key.copy_from_slice(&payload[24..]);
            Request::Hello(Hello {
                loan: LoanId(u64_at(payload, 0)),
                session: u64_at(payload, 8),
                bytes: u64_at(payload, 16),
                key: LoanKey(key),
            })
        }
        kind::READ => Request::Read {
            offset: head.offset,
            length: head.length,
        },
        kind::WRITE => Request::Write {
            offset: head.offset,
            bytes: payload,
        },
        _ => Request::Free {
            offset: head.offset,
            length: u64_at(payload, 0),
        },
    };
    Ok(Some((request, head.id, HEAD_BYTES + payload.len())))
}

/// The answer that `bytes` begin with.
///
/// # Errors
/// [`Malformed`]: the connection cannot be used any further.
pub fn parse_answer(bytes: &[u8]) -> Parsed<Answer<'_>> {
    let Some((head, payload)) = split(bytes, |kind| {
        (kind::WELCOME..=kind::REFUSED).contains(&kind)
    })?
    else {
        return Ok(None);
    };
    let answer = match head.kind {
        kind::WELCOME => Answer::Welcome {
            loan: LoanId(u64_at(payload, 0)),
            bytes: u64_at(payload, 8),
        },
        kind::DATA => Answer::Data(payload),
        kind::DONE => Answer::Done,
        _ => Answer::Refused(std::str::from_utf8(payload).unwrap_or("for reasons it cannot spell")),
    };
    Ok(Some((answer, head.id, HEAD_BYTES + payload.len())))
}

/// The beginning of a text, of whole characters and so many bytes at most.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn put(out: &mut Vec<u8>, kind: u32, id: u64, offset: u64, length: u32, payload: &[&[u8]]) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for part in payload {
        out.extend_from_slice(part);
    }
    let (head, payload) = out[start..].split_at(HEAD_BYTES);
    let crc = checksum(&head[..CRC_AT], payload);
    out[start + CRC_AT..start + HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
}

impl Request<'_> {
    /// Appends its bytes. What it carries is 64 KiB at most.
    pub fn put(&self, id: u64, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => {
                let numbers = [hello.loan.0, hello.session, hello.bytes];
                let [loan, session, bytes] = numbers.map(u64::to_le_bytes);
                let payload: [&[u8]; 4] = [&loan, &session, &bytes, &hello.key.0];
                put(out, kind::HELLO, id, 0, HELLO_BYTES as u32, &payload);
            }
            Self::Read { offset, length } => put(out, kind::READ, id, *offset, *length, &[]),
            Self::Write { offset, bytes } => {
                debug_assert!(bytes.len() <= PAYLOAD_BYTES_MAX);
                put(out, kind::WRITE, id, *offset, bytes.len() as u32, &[bytes]);
            }
            Self::Free { offset, length } => {
                put(out, kind::FREE, id, *offset, 8, &[&length.to_le_bytes()]);
            }
        }
    }
}

impl Answer<'_> {
    /// Appends its bytes. Data is 64 KiB at most; a reason is cut where it is long.
    pub fn put(&self, id: u64, out: &mut Vec<u8>) {
        match self {
            Self::Welcome { loan, bytes } => {
                let payload = [loan.0, *bytes].map(u64::to_le_bytes);
                put(out, kind::WELCOME, id, 0, 16, &[&payload[0], &payload[1]]);
            }
            Self::Data(bytes) => {
                debug_assert!(bytes.len() <= PAYLOAD_BYTES_MAX);
                put(out, kind::DATA, id, 0, bytes.len() as u32, &[bytes]);
            }
            Self::Done => put(out, kind::DONE, id, 0, 0, &[]),
            Self::Refused(reason) => {
                let reason = cut(reason, REFUSAL_BYTES_MAX).as_bytes();
                put(out, kind::REFUSED, id, 0, reason.len() as u32, &[reason]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Request<'static> {
        Request::Hello(Hello {
            loan: LoanId(7),
            key: LoanKey([9; 32]),
            session: 0x0123_4567_89ab_cdef,
            bytes: 1 << 30,
        })
    }

    #[test]
    fn what_is_put_is_parsed_in_any_pieces() {
        let page = [0xa5; 4096];
        let requests = [
            hello(),
            Request::Read {
                offset: 4096,
                length: 4096,
            },
            Request::Write {
                offset: u64::MAX,
                bytes: &page,
            },
            Request::Free {
                offset: 1,
                length: u64::MAX,
            },
        ];
        let answers = [
            Answer::Welcome {
                loan: LoanId(7),
                bytes: 3,
            },
            Answer::Data(&page),
            Answer::Done,
            Answer::Refused("no"),
        ];
        for (id, request) in requests.iter().enumerate() {
            let mut bytes = Vec::new();
            request.put(id as u64, &mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(parse_request(&bytes[..cut]), Ok(None));
            }
            bytes.push(1);
            let (parsed, parsed_id, used) = parse_request(&bytes).unwrap().unwrap();
            assert_eq!(
                (&parsed, parsed_id, used),
                (request, id as u64, bytes.len() - 1)
            );
        }
        for (id, answer) in answers.iter().enumerate() {
            let mut bytes = Vec::new();
            answer.put(id as u64, &mut bytes);
            for cut in 0..bytes.len() {
                assert_eq!(parse_answer(&bytes[..cut]), Ok(None));
            }
            let (parsed, parsed_id, used) = parse_answer(&bytes).unwrap().unwrap();
            assert_eq!((&parsed, parsed_id, used), (answer, id as u64, bytes.len()));
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let mut good = Vec::new();
        Request::Write {
            offset: 4096,
            bytes: b"what a page has",
        }
        .put(3, &mut good);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                // A length that grew has it wait for more; nothing else is taken for a message.
                assert!(!matches!(parse_request(&bytes), Ok(Some(_))), "{at} {bit}");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_refused_early() {
        assert_eq!(parse_request(b"GET / HTTP/1.1"), Err(Malformed::Magic));
        let mut bytes = Vec::new();
        Answer::Done.put(1, &mut bytes);
        assert_eq!(parse_request(&bytes), Err(Malformed::Kind(kind::DONE)));
        assert!(parse_answer(&bytes).is_ok());
        bytes.clear();
        hello().put(1, &mut bytes);
        bytes[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
        let length = u32::MAX;
        assert_eq!(
            parse_request(&bytes),
            Err(Malformed::Length {
                kind: kind::HELLO,
                length
            })
        );
        assert!(matches!(parse_answer(&bytes), Err(Malformed::Kind(1))));
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let mut bytes = Vec::new();
        Answer::Refused(&"ä".repeat(400)).put(1, &mut bytes);
        let (answer, ..) = parse_answer(&bytes).unwrap().unwrap();
        assert_eq!(answer, Answer::Refused(&"ä".repeat(256)));
    }
}
