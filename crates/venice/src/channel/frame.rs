//! What the channels say, without I/O: frames, each a head of 32 bytes and a payload, all numbers
//! little-endian.
//!
//! | at | bytes | |
//! |---:|---:|---|
//! | 0 | 4 | `RVC1` |
//! | 4 | 4 | kind |
//! | 8 | 8 | id of the request, which its answer has, too; of a message: its sequence number |
//! | 16 | 8 | an address; of what carries credits: up to which message they go |
//! | 24 | 4 | bytes of the payload; of a read: bytes wanted, and there is no payload |
//! | 28 | 4 | CRC-32 of the head up to here and the payload |

use super::broken::Broken;

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 32;
/// The most that a frame carries.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// The most that a read or write of CRMA moves: a page.
pub(crate) const CRMA_BYTES_MAX: usize = 4096;
/// The most that one bulk transfer moves; longer ones are several.
pub(crate) const BULK_BYTES_MAX: usize = 1 << 20;
/// Reads and writes of bulk transfers that may be under way on a connection.
pub(crate) const BULK_REQUESTS_MAX: usize = 4;
/// The first four bytes of each frame.
pub(crate) const MAGIC: [u8; 4] = *b"RVC1";

const CRC_AT: usize = HEAD_BYTES - 4;
const REFUSAL_BYTES_MAX: usize = 512;
/// Bytes of what names a loan and shows its key: loan, session, bytes wanted, key.
pub(crate) const MAP_BYTES: usize = 56;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Asks for a window on a loan.
    Map = 1,
    /// CRMA: asks for the bytes at an address.
    Read = 2,
    /// CRMA: bytes for an address.
    Write = 3,
    /// CRMA: a number that is expected at an address, and the one to replace it.
    CompareAndSwap = 4,
    /// Pages that are not needed any more; the payload says how many bytes.
    Free = 5,
    /// RDMA: asks for the bytes at an address; they come in chunks.
    BulkRead = 6,
    /// RDMA: a chunk for an address, and more follow.
    BulkChunk = 7,
    /// RDMA: the last chunk of a write.
    BulkLast = 8,
    /// QPair: a message.
    Message = 16,
    /// QPair: credits that wait their turn among the messages.
    Credit = 17,
    /// QPair: credits that a write of CRMA puts to the sender's credit word.
    CreditWrite = 18,
    /// QPair: the first frame of a connection: which message is due, and the credits.
    Open = 19,
    /// The window that was asked for: its address and bytes.
    Mapped = 0x81,
    /// The bytes that were asked for.
    Data = 0x82,
    /// It is written, or freed.
    Done = 0x83,
    /// The number that was there, swapped or not.
    Swapped = 0x84,
    /// A chunk of the bytes that were asked for; its address says where in them it begins.
    Chunk = 0x85,
    /// No; the reason is the payload, and the connection is over.
    Refused = 0x8f,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        const ALL: [Kind; 18] = [
            Kind::Map,
            Kind::Read,
            Kind::Write,
            Kind::CompareAndSwap,
            Kind::Free,
            Kind::BulkRead,
            Kind::BulkChunk,
            Kind::BulkLast,
            Kind::Message,
            Kind::Credit,
            Kind::CreditWrite,
            Kind::Open,
            Kind::Mapped,
            Kind::Data,
            Kind::Done,
            Kind::Swapped,
            Kind::Chunk,
            Kind::Refused,
        ];
        ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    fn may_have(self, length: usize) -> bool {
        match self {
            Self::Map => length == MAP_BYTES,
            Self::Read | Self::Write | Self::Data => (1..=CRMA_BYTES_MAX).contains(&length),
            Self::CompareAndSwap => length == 16,
            Self::Free | Self::Swapped => length == 8,
            Self::BulkRead => (1..=BULK_BYTES_MAX).contains(&length),
            Self::BulkChunk | Self::BulkLast | Self::Chunk => {
                (1..=PAYLOAD_BYTES_MAX).contains(&length)
            }
            Self::Message => length <= PAYLOAD_BYTES_MAX,
            Self::Mapped => length == 8,
            Self::Open => length == 16,
            Self::Credit | Self::CreditWrite | Self::Done => length == 0,
            Self::Refused => length <= REFUSAL_BYTES_MAX,
        }
    }
}

/// A frame that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) address: u64,
    /// Bytes of the payload, or those that a read wants.
    pub(crate) length: u32,
    pub(crate) payload: &'a [u8],
}

/// The number at a place of a payload that is known to be long enough.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// The frame that `bytes` begin with, and how many of them it takes; none while more must come.
///
/// # Errors
/// [`Broken`]: no frame begins so, or not as it was sent.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Broken> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(Broken::Magic);
    }
    if bytes.len() < HEAD_BYTES {
        return Ok(None);
    }
    let number = u32_at(bytes, 4);
    let kind = Kind::of(number).ok_or(Broken::Kind(number))?;
    let length = u32_at(bytes, 24);
    if !kind.may_have(length as usize) {
        let kind = format!("{kind:?}");
        return Err(Broken::Length { kind, length });
    }
    let carried = match kind {
        Kind::Read | Kind::BulkRead => 0,
        _ => length as usize,
    };
    let Some(payload) = bytes.get(HEAD_BYTES..HEAD_BYTES + carried) else {
        return Ok(None);
    };
    if checksum(&bytes[..CRC_AT], payload) != u32_at(bytes, CRC_AT) {
        return Err(Broken::Checksum);
    }
    let frame = Frame {
        kind,
        id: u64_at(bytes, 8),
        address: u64_at(bytes, 16),
        length,
        payload,
    };
    Ok(Some((frame, HEAD_BYTES + carried)))
}

fn put_parts(out: &mut Vec<u8>, kind: Kind, id: u64, address: u64, length: u32, payload: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(kind as u32).to_le_bytes());
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&address.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    let crc = checksum(&out[start..], payload);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(payload);
}

/// Appends a frame with a payload, which is as long as its kind may have it.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, id: u64, address: u64, payload: &[u8]) {
    debug_assert!(kind.may_have(payload.len()), "{kind:?}");
    put_parts(out, kind, id, address, payload.len() as u32, payload);
}

/// Appends a frame that wants bytes.
pub(crate) fn put_want(out: &mut Vec<u8>, kind: Kind, id: u64, address: u64, wanted: u32) {
    debug_assert!(matches!(kind, Kind::Read | Kind::BulkRead) && kind.may_have(wanted as usize));
    put_parts(out, kind, id, address, wanted, &[]);
}

/// Appends a refusal; a long reason is cut.
pub(crate) fn put_refusal(out: &mut Vec<u8>, reason: &str) {
    let mut end = REFUSAL_BYTES_MAX.min(reason.len());
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    put(out, Kind::Refused, 0, 0, &reason.as_bytes()[..end]);
}

/// What the other end says for people, on one line: what would begin another in a log, or move
/// about on a terminal, is replaced.
pub(crate) fn legible(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_parsed_when_it_is_whole() {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Message, 7, 9, b"text");
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None));
        }
        bytes.push(0);
        let (frame, used) = parse(&bytes).unwrap().unwrap();
        let got = (frame.kind, frame.id, frame.address, frame.payload);
        assert_eq!(got, (Kind::Message, 7, 9, &b"text"[..]));
        assert_eq!(used, bytes.len() - 1);
        bytes.clear();
        put_want(&mut bytes, Kind::BulkRead, 1, 2, 1 << 20);
        let (frame, used) = parse(&bytes).unwrap().unwrap();
        assert_eq!((frame.length, frame.payload.len(), used), (1 << 20, 0, 32));
        bytes.clear();
        put_refusal(&mut bytes, &"ä".repeat(400));
        let (frame, _) = parse(&bytes).unwrap().unwrap();
        assert_eq!(legible(frame.payload), "ä".repeat(256));
        let forged = legible(b"no\n2026-11-28 \x1b[2Jall is well\xff\x7f");
        let wanted = "no\u{fffd}2026-11-28 \u{fffd}[2Jall is well\u{fffd}\u{fffd}";
        assert_eq!(forged, wanted);
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        let mut good = Vec::new();
        put(&mut good, Kind::Write, 3, 4096, b"what is to be there");
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << bit;
                // A length that grew has it wait for more.
                assert!(!matches!(parse(&bytes), Ok(Some(_))), "{at} {bit}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_early() {
        assert_eq!(parse(b"GET"), Err(Broken::Magic));
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Done, 1, 0, b"");
        bytes[4] = 99;
        assert_eq!(parse(&bytes), Err(Broken::Kind(99)));
        bytes[4] = Kind::Write as u8;
        let (kind, length) = ("Write".to_owned(), u32::MAX);
        bytes[24..28].copy_from_slice(&length.to_le_bytes());
        assert_eq!(parse(&bytes), Err(Broken::Length { kind, length }));
    }
}
