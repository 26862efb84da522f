//! What nodes tell each other: messages <-> bytes.

use crate::bytes::{Put, Reader};

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
    /// The receiver is sent what is confirmed of the range under this epoch, too: what it has
    /// complete counts.
    Counts(Of),
    /// The sender looks for what it has beside what it was sent of the range, and is so far.
    Looks(Of, u64),
    /// The sender has heard of this flush, or said it itself, before anything that follows.
    Heard(Flush),
}

/// All items are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// At which node a client said so, and in which life of it.
    pub by: u8,
    /// The session with which that life began.
    pub life: u64,
    /// The how manieth there.
    pub number: u32,
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

impl Message<'_> {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut of = |tag: u8, of: Of| {
            out.extend_from_slice(&[tag, of.range]);
            out.put_u64(of.epoch);
        };
        match *self {
            Message::Put(at, copy) => {
                of(1, at);
                out.put_u32(copy.flags);
                out.put_u32(copy.left);
                out.extend_from_slice(&[copy.marks, copy.key.len() as u8]);
                out.extend_from_slice(copy.key);
                out.put_bytes(copy.value);
            }
            Message::Drop(at, key) => {
                of(2, at);
                out.push(key.len() as u8);
                out.extend_from_slice(key);
            }
            Message::Flush(of) => flush(3, of, out),
            Message::Begin(at, number) => {
                of(4, at);
                out.put_u32(number);
            }
            Message::Ready(at, number) => {
                of(5, at);
                out.put_u32(number);
            }
            Message::End(at) => of(6, at),
            Message::Complete(at) => of(7, at),
            Message::Leave(at) => of(8, at),
            Message::Serve(at, complete) => {
                of(9, at);
                out.put_u64(complete);
            }
            Message::Forward(at, number, command) => {
                of(10, at);
                out.put_u64(number);
                out.put_bytes(command);
            }
            Message::Answer(number, answer) => {
                out.push(11);
                out.put_u64(number);
                out.put_bytes(answer);
            }
            Message::Refused(number) => {
                out.push(12);
                out.put_u64(number);
            }
            Message::Reads(at) => of(13, at),
            Message::Unknown(number) => {
                out.push(14);
                out.put_u64(number);
            }
            Message::Pass(pass) => {
                of(15, pass.of);
                out.push(pass.head);
                out.put_u32(pass.view);
                out.put_u64(pass.place);
                out.put_u64(pass.batch);
                out.put_u64(pass.done);
                out.extend_from_slice(&[u8::from(pass.is_last), pass.rest.len() as u8]);
                out.extend_from_slice(pass.rest);
                out.put_bytes(pass.write);
            }
            Message::Passed(at, batch) => {
                of(16, at);
                out.put_u64(batch);
            }
            Message::Tail(at, view, tail) => {
                of(17, at);
                out.put_u32(view);
                out.push(tail.unwrap_or(NOBODY));
            }
            Message::Read(at, number, command) => {
                of(18, at);
                out.put_u64(number);
                out.put_bytes(command);
            }
            Message::Counts(at) => of(19, at),
            Message::Looks(at, place) => {
                of(20, at);
                out.put_u64(place);
            }
            Message::Heard(of) => flush(21, of, out),
        }
    }
}

fn flush(tag: u8, flush: Flush, out: &mut Vec<u8>) {
    out.extend_from_slice(&[tag, flush.by]);
    out.put_u64(flush.life);
    out.put_u32(flush.number);
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

impl<'a> Reader<'a> {
    fn of(&mut self) -> Option<Of> {
        let (range, epoch) = (self.u8()?, self.u64()?);
        Some(Of { range, epoch })
    }

    fn flush(&mut self) -> Option<Flush> {
        let (by, life, number) = (self.u8()?, self.u64()?, self.u32()?);
        Some(Flush { by, life, number })
    }

    fn message(&mut self) -> Option<Message<'a>> {
        Some(match self.u8()? {
            1 => {
                let of = self.of()?;
                let (flags, left, marks) = (self.u32()?, self.u32()?, self.u8()?);
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
            3 => Message::Flush(self.flush()?),
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
                head: self.u8()?,
                view: self.u32()?,
                place: self.u64()?,
                batch: self.u64()?,
                done: self.u64()?,
                is_last: self.bool()?,
                // A length and so many bytes, as a key.
                rest: self.key()?,
                write: self.bytes()?,
            }),
            16 => Message::Passed(self.of()?, self.u64()?),
            17 => {
                let (of, view, tail) = (self.of()?, self.u32()?, self.u8()?);
                Message::Tail(of, view, (tail != NOBODY).then_some(tail))
            }
            18 => Message::Read(self.of()?, self.u64()?, self.bytes()?),
            19 => Message::Counts(self.of()?),
            20 => Message::Looks(self.of()?, self.u64()?),
            21 => Message::Heard(self.flush()?),
            _ => return None,
        })
    }
}
