//! QPair (the paper's section 5.1.2): a queue of messages each way between two ends, without I/O.
//!
//! Messages are numbered from 0. The receiver has buffers for a fixed number of them, and the
//! sender *credits*: the number of the first message that there is no buffer for yet. A credit is a
//! total, so a newer one replaces an older one. They travel in one of two ways (section 5.1.3):
//!
//! - as messages do: a frame that waits behind the messages that were made before it;
//! - as a write of CRMA to the sender's credit word, past all messages: a store where the ends
//!   share memory, else a frame ahead of all that waits; of several that wait only the last is
//!   sent.
//!
//! What was sent is kept until credits say that the receiver's program took it. Where a connection
//! breaks, each end tells on the next which message it waits for ([`Kind::Open`]), and they come
//! from there: in order, each once, none lost. Memory is what both ends agreed on: `messages`
//! buffers of `message_bytes` each way.

use super::broken::Broken;
use super::frame::{self, Frame, HEAD_BYTES, Kind, PAYLOAD_BYTES_MAX, u64_at};
use std::collections::VecDeque;

/// How credits come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credits {
    /// Among the messages.
    Message,
    /// Past them, as a write of CRMA.
    Crma,
}

/// What both ends agree on.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// Buffers for messages, each way: 1 to 65536.
    pub messages: u32,
    /// Bytes of the longest message: 65536 at most.
    pub message_bytes: u32,
    /// How credits come back; each end decides for those it gives.
    pub credits: Credits,
    /// Credits are given when so many messages were taken; as many as there are buffers at most.
    pub credit_every: u32,
}

impl QueueSettings {
    /// The next allowed values where one is not.
    fn clamped(self) -> Self {
        let messages = self.messages.clamp(1, 1 << 16);
        Self {
            messages,
            message_bytes: self.message_bytes.clamp(1, PAYLOAD_BYTES_MAX as u32),
            credits: self.credits,
            credit_every: self.credit_every.clamp(1, messages),
        }
    }

    fn shape(&self) -> (u64, u64) {
        (self.messages.into(), self.message_bytes.into())
    }
}

/// A message cannot be made now, or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// There is no credit: the receiver has to take messages first.
    NoCredit,
    /// It is longer than was agreed.
    TooLong,
}

/// One end.
#[derive(Debug)]
pub(crate) struct QPair {
    settings: QueueSettings,
    /// Messages that were made, by their number modulo the buffers.
    made: Vec<Vec<u8>>,
    /// The number of the next message to be made.
    next: u64,
    /// Credits: messages below may be made.
    until: u64,
    /// The next to be put on the connection.
    put: u64,
    /// Messages that came, likewise.
    came: Vec<Vec<u8>>,
    /// The next to come.
    due: u64,
    /// The next to be taken by the program.
    taken: u64,
    /// The credits that the other end is given.
    given: u64,
    /// Of these, those that are on their way to it.
    told: u64,
    /// Credits that wait behind the messages below a number.
    waiting: VecDeque<(u64, u64)>,
    /// Credits to be written past the messages.
    word: Option<u64>,
    /// This end's first frame of the connection is put.
    is_open: bool,
    /// The other end's has come.
    is_met: bool,
    /// It is this end that may refuse the other.
    is_donor: bool,
}

impl QPair {
    /// An end that has sent and received nothing. Settings beyond their bounds are brought within.
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let settings = settings.clamped();
        let buffers = settings.messages as usize;
        Self {
            settings,
            made: vec![Vec::new(); buffers],
            next: 0,
            until: u64::from(settings.messages),
            put: 0,
            came: vec![Vec::new(); buffers],
            due: 0,
            taken: 0,
            given: u64::from(settings.messages),
            told: u64::from(settings.messages),
            waiting: VecDeque::new(),
            word: None,
            is_open: false,
            is_met: false,
            is_donor: false,
        }
    }

    /// Has it be the end that lends something: it may refuse the other, and is not refused by it.
    pub(crate) fn lends(&mut self) {
        self.is_donor = true;
    }

    fn buffers(&self) -> u64 {
        u64::from(self.settings.messages)
    }

    fn slot(&self, number: u64) -> usize {
        (number % self.buffers()) as usize
    }

    /// Makes a message, which is put later.
    ///
    /// # Errors
    /// [`NotSent`].
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), NotSent> {
        if message.len() > self.settings.message_bytes as usize {
            return Err(NotSent::TooLong);
        }
        if self.next >= self.until {
            return Err(NotSent::NoCredit);
        }
        let slot = self.slot(self.next);
        self.made[slot].clear();
        self.made[slot].extend_from_slice(message);
        self.next += 1;
        Ok(())
    }

    /// Gives the next message that came; false where none is there. What `into` had becomes a
    /// buffer.
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) -> bool {
        if self.taken == self.due {
            return false;
        }
        let slot = self.slot(self.taken);
        std::mem::swap(&mut self.came[slot], into);
        self.taken += 1;
        let until = self.taken + self.buffers();
        if until - self.given >= u64::from(self.settings.credit_every) && self.is_open {
            self.given = until;
            match self.settings.credits {
                Credits::Message => self.waiting.push_back((self.next, until)),
                Credits::Crma => self.word = Some(until),
            }
        }
        true
    }

    /// Bytes of the longest message.
    pub(crate) fn message_bytes(&self) -> usize {
        self.settings.message_bytes as usize
    }

    /// Messages that were made and are not on the connection yet.
    pub(crate) fn unsent(&self) -> u64 {
        self.next - self.put
    }

    /// Messages that the other end may not have taken yet.
    pub(crate) fn untaken(&self) -> u64 {
        (self.next + self.buffers()).saturating_sub(self.until)
    }

    /// Credits that are to be written past all messages.
    pub(crate) fn credit_word(&self) -> Option<u64> {
        self.word
    }

    /// They are on their way.
    pub(crate) fn credit_word_written(&mut self) {
        self.told = self.word.take().unwrap_or(self.told);
    }

    /// Credits wait that the other end may need soon: for half of the buffers, or more. Others may
    /// wait for what else is to be said, so that there are fewer of them.
    pub(crate) fn is_credit_urgent(&self) -> bool {
        self.owes_credit() && self.given - self.told >= self.buffers() / 2
    }

    /// The other end has said where it is.
    pub(crate) fn is_met(&self) -> bool {
        self.is_met
    }

    /// Something would be put.
    pub(crate) fn has_output(&self) -> bool {
        !self.is_open || self.is_met && self.put < self.next || self.owes_credit()
    }

    /// Credits are due that the other end was not told of.
    pub(crate) fn owes_credit(&self) -> bool {
        self.word.is_some() || !self.waiting.is_empty()
    }

    /// Appends frames to what goes out, until it has `most` bytes or a little more.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, most: usize) {
        if !self.is_open {
            self.is_open = true;
            self.given = self.taken + self.buffers();
            self.told = self.given;
            let (messages, bytes) = self.settings.shape();
            let mut payload = [0; 16];
            payload[..8].copy_from_slice(&messages.to_le_bytes());
            payload[8..].copy_from_slice(&bytes.to_le_bytes());
            frame::put(out, Kind::Open, self.due, self.given, &payload);
        }
        while self.is_met && out.len() + HEAD_BYTES <= most {
            match self.waiting.front() {
                Some(&(behind, until)) if behind <= self.put => {
                    frame::put(out, Kind::Credit, 0, until, &[]);
                    self.told = until;
                    self.waiting.pop_front();
                }
                _ if self.put < self.next => {
                    let slot = self.slot(self.put);
                    frame::put(out, Kind::Message, self.put, 0, &self.made[slot]);
                    self.put += 1;
                }
                _ => break,
            }
        }
    }

    /// Takes a frame that came.
    ///
    /// # Errors
    /// [`Broken`]: the connection is over; nothing of what was said before is undone.
    pub(crate) fn came(&mut self, frame: &Frame<'_>) -> Result<(), Broken> {
        match frame.kind {
            Kind::Open if !self.is_met => self.meet(frame),
            Kind::Message if self.is_met => {
                let came = frame.id;
                if came != self.due {
                    let due = self.due;
                    return Err(Broken::OutOfOrder { due, came });
                }
                // What waits here yet to be told cannot be what it goes by.
                if came >= self.told {
                    let until = self.told;
                    return Err(Broken::NoCredit { came, until });
                }
                let (bytes, most) = (frame.payload.len(), self.settings.message_bytes as usize);
                if bytes > most {
                    return Err(Broken::TooLong { bytes, most });
                }
                let slot = self.slot(came);
                self.came[slot].clear();
                self.came[slot].extend_from_slice(frame.payload);
                self.due += 1;
                Ok(())
            }
            Kind::Credit | Kind::CreditWrite if self.is_met => self.credit(frame.address),
            Kind::Refused if !self.is_donor => Err(Broken::Refused(frame::legible(frame.payload))),
            kind => Err(Broken::NotDue(format!("{kind:?}"))),
        }
    }

    /// Takes credits: what came in a frame, or what the credit word has.
    ///
    /// # Errors
    /// [`Broken::FalseCredit`].
    pub(crate) fn credit(&mut self, until: u64) -> Result<(), Broken> {
        let (least, most) = (self.until, self.put + self.buffers());
        if !(least..=most).contains(&until) {
            return Err(Broken::FalseCredit { until, least, most });
        }
        self.until = until;
        Ok(())
    }

    /// The other end's first frame.
    fn meet(&mut self, frame: &Frame<'_>) -> Result<(), Broken> {
        let theirs = (u64_at(frame.payload, 0), u64_at(frame.payload, 8));
        if theirs != self.settings.shape() {
            let text = |(messages, bytes)| format!("{messages} messages of {bytes} bytes");
            return Err(Broken::OtherQueue {
                theirs: text(theirs),
                ours: text(self.settings.shape()),
            });
        }
        let due = frame.id;
        let kept = self.until - self.buffers();
        if !(kept..=self.put).contains(&due) {
            return Err(Broken::NotKept {
                due,
                least: kept,
                most: self.put,
            });
        }
        let before = std::mem::replace(&mut self.put, due);
        if let Err(false_credit) = self.credit(frame.address) {
            self.put = before;
            return Err(false_credit);
        }
        self.is_met = true;
        Ok(())
    }

    /// The connection broke: on the next both ends say where they are.
    pub(crate) fn lost_connection(&mut self) {
        self.is_open = false;
        self.is_met = false;
        self.waiting.clear();
        self.word = None;
    }
}

#[cfg(test)]
mod tests;
