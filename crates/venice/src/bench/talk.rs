//! Two programs that talk by a QPair: one asks for bytes, or both send each other messages.

use super::options::PATIENCE;
use crate::channel::broken::Lost;
use crate::channel::qpair::{Credits, QueueSettings};
use crate::channel::queue::Queue;
use crate::channel::transport::Transport;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Buffers of either end.
pub(super) const MESSAGES: u32 = 32;
/// Credits are given after so many messages.
pub(super) const CREDIT_EVERY: u32 = 4;
/// Bytes of the longest message.
const MESSAGE_BYTES: u32 = 64 * 1024;
/// Bytes of an answer go in messages of so many.
const PART_BYTES: usize = 32 * 1024;
/// How many messages an end sends before it takes as many.
const ROUND: u64 = 16;

const ASK: u8 = b'a';
const ONE_WAY: u8 = b'1';
const BOTH_WAYS: u8 = b'2';
const READ: u8 = b'r';
const WRITE: u8 = b'w';
/// Bytes of an order; what is written follows.
const ORDER_BYTES: usize = 17;

/// Records that the answering end keeps for the other, and the bytes of one: a cache line.
pub(super) const RECORDS: usize = 4096;
pub(super) const RECORD_BYTES: usize = 64;

fn settings(credits: Credits) -> QueueSettings {
    QueueSettings {
        messages: MESSAGES,
        message_bytes: MESSAGE_BYTES,
        credits,
        credit_every: CREDIT_EVERY,
    }
}

/// What the asking end says before all else: how credits go.
pub(super) fn settings_of(stream: &mut impl Read) -> Result<QueueSettings, Lost> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    Ok(settings(match byte {
        [b'c'] => Credits::Crma,
        _ => Credits::Message,
    }))
}

fn begin(stream: &mut impl Write, credits: Credits) -> io::Result<()> {
    stream.write_all(match credits {
        Credits::Crma => b"c",
        Credits::Message => b"m",
    })
}

/// One end.
pub(super) struct Talk<T>(pub(super) Queue<T>);

impl Talk<Tcp> {
    pub(super) fn tcp(to: SocketAddr, credits: Credits) -> Result<Self, Lost> {
        let mut stream = TcpStream::connect(to)?;
        begin(&mut stream, credits)?;
        Ok(Self(Queue::new(
            Tcp::of(stream)?,
            settings(credits),
            PATIENCE,
        )))
    }
}

impl Talk<Shared> {
    pub(super) fn shared(to: &Path, credits: Credits) -> Result<Self, Lost> {
        let mut stream = UnixStream::connect(to)?;
        begin(&mut stream, credits)?;
        let transport = Shared::accept(stream)?;
        Ok(Self(Queue::new(transport, settings(credits), PATIENCE)))
    }
}

impl<T: Transport> Talk<T> {
    fn order(&mut self, what: u8, count: u64, bytes: usize) -> Result<(), Lost> {
        let mut order = [0; ORDER_BYTES];
        order[0] = what;
        order[1..9].copy_from_slice(&count.to_le_bytes());
        order[9..].copy_from_slice(&(bytes as u64).to_le_bytes());
        self.0.send(&order)
    }

    /// Gets bytes by a message that asks and messages that answer.
    pub(super) fn ask(&mut self, into: &mut [u8]) -> Result<(), Lost> {
        self.order(ASK, 1, into.len())?;
        let mut part = Vec::new();
        let mut filled = 0;
        while filled < into.len() {
            self.0.receive(&mut part)?;
            let end = into.len().min(filled + part.len());
            into[filled..end].copy_from_slice(&part[..end - filled]);
            filled = end;
        }
        Ok(())
    }

    /// Asks for a record, which is to be taken.
    pub(super) fn ask_record(&mut self, which: u32) -> Result<(), Lost> {
        self.order(READ, which.into(), RECORD_BYTES)
    }

    /// Has a record written; that it is, is to be taken.
    pub(super) fn write_record(
        &mut self,
        which: u32,
        record: &[u8; RECORD_BYTES],
    ) -> Result<(), Lost> {
        let mut message = [0; ORDER_BYTES + RECORD_BYTES];
        message[0] = WRITE;
        message[1..9].copy_from_slice(&u64::from(which).to_le_bytes());
        message[ORDER_BYTES..].copy_from_slice(record);
        self.0.send(&message)
    }

    /// Takes the answer to what was asked first.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) -> Result<(), Lost> {
        self.0.receive(into)
    }

    /// Sends messages, and waits until the other end took the last.
    pub(super) fn send(&mut self, count: u64, bytes: usize) -> Result<(), Lost> {
        self.order(ONE_WAY, count, bytes)?;
        let message = vec![7; bytes];
        for _ in 0..count {
            self.0.send(&message)?;
        }
        self.0.receive(&mut Vec::new())
    }

    /// Sends messages, and takes as many.
    pub(super) fn exchange(&mut self, count: u64, bytes: usize) -> Result<(), Lost> {
        self.order(BOTH_WAYS, count, bytes)?;
        self.both(count, bytes)?;
        self.0.receive(&mut Vec::new())
    }

    fn both(&mut self, count: u64, bytes: usize) -> Result<(), Lost> {
        let (message, mut came) = (vec![7; bytes], Vec::new());
        for round in (0..count).step_by(ROUND as usize) {
            let messages = ROUND.min(count - round);
            for _ in 0..messages {
                self.0.send(&message)?;
            }
            for _ in 0..messages {
                self.0.receive(&mut came)?;
            }
        }
        Ok(())
    }

    /// The other end: does what is asked, until the connection ends.
    pub(super) fn answer(&mut self) -> Result<(), Lost> {
        let (mut order, mut came) = (Vec::new(), Vec::new());
        let part = vec![7; PART_BYTES];
        let mut records = vec![[0; RECORD_BYTES]; RECORDS];
        loop {
            self.0.receive(&mut order)?;
            let number = |at: usize| {
                let mut number = [0; 8];
                number.copy_from_slice(order.get(at..at + 8)?);
                Some(u64::from_le_bytes(number))
            };
            let (Some(count), Some(bytes)) = (number(1), number(9)) else {
                continue;
            };
            let bytes = bytes as usize;
            match order[0] {
                READ | WRITE => {
                    let Some(record) = records.get_mut(count as usize) else {
                        // Who asks for what is not there sees that it is too short.
                        self.0.send(&[])?;
                        continue;
                    };
                    if let Some(text) = order.get(ORDER_BYTES..)
                        && text.len() == RECORD_BYTES
                    {
                        record.copy_from_slice(text);
                    }
                    self.0.send(record)?;
                }
                ASK => {
                    for at in (0..bytes).step_by(PART_BYTES) {
                        self.0.send(&part[..PART_BYTES.min(bytes - at)])?;
                    }
                }
                ONE_WAY => {
                    for _ in 0..count {
                        self.0.receive(&mut came)?;
                    }
                    self.0.send(b"done")?;
                }
                _ => {
                    self.both(count, bytes.min(MESSAGE_BYTES as usize))?;
                    self.0.send(b"done")?;
                }
            }
        }
    }
}
