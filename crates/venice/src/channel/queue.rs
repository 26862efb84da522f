//! A QPair over a transport: two programs, each with one end, that send each other messages.

use super::broken::{Broken, Lost};
use super::frame::{self, HEAD_BYTES, Kind, PAYLOAD_BYTES_MAX, parse};
use super::qpair::{NotSent, QPair, QueueSettings};
use super::transport::{Transport, Wait, flush};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes that are read at a time, with what has not come whole.
const INPUT_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// Bytes that are put together before they are written.
const OUTPUT_BYTES: usize = 64 * 1024;
/// How many messages wait for [`Queue::flush`] before they leave by themselves.
const UNSENT_MAX: u64 = 64;

/// One end of a QPair, for one thread.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    pair: QPair,
    transport: T,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    /// How long the other end may be waited for.
    patience: Duration,
    /// What became of the connection, and was not told yet.
    lost: Option<Lost>,
}

impl<T: Transport> Queue<T> {
    /// An end that has sent and received nothing. What waits for the other end waits so long.
    pub(crate) fn new(transport: T, settings: QueueSettings, patience: Duration) -> Self {
        Self {
            pair: QPair::new(settings),
            transport,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            output: Vec::new(),
            written: 0,
            patience,
            lost: None,
        }
    }

    /// Has this be the end that lends something: it may refuse the other, and is not refused by it.
    pub(crate) fn lends(mut self) -> Self {
        self.pair.lends();
        self
    }

    /// Goes on over another connection, where one was [`Lost`]: the other end is to do so, too.
    /// Messages go on where they were.
    pub(crate) fn resume(&mut self, transport: T) {
        self.transport = transport;
        self.pair.lost_connection();
        self.lost = None;
        self.filled = 0;
        self.output.clear();
        self.written = 0;
    }

    /// Sends a message, once there is credit for it. It leaves with others, with the next
    /// [`flush`](Self::flush) or [`receive`](Self::receive) at the latest.
    ///
    /// # Errors
    /// [`Lost`]: the message is not sent; those before are kept for [`resume`](Self::resume).
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), Lost> {
        let mut sent = Ok(());
        self.turn_until(true, self.patience, |queue| {
            sent = queue.pair.send(message);
            sent != Err(NotSent::NoCredit)
        })?;
        if sent.is_err() {
            let error = format!("a message of {} bytes is too long", message.len());
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, error).into());
        }
        if self.pair.unsent() >= UNSENT_MAX {
            self.turn_or_remember();
        }
        Ok(())
    }

    /// The next message, once it is there; it takes the place of what `into` had.
    ///
    /// # Errors
    /// [`Lost`]: none came before.
    pub(crate) fn receive(&mut self, into: &mut Vec<u8>) -> Result<(), Lost> {
        self.receive_within(self.patience, into)
    }

    /// The next message, if it comes within a time.
    ///
    /// # Errors
    /// [`Lost`]: none came before.
    pub(crate) fn receive_within(
        &mut self,
        time: Duration,
        into: &mut Vec<u8>,
    ) -> Result<(), Lost> {
        self.turn_until(false, time, |queue| queue.pair.take(into))?;
        // Where that is but a store.
        if let Some(until) = self.pair.credit_word()
            && self.transport.write_credit(until)
        {
            self.pair.credit_word_written();
        }
        if self.pair.is_credit_urgent() {
            self.turn_or_remember();
        }
        Ok(())
    }

    /// Sends a message if there is credit for it; false where there is none now. It leaves with the
    /// next [`turn`](Self::turn).
    ///
    /// # Errors
    /// [`Lost`]: it is longer than was agreed.
    pub(crate) fn try_send(&mut self, message: &[u8]) -> Result<bool, Lost> {
        match self.pair.send(message) {
            Ok(()) => Ok(true),
            Err(NotSent::NoCredit) => Ok(false),
            Err(NotSent::TooLong) => {
                let (bytes, most) = (message.len(), self.pair.message_bytes());
                Err(Broken::TooLong { bytes, most }.into())
            }
        }
    }

    /// The next message, if it is there. What was taken is told with the next
    /// [`turn`](Self::turn).
    pub(crate) fn try_receive(&mut self, into: &mut Vec<u8>) -> bool {
        self.pair.take(into)
    }

    /// Waits until something can be done, or until one of `others` can be read, or so long.
    ///
    /// # Errors
    /// [`Lost`].
    pub(crate) fn wait_beside(
        &mut self,
        others: &[BorrowedFd<'_>],
        at_most: Duration,
    ) -> Result<(), Lost> {
        let room = self.written < self.output.len();
        let credit = self.pair.is_met();
        let wait = Wait {
            bytes: true,
            room,
            credit,
        };
        self.transport.wait_beside(wait, others, at_most)
    }

    /// Tells the other end what was taken here, and waits until it says that its program took all
    /// that was sent, but for the last `left`. It says so with its next call that waits, for groups
    /// of `credit_every` messages.
    ///
    /// # Errors
    /// [`Lost`]: it may not have.
    pub(crate) fn flush(&mut self, left: u64) -> Result<(), Lost> {
        let is_flushed = |queue: &Self| {
            let is_written = !queue.pair.has_output() && queue.output.is_empty();
            is_written && queue.pair.untaken() <= left
        };
        while !is_flushed(self) {
            let before = self.pair.untaken();
            self.turn_until(true, self.patience, |queue| {
                queue.pair.untaken() < before || is_flushed(queue)
            })?;
        }
        Ok(())
    }

    /// Says a last thing, if the other end takes it, and waits until that closes the connection, or
    /// so long. What it says meanwhile is dropped.
    pub(crate) fn last_words(&mut self, message: &[u8], patience: Duration) {
        let start = Instant::now();
        let mut dropped = Vec::new();
        let mut is_sent = false;
        loop {
            // One that is too long is not said.
            is_sent = is_sent || self.try_send(message).unwrap_or(true);
            let turned = self.turn();
            while self.try_receive(&mut dropped) {}
            let left = patience.saturating_sub(start.elapsed());
            let went_on = match turned {
                Ok(false) => self.wait_beside(&[], left),
                turned => turned.map(drop),
            };
            if went_on.is_err() || left.is_zero() {
                return;
            }
        }
    }

    /// Does what can be done, and waits where that is nothing, until something is so. What else the
    /// other end does meanwhile gives it no more time.
    fn turn_until(
        &mut self,
        credit: bool,
        patience: Duration,
        mut is_so: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), Lost> {
        if is_so(self) {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            let left = patience.saturating_sub(start.elapsed());
            let some = self.turn()?;
            if is_so(self) {
                return Ok(());
            }
            if left.is_zero() {
                return Err(Lost::Silent(patience));
            }
            if !some {
                let room = self.written < self.output.len();
                let credit = credit && self.pair.is_met();
                let wait = Wait {
                    bytes: true,
                    room,
                    credit,
                };
                self.transport.wait(wait, left)?;
            }
        }
    }

    /// Does what can be done now, for a call that has done what it was asked whatever becomes of
    /// the connection; the next one tells of that.
    fn turn_or_remember(&mut self) {
        if let Err(lost) = self.turn() {
            self.lost = Some(lost);
        }
    }

    /// Takes what came, puts what there is; whether there was anything.
    ///
    /// # Errors
    /// [`Lost`].
    pub(crate) fn turn(&mut self) -> Result<bool, Lost> {
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        let mut some = false;
        // The word goes on from what the other end's first frame says.
        if self.pair.is_met()
            && let Some(until) = self.transport.read_credit()
        {
            self.pair.credit(until)?;
            some = true;
        }
        if let Some(read) = self.transport.read(&mut self.input[self.filled..])? {
            self.filled += read;
            self.take_frames()?;
            some = true;
        }
        if self.output.is_empty() {
            if let Some(until) = self.pair.credit_word() {
                if !self.transport.write_credit(until) {
                    frame::put(&mut self.output, Kind::CreditWrite, 0, until, &[]);
                }
                self.pair.credit_word_written();
            }
            self.pair.put(&mut self.output, OUTPUT_BYTES);
        }
        some |= flush(&mut self.transport, &mut self.output, &mut self.written)?;
        Ok(some)
    }

    fn take_frames(&mut self) -> Result<(), Broken> {
        let mut start = 0;
        while let Some((frame, used)) = parse(&self.input[start..self.filled])? {
            self.pair.came(&frame)?;
            start += used;
        }
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::qpair::Credits;
    use crate::channel::transport::pairs::{shared, tcp};
    use std::thread;

    const NEVER: Duration = Duration::from_secs(60);

    fn settings(credits: Credits) -> QueueSettings {
        QueueSettings {
            messages: 16,
            message_bytes: 5000,
            credits,
            credit_every: 4,
        }
    }

    fn text(number: usize) -> Vec<u8> {
        vec![number as u8; number * 13 % 5001]
    }

    /// Both ends send at once, then receive what the other sent.
    fn talk<T: Transport>(queue: &mut Queue<T>, messages: std::ops::Range<usize>) {
        let mut message = Vec::new();
        for number in messages {
            queue.send(&text(number)).unwrap();
            queue.receive(&mut message).unwrap();
            assert_eq!(message, text(number));
        }
        queue.flush(3).unwrap();
    }

    fn both<T: Transport + Send + 'static>(make: fn() -> (T, T), credits: Credits) {
        let (one, other) = make();
        let mut queue = Queue::new(one, settings(credits), NEVER);
        let its = thread::spawn(move || {
            let mut queue = Queue::new(other, settings(credits), NEVER);
            talk(&mut queue, 0..3000);
            queue
        });
        talk(&mut queue, 0..3000);
        let mut its_queue = its.join().unwrap();
        // The connection breaks with messages on their way, and another takes its place.
        for number in 3000..3008 {
            queue.send(&text(number)).unwrap();
        }
        let _ = queue.turn().unwrap();
        let (one, other) = make();
        queue.resume(one);
        let its = thread::spawn(move || {
            let (mut message, mut got) = (Vec::new(), Vec::new());
            while its_queue.receive(&mut message).is_ok() {
                got.push(message.clone());
            }
            its_queue.resume(other);
            while got.len() < 20 {
                its_queue.receive(&mut message).unwrap();
                got.push(message.clone());
            }
            // Credits for these are told.
            its_queue.send(b"end").unwrap();
            its_queue.flush(3).unwrap();
            its_queue.receive(&mut message).unwrap_err();
            got
        });
        for number in 3008..3020 {
            queue.send(&text(number)).unwrap();
        }
        let mut message = Vec::new();
        queue.receive(&mut message).unwrap();
        assert_eq!(message, b"end");
        drop(queue);
        let wanted: Vec<_> = (3000..3020).map(text).collect();
        assert!(its.join().unwrap() == wanted);
    }

    #[test]
    fn what_nobody_waits_for_gives_no_more_time() {
        let (one, mut other) = tcp();
        let patience = Duration::from_millis(300);
        let mut queue = Queue::new(one, settings(Credits::Crma), patience);
        let chatting = thread::spawn(move || {
            let mut frames = Vec::new();
            let payload = [&16u64.to_le_bytes()[..], &5000u64.to_le_bytes()].concat();
            frame::put(&mut frames, Kind::Open, 0, 16, &payload);
            // Credits that say what is known, byte by byte.
            while let Ok(wrote) = other.write(&frames[..1]) {
                frames.drain(..wrote.unwrap_or(0));
                if frames.is_empty() {
                    frame::put(&mut frames, Kind::Credit, 0, 16, &[]);
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        let start = Instant::now();
        let mut message = Vec::new();
        let received = queue.receive(&mut message).map(|()| 0);
        let sent = (0..17).map(|_| queue.send(b"text")).find_map(Result::err);
        assert!(matches!(received, Err(Lost::Silent(_))), "{received:?}");
        assert!(matches!(sent, Some(Lost::Silent(_))), "{sent:?}");
        assert!(start.elapsed() < NEVER / 2);
        drop(queue);
        chatting.join().unwrap();
    }

    #[test]
    fn last_words_come_whatever_the_other_end_says() {
        let (one, other) = tcp();
        let mut donor = Queue::new(one, settings(Credits::Crma), NEVER).lends();
        let mut queue = Queue::new(other, settings(Credits::Crma), NEVER);
        let saying = thread::spawn(move || {
            for number in 1..9 {
                queue.send(&text(number)).unwrap();
            }
            let mut message = Vec::new();
            queue.receive(&mut message).map(|()| message)
        });
        donor.last_words(b"no", NEVER);
        drop(donor);
        assert_eq!(saying.join().unwrap().unwrap(), b"no");
    }

    #[test]
    fn messages_go_both_ways_over_every_transport() {
        for credits in [Credits::Message, Credits::Crma] {
            both(tcp, credits);
            both(shared, credits);
        }
    }
}
