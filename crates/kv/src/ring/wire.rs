//! The frames of the backbone: bytes <-> messages, without I/O.
//!
//! ```text
//!   byte 0   2   3    4      8      16     24      32    40   48    52      60
//!        | RK | 5 | from | length | ring | session | peer | count | seq | ack | ...
//!
//!   magic, version, who sends, bytes of the whole frame; which ring; the sender's session and the
//!   receiver's as the sender knows it; how many frames it sent; the place of this one's messages
//!   in their order (0: none), and up to which place it has the receiver's; then which frame of the
//!   receiver's it heard last, the credit, the ranges that the sender has complete, flags, how
//!   often a part of a frame of the receiver's came, and what it knows of each range; then
//!   messages, and a checksum of all that (SipHash-1-3 under a fixed key: against accidents, not
//!   against attackers, who must be kept off the backbone).
//! ```
//!
//! All numbers are little-endian. What is in a frame is bounded by its length, which the reader
//! bounds.

use crate::checksum::checksum;

/// The frames' format; a node of another is not understood, and not spoken to.
const VERSION: u8 = 5;
const MAGIC: [u8; 2] = *b"RK";
/// Bytes in front of what is known of the ranges.
const FIXED: usize = 82;
/// Bytes of what is known of a range.
const CLAIM: usize = 9;
/// What the checksum is keyed with.
const SUM_KEY: [u64; 2] = [0x7268_7974_686d, 0x6b76];
/// Bytes of the checksum.
const SUM: usize = 8;
/// The bytes from which the length of a frame is known.
pub(crate) const PREFIX: usize = 8;

/// Who serves a range, as far as a node knows: the claim of the highest epoch counts, and of two of
/// one epoch that of the higher node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// How often it was claimed; 0: never.
    pub epoch: u64,
    /// By whom.
    pub node: u8,
}

/// Whether a node stays in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// It does.
    #[default]
    Stays,
    /// It hands over what it serves, and serves nothing that another can.
    Leaves,
    /// It ends now.
    Gone,
}

/// What every frame says beside its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Who sends.
    pub from: u8,
    /// A digest of what the nodes of a ring are told; with who was told otherwise, or is not known
    /// yet, the text of it follows in place of messages.
    pub ring: u64,
    /// The sender's session with the receiver.
    pub session: u64,
    /// The receiver's session, as the sender knows it; 0: not yet.
    pub peer: u64,
    /// Frames that the sender has sent the receiver, with this one.
    pub count: u64,
    /// The place of the messages; 0: there are none.
    pub seq: u64,
    /// All messages up to this place have come.
    pub ack: u64,
    /// The count of the last frame of the receiver's that the sender heard.
    pub heard: u64,
    /// Bytes of messages that the receiver may have under way.
    pub credit: u32,
    /// Messages came, but not the ones that come next: those from `ack` on are to be sent again.
    pub gap: bool,
    /// How often some bytes came of a frame of the receiver's that was not whole yet, round and
    /// round: they are taken.
    pub parts: u16,
    /// Whether the sender stays.
    pub stay: Stay,
    /// The ranges of which the sender has all, a bit each.
    pub complete: u64,
    /// What the sender knows of each range.
    pub claims: Vec<Claim>,
}

/// An item as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy<'a> {
    /// The key, up to 255 bytes.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// Seconds that it has left; 0: it does not expire.
    pub left: u32,
    /// What is noted of it: `STALE`, `WON`, `FETCHED`, `ENCODED`.
    pub marks: u8,
    /// The value.
    pub value: &'a [u8],
}

/// It was invalidated.
pub(crate) const STALE: u8 = 1;
/// A client has won the right to renew it.
pub(crate) const WON: u8 = 2;
/// It was fetched.
pub(crate) const FETCHED: u8 = 4;
/// Its key came in base64.
pub(crate) const ENCODED: u8 = 8;

/// What nodes tell each other, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The key has this item now.
    Put(Of, Copy<'a>),
    /// The key has none now.
    Drop(Of, &'a [u8]),
    /// All items are gone. Who hears of one for the first time says it to all others, too.
    Flush(Flush),
    /// All items of the range follow, when the receiver is ready: what it has, and does not get
    /// between that and `End`, is not there any more. Its number is another each time.
    Begin(Of, u32),
    /// Answers the `Begin` of this number.
    Ready(Of, u32),
    /// These were all items of the range.
    End(Of),
    /// Answers `End`: the receiver has the range complete.
    Complete(Of),
    /// The receiver gets no more of the range.
    Leave(Of),
    /// The receiver serves the range from now on, under this claim; these nodes, a bit each, have
    /// it complete.
    Serve(Of, u64),
    /// A client's command about a key of the range, which the receiver is to execute.
    Forward(Of, u64, &'a [u8]),
    /// The answer to the command of this number.
    Answer(u64, &'a [u8]),
    /// The command of this number was not executed: the range is served elsewhere.
    Refused(u64),
    /// The receiver has the range complete, and may read it, as long as it hears the sender.
    Reads(Of),
    /// Nobody knows what becomes of what the command of this number wrote.
    Unknown(u64),
    /// What was written, on its way from one node to the next.
    Pass(Pass<'a>),
    /// Of a range, all up to this batch has passed.
    Passed(Of, u64),
    /// In this view of a range's chain this node may read, or none but its server.
    Tail(Of, u32, Option<u8>),
    /// As `Forward`, but the command only reads: who reads the range may execute it.
    Read(Of, u64, &'a [u8]),
}

/// All items are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// At which node a client said so, and in which life of it.
    pub by: u8,
    /// The session with which that life began.
    pub life: u64,
    /// The how manieth there.
    pub number: u32,
    /// In so many seconds; 0: now.
    pub seconds: u32,
}

/// What was written of a range in a batch, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass<'a> {
    /// The range.
    pub of: Of,
    /// Who serves it.
    pub head: u8,
    /// How often its chain has changed.
    pub view: u32,
    /// The how manieth in this view; 0: it comes of the head, and goes no further.
    pub place: u64,
    /// Which batch of the head's.
    pub batch: u64,
    /// All of its batches up to this one are confirmed.
    pub done: u64,
    /// The head is to be told when it has come to the last node.
    pub is_last: bool,
    /// The nodes behind the receiver, in their order.
    pub rest: &'a [u8],
    /// `Put`s and `Drop`s.
    pub write: &'a [u8],
}

/// No node.
const NOBODY: u8 = u8::MAX;

/// A range under an epoch of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Of {
    /// Which.
    pub range: u8,
    /// The epoch of the claim under which it is said.
    pub epoch: u64,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Of another protocol, or another version of this.
    #[error("it speaks another protocol, or another version of it")]
    Foreign,
    /// Longer than may be, or shorter than can be.
    #[error("a frame of {0} bytes")]
    Length(usize),
    /// The checksum is another.
    #[error("a frame was damaged")]
    Damaged,
}

/// The length of the frame that begins with these bytes, if they tell it.
///
/// # Errors
/// They begin no frame, or one longer than `most` bytes.
pub fn length(bytes: &[u8], most: usize) -> Result<Option<usize>, WireError> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    if prefix[..2] != MAGIC || prefix[2] != VERSION {
        return Err(WireError::Foreign);
    }
    let [.., a, b, c, d] = *prefix;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    match (FIXED + SUM..=most).contains(&length) {
        true => Ok(Some(length)),
        false => Err(WireError::Length(length)),
    }
}

/// Who sends the frame that begins with these bytes, if they tell it, and it is of this ring.
pub(crate) fn sender(bytes: &[u8], ring: u64) -> Option<usize> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>()?;
    (*rest.first_chunk()? == ring.to_le_bytes()).then_some(prefix[3].into())
}

/// Appends a frame.
pub fn write(head: &Head, messages: &[u8], out: &mut Vec<u8>) {
    let length = FIXED + CLAIM * head.claims.len() + messages.len() + SUM;
    let start = out.len();
    out.reserve(length);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[VERSION, head.from]);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    for word in [head.ring, head.session, head.peer, head.count, head.seq] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&head.ack.to_le_bytes());
    out.extend_from_slice(&head.heard.to_le_bytes());
    out.extend_from_slice(&head.credit.to_le_bytes());
    out.extend_from_slice(&head.complete.to_le_bytes());
    let (stay, gap, ranges) = (head.stay as u8, u8::from(head.gap), head.claims.len() as u8);
    let [a, b] = head.parts.to_le_bytes();
    out.extend_from_slice(&[stay, gap, a, b, 0, ranges]);
    debug_assert_eq!(out.len() - start, FIXED);
    for claim in &head.claims {
        out.extend_from_slice(&claim.epoch.to_le_bytes());
        out.push(claim.node);
    }
    out.extend_from_slice(messages);
    let sum = checksum(SUM_KEY, &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Reads a whole frame: its head and its messages.
///
/// # Errors
/// It is none, or was damaged.
pub fn read(frame: &[u8]) -> Result<(Head, &[u8]), WireError> {
    if length(frame, frame.len())? != Some(frame.len()) {
        return Err(WireError::Length(frame.len()));
    }
    let (body, sum) = frame.split_at(frame.len() - SUM);
    if checksum(SUM_KEY, body).to_le_bytes() != sum {
        return Err(WireError::Damaged);
    }
    let mut reader = Reader(&body[PREFIX..]);
    let head = reader.head(frame[3]).ok_or(WireError::Damaged)?;
    Ok((head, reader.0))
}

impl Message<'_> {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut of = |tag: u8, of: Of| {
            out.extend_from_slice(&[tag, of.range]);
            out.extend_from_slice(&of.epoch.to_le_bytes());
        };
        match *self {
            Message::Put(at, copy) => {
                of(1, at);
                out.extend_from_slice(&copy.flags.to_le_bytes());
                out.extend_from_slice(&copy.left.to_le_bytes());
                out.extend_from_slice(&[copy.marks, copy.key.len() as u8]);
                out.extend_from_slice(copy.key);
                bytes(copy.value, out);
            }
            Message::Drop(at, key) => {
                of(2, at);
                out.push(key.len() as u8);
                out.extend_from_slice(key);
            }
            Message::Flush(flush) => {
                out.extend_from_slice(&[3, flush.by]);
                out.extend_from_slice(&flush.life.to_le_bytes());
                out.extend_from_slice(&flush.number.to_le_bytes());
                out.extend_from_slice(&flush.seconds.to_le_bytes());
            }
            Message::Begin(at, number) => {
                of(4, at);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Message::Ready(at, number) => {
                of(5, at);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Message::End(at) => of(6, at),
            Message::Complete(at) => of(7, at),
            Message::Leave(at) => of(8, at),
            Message::Serve(at, complete) => {
                of(9, at);
                out.extend_from_slice(&complete.to_le_bytes());
            }
            Message::Forward(at, number, command) => {
                of(10, at);
                out.extend_from_slice(&number.to_le_bytes());
                bytes(command, out);
            }
            Message::Answer(number, answer) => {
                out.push(11);
                out.extend_from_slice(&number.to_le_bytes());
                bytes(answer, out);
            }
            Message::Refused(number) => {
                out.push(12);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Message::Reads(at) => of(13, at),
            Message::Unknown(number) => {
                out.push(14);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Message::Pass(pass) => {
                of(15, pass.of);
                out.push(pass.head);
                out.extend_from_slice(&pass.view.to_le_bytes());
                out.extend_from_slice(&pass.place.to_le_bytes());
                out.extend_from_slice(&pass.batch.to_le_bytes());
                out.extend_from_slice(&pass.done.to_le_bytes());
                out.extend_from_slice(&[u8::from(pass.is_last), pass.rest.len() as u8]);
                out.extend_from_slice(pass.rest);
                bytes(pass.write, out);
            }
            Message::Passed(at, batch) => {
                of(16, at);
                out.extend_from_slice(&batch.to_le_bytes());
            }
            Message::Tail(at, view, tail) => {
                of(17, at);
                out.extend_from_slice(&view.to_le_bytes());
                out.push(tail.unwrap_or(NOBODY));
            }
            Message::Read(at, number, command) => {
                of(18, at);
                out.extend_from_slice(&number.to_le_bytes());
                bytes(command, out);
            }
        }
    }
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The messages of a frame, one by one. Bytes that are none end them.
pub struct Messages<'a>(Reader<'a>);

impl<'a> Messages<'a> {
    /// Those in these bytes.
    pub fn new(messages: &'a [u8]) -> Messages<'a> {
        Messages(Reader(messages))
    }

    /// Whether all bytes were understood so far.
    pub fn is_at_end(&self) -> bool {
        self.0.0.is_empty()
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let mut ahead = Reader(self.0.0);
        let message = ahead.message()?;
        self.0 = ahead;
        Some(message)
    }
}

/// Takes bytes from the front, where there are enough.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn of(&mut self) -> Option<Of> {
        let (range, epoch) = (self.byte()?, self.u64()?);
        Some(Of { range, epoch })
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn head(&mut self, from: u8) -> Option<Head> {
        let mut head = Head {
            from,
            ring: self.u64()?,
            session: self.u64()?,
            peer: self.u64()?,
            count: self.u64()?,
            seq: self.u64()?,
            ack: self.u64()?,
            heard: self.u64()?,
            credit: self.u32()?,
            complete: self.u64()?,
            stay: match self.byte()? {
                0 => Stay::Stays,
                1 => Stay::Leaves,
                _ => Stay::Gone,
            },
            gap: self.byte()? != 0,
            parts: self.array().map(u16::from_le_bytes)?,
            claims: Vec::new(),
        };
        let [_, ranges] = self.array()?;
        for _ in 0..ranges {
            let (epoch, node) = (self.u64()?, self.byte()?);
            head.claims.push(Claim { epoch, node });
        }
        Some(head)
    }

    fn message(&mut self) -> Option<Message<'a>> {
        Some(match self.byte()? {
            1 => {
                let of = self.of()?;
                let (flags, left, marks) = (self.u32()?, self.u32()?, self.byte()?);
                let (key, value) = (self.key()?, self.bytes()?);
                let copy = Copy {
                    key,
                    flags,
                    left,
                    marks,
                    value,
                };
                Message::Put(of, copy)
            }
            2 => Message::Drop(self.of()?, self.key()?),
            3 => Message::Flush(Flush {
                by: self.byte()?,
                life: self.u64()?,
                number: self.u32()?,
                seconds: self.u32()?,
            }),
            4 => Message::Begin(self.of()?, self.u32()?),
            5 => Message::Ready(self.of()?, self.u32()?),
            6 => Message::End(self.of()?),
            7 => Message::Complete(self.of()?),
            8 => Message::Leave(self.of()?),
            9 => Message::Serve(self.of()?, self.u64()?),
            10 => Message::Forward(self.of()?, self.u64()?, self.bytes()?),
            11 => Message::Answer(self.u64()?, self.bytes()?),
            12 => Message::Refused(self.u64()?),
            13 => Message::Reads(self.of()?),
            14 => Message::Unknown(self.u64()?),
            15 => Message::Pass(Pass {
                of: self.of()?,
                head: self.byte()?,
                view: self.u32()?,
                place: self.u64()?,
                batch: self.u64()?,
                done: self.u64()?,
                is_last: self.byte()? != 0,
                // A length and so many bytes, as a key.
                rest: self.key()?,
                write: self.bytes()?,
            }),
            16 => Message::Passed(self.of()?, self.u64()?),
            17 => {
                let (of, view, tail) = (self.of()?, self.u32()?, self.byte()?);
                Message::Tail(of, view, (tail != NOBODY).then_some(tail))
            }
            18 => Message::Read(self.of()?, self.u64()?, self.bytes()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            from: 2,
            ring: 0x1122_3344_5566_7788,
            session: 1 << 63,
            peer: 7,
            count: 8,
            seq: 9,
            ack: 10,
            heard: 12,
            credit: 11,
            gap: true,
            parts: 0x1234,
            stay: Stay::Leaves,
            complete: 0b101,
            claims: vec![Claim { epoch: 1, node: 0 }, Claim { epoch: 2, node: 2 }],
        }
    }

    fn messages() -> Vec<Message<'static>> {
        let of = Of { range: 1, epoch: 5 };
        let copy = Copy {
            key: b"key",
            flags: 4,
            left: 100,
            marks: STALE | ENCODED,
            value: b"value",
        };
        vec![
            Message::Put(of, copy),
            Message::Drop(of, b"other"),
            Message::Flush(Flush {
                by: 2,
                life: 1 << 40,
                number: 3,
                seconds: 10,
            }),
            Message::Begin(of, 1 << 20),
            Message::Ready(of, 1 << 20),
            Message::End(of),
            Message::Complete(of),
            Message::Leave(of),
            Message::Serve(of, 6),
            Message::Forward(of, 1 << 40, b"get key\r\n"),
            Message::Answer(1 << 40, b"END\r\n"),
            Message::Refused(3),
            Message::Reads(of),
            Message::Unknown(4),
            Message::Pass(Pass {
                of,
                head: 2,
                view: 3,
                place: 5,
                batch: 1 << 50,
                done: 7,
                is_last: true,
                rest: &[4, 1],
                write: b"writes",
            }),
            Message::Passed(of, 1 << 50),
            Message::Tail(of, 3, Some(1)),
            Message::Tail(of, 4, None),
            Message::Read(of, 1 << 40, b"get key\r\n"),
        ]
    }

    fn written(messages: &[Message<'_>]) -> Vec<u8> {
        let (mut body, mut frame) = (Vec::new(), Vec::new());
        messages.iter().for_each(|message| message.write(&mut body));
        write(&head(), &body, &mut frame);
        frame
    }

    #[test]
    fn what_is_written_is_read() {
        let frame = written(&messages());
        assert_eq!(sender(&frame[..16], head().ring), Some(2));
        assert_eq!(sender(&frame[..15], head().ring), None);
        assert_eq!(sender(&frame, !head().ring), None);
        let (read_head, body) = read(&frame).unwrap();
        assert_eq!(read_head, head());
        let mut read = Messages::new(body);
        assert_eq!(read.by_ref().collect::<Vec<_>>(), messages());
        assert!(read.is_at_end());
    }

    #[test]
    fn every_change_of_a_frame_is_seen() {
        let mut frame = written(&messages());
        for at in 0..frame.len() {
            for bit in 0..8 {
                frame[at] ^= 1 << bit;
                // Who sends is in no checksum of the rest but in that of the frame.
                assert!(read(&frame).is_err(), "byte {at}, bit {bit}");
                frame[at] ^= 1 << bit;
            }
            assert!(read(&frame[..at]).is_err(), "{at} bytes of it");
        }
        assert_eq!(
            length(&frame, frame.len() - 1),
            Err(WireError::Length(frame.len()))
        );
        assert_eq!(length(&frame[..PREFIX - 1], 1 << 20), Ok(None));
    }

    #[test]
    fn messages_that_are_cut_short_are_none() {
        for message in messages() {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            for end in 0..bytes.len() {
                let mut cut = Messages::new(&bytes[..end]);
                assert_eq!(cut.next(), None, "{message:?}");
                assert_eq!(cut.is_at_end(), end == 0);
            }
        }
    }
}
