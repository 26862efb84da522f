//! Messages to and from one neighbor, in their order, each once, whatever becomes of frames.
//!
//! ```text
//!   write --> open --> frames: 1 2 3 | 4 5 | 6      acknowledged frames go; those under way stay
//!                              acked  under way     until they are, and are sent again, all of
//!                                           ^       them, when the neighbor misses one or says
//!                                           |       nothing for too long (go-back-N)
//!                                    as many bytes as the neighbor's credit allows
//! ```
//!
//! What comes out of order is dropped: frames are rarely lost on a backbone. Memory is bounded by
//! who writes: [`Link::held`] says how much there is. Flushes of all items alone come without a
//! bound: of those one behind the other that are not under way yet, one of each node's is left.

use super::wire::{Flush, Message};
use rhythm_net::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A frame's messages are closed when they have so many bytes.
const FRAME: usize = 64 << 10;
/// Frames that a neighbor misses are sent again no sooner than so long after they were.
const AGAIN_MIN: Duration = Duration::from_millis(2);
/// Buffers that are kept to be used again.
const SPARE: usize = 8;

/// One direction each of messages with one neighbor.
#[derive(Debug)]
pub(super) struct Link {
    /// Frames that are not acknowledged; the first has the place `first`.
    frames: VecDeque<Vec<u8>>,
    first: u64,
    /// When each that was ever sent first was, and how many were sent again.
    first_sent: VecDeque<Time>,
    resent: u64,
    /// Of the frames, so many were sent, with so many bytes.
    sent: usize,
    sent_bytes: usize,
    /// Messages that will be the last frame's.
    open: Vec<u8>,
    /// The flushes at its end: whose each is, and where.
    flushes: Vec<(u8, usize)>,
    /// Bytes of all these.
    held: usize,
    /// What the neighbor allows to be under way.
    credit: usize,
    /// When the frames under way are sent again.
    again_at: Time,
    /// When they were last.
    sent_at: Time,
    /// Nothing is under way or to be sent; else when the neighbor last acknowledged something.
    is_idle: bool,
    moved_at: Time,
    /// Up to which place all has come from the neighbor.
    received: u64,
    /// It is to be told so.
    owes_ack: bool,
    /// Something came out of order.
    gap: bool,
    /// Batches, and the place of the last of each; one for each place.
    marks: VecDeque<(u64, u64)>,
    /// Bytes of a walk that are not all acknowledged, and the place of the last.
    walked: usize,
    walked_until: u64,
    spare: Vec<Vec<u8>>,
}

impl Link {
    pub(super) fn new(now: Time) -> Link {
        Link {
            frames: VecDeque::new(),
            first: 1,
            first_sent: VecDeque::new(),
            resent: 0,
            sent: 0,
            sent_bytes: 0,
            open: Vec::new(),
            flushes: Vec::new(),
            held: 0,
            credit: 0,
            again_at: Time::NEVER,
            sent_at: Time::ZERO,
            is_idle: true,
            moved_at: now,
            received: 0,
            owes_ack: false,
            gap: false,
            marks: VecDeque::new(),
            walked: 0,
            walked_until: 0,
            spare: Vec::new(),
        }
    }

    /// Bytes that are not acknowledged.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How long the oldest frame that is not acknowledged is under way.
    pub(super) fn lag(&self, now: Time) -> Duration {
        let oldest = self.first_sent.front();
        oldest.map_or(Duration::ZERO, |since| now.since(*since))
    }

    /// Frames that were sent again.
    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    /// Since when frames are under way of which none is acknowledged; none: nothing is.
    pub(super) fn stuck_since(&self) -> Option<Time> {
        (self.sent > 0).then_some(self.moved_at)
    }

    /// Up to which place all has come.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether something came out of order since this was last asked.
    pub(super) fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.gap)
    }

    /// Appends a message.
    pub(super) fn write(&mut self, message: impl FnOnce(&mut Vec<u8>)) {
        self.flushes.clear();
        let before = self.open.len();
        message(&mut self.open);
        self.held += self.open.len() - before;
        if self.open.len() >= FRAME {
            self.close();
        }
    }

    /// Appends a flush, or has it take the place of an earlier one of the same node's.
    pub(super) fn write_flush(&mut self, flush: Flush) {
        let mut flushes = std::mem::take(&mut self.flushes);
        let before = flushes.iter().find(|(by, _)| *by == flush.by);
        if let Some((_, at)) = before {
            let mut text = Vec::new();
            Message::Flush(flush).write(&mut text);
            self.open[*at..at + text.len()].copy_from_slice(&text);
        } else {
            flushes.push((flush.by, self.open.len()));
            self.write(|out| Message::Flush(flush).write(out));
        }
        if !self.open.is_empty() {
            self.flushes = flushes;
        }
    }

    /// Of the messages so far, these bytes were of a walk.
    pub(super) fn walked(&mut self, bytes: usize) {
        self.walked += bytes;
        self.walked_until = self.last_place();
    }

    /// Bytes of a walk that are not all acknowledged.
    pub(super) fn held_of_walk(&self) -> usize {
        self.walked
    }

    /// The place of the frame that the next message will be in.
    pub(super) fn next_place(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    /// The place of the frame that the last message is in.
    fn last_place(&self) -> u64 {
        self.next_place() - u64::from(self.open.is_empty())
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.flushes.clear();
            let next = self.spare.pop().unwrap_or_default();
            self.frames
                .push_back(std::mem::replace(&mut self.open, next));
        }
    }

    /// All that was written so far belongs to this batch or an earlier one.
    pub(super) fn mark(&mut self, batch: u64) {
        let place = self.last_place();
        if place >= self.first && self.marks.back().is_none_or(|(_, last)| *last < place) {
            self.marks.push_back((batch, place));
        }
    }

    /// The last batch that the neighbor has; none: it has all.
    pub(super) fn confirmed(&self) -> Option<u64> {
        self.marks.front().map(|(batch, _)| batch - 1)
    }

    /// The neighbor has all up to this place, and allows so many bytes under way.
    pub(super) fn acknowledged(&mut self, ack: u64, credit: u32, gap: bool, now: Time) {
        self.credit = credit as usize;
        while self.sent > 0 && self.first <= ack {
            let Some(mut frame) = self.frames.pop_front() else {
                break;
            };
            self.first += 1;
            self.first_sent.pop_front();
            self.sent -= 1;
            self.sent_bytes -= frame.len();
            self.held -= frame.len();
            self.moved_at = now;
            if self.spare.len() < SPARE && frame.capacity() <= 2 * FRAME {
                frame.clear();
                self.spare.push(frame);
            }
        }
        self.is_idle = self.frames.is_empty();
        if self.first > self.walked_until {
            self.walked = 0;
        }
        while self.marks.front().is_some_and(|(_, place)| *place <= ack) {
            self.marks.pop_front();
        }
        if gap && now.since(self.sent_at) >= AGAIN_MIN {
            self.send_again();
        }
    }

    /// The neighbor gets something of what is under way, though no whole frame yet: it is neither
    /// lost nor stuck.
    pub(super) fn takes(&mut self, again: Duration, now: Time) {
        if self.sent > 0 {
            (self.moved_at, self.again_at) = (now, now + again);
        }
    }

    /// What was sent until now may be lost: what is under way is sent again at once.
    pub(super) fn may_have_lost(&mut self, now: Time) {
        if self.sent > 0 {
            self.again_at = now;
        }
    }

    fn send_again(&mut self) {
        (self.sent, self.sent_bytes) = (0, 0);
    }

    /// Messages came that have this place. Whether they are next.
    pub(super) fn accept(&mut self, seq: u64) -> bool {
        self.owes_ack = true;
        let is_next = seq == self.received + 1;
        self.gap |= seq > self.received + 1;
        self.received += u64::from(is_next);
        is_next
    }

    /// Has `send` send what may be sent now, each with its place; or nothing (place 0) where the
    /// neighbor is to be told what has come.
    pub(super) fn flush(&mut self, again: Duration, now: Time, mut send: impl FnMut(u64, &[u8])) {
        if self.frames.is_empty() {
            self.close();
        }
        if self.sent > 0 && self.again_at <= now {
            self.send_again();
        }
        if self.is_idle && !self.frames.is_empty() {
            (self.is_idle, self.moved_at) = (false, now);
        }
        loop {
            // What waits for others to be acknowledged goes together.
            if self.sent == self.frames.len() {
                self.close();
            }
            let Some(frame) = self.frames.get(self.sent) else {
                break;
            };
            // One may be longer than the credit.
            if self.sent > 0 && self.sent_bytes + frame.len() > self.credit {
                break;
            }
            send(self.first + self.sent as u64, frame);
            match self.sent < self.first_sent.len() {
                true => self.resent += 1,
                false => self.first_sent.push_back(now),
            }
            self.sent += 1;
            self.sent_bytes += frame.len();
            self.sent_at = now;
            self.again_at = now + again;
            self.owes_ack = false;
        }
        if self.sent == 0 {
            self.again_at = Time::NEVER;
        }
        if std::mem::take(&mut self.owes_ack) {
            send(0, &[]);
        }
    }

    /// When frames are to be sent again.
    pub(super) fn wake_at(&self) -> Time {
        self.again_at
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Messages;
    use super::*;

    fn flush(by: u8, number: u32) -> Flush {
        Flush {
            by,
            life: 1,
            number,
        }
    }

    /// Has it send what it may.
    fn sent(link: &mut Link) -> Vec<u8> {
        let mut sent = Vec::new();
        link.flush(Duration::from_secs(1), Time::ZERO, |_, messages| {
            sent.extend_from_slice(messages);
        });
        sent
    }

    #[test]
    fn of_flushes_that_wait_one_of_each_is_left_and_what_is_between_stays_between() {
        let mut link = Link::new(Time::ZERO);
        link.write_flush(flush(0, 1));
        link.mark(1);
        assert!(!sent(&mut link).is_empty());
        // The first is under way, and takes all that may be.
        for number in 2..1000 {
            link.write_flush(flush(0, number));
            link.mark(number.into());
            link.write_flush(flush(1, number));
            assert!(sent(&mut link).is_empty());
        }
        link.write(|out| Message::Refused(1).write(out));
        link.write_flush(flush(0, 1000));
        link.mark(1000);
        assert!(link.held() < 200, "{}", link.held());
        assert!(link.marks.len() < 4);
        assert_eq!(link.confirmed(), Some(0));
        link.acknowledged(1, 1 << 20, false, Time::ZERO);
        assert_eq!(link.confirmed(), Some(1));
        let all = sent(&mut link);
        let said: Vec<_> = Messages::new(&all).collect();
        // A frame was made up when it was the next to be sent.
        let first = [flush(0, 2), flush(1, 2)].map(Message::Flush);
        let rest = [flush(0, 999), flush(1, 999)].map(Message::Flush);
        let behind = [Message::Refused(1), Message::Flush(flush(0, 1000))];
        assert_eq!(said, [first, rest, behind].concat());
        link.acknowledged(u64::MAX, 1 << 20, false, Time::ZERO);
        assert_eq!(link.confirmed(), None);
    }

    #[test]
    fn what_was_under_way_on_a_way_that_is_gone_is_sent_again_at_once() {
        let mut link = Link::new(Time::ZERO);
        link.write(|out| Message::Refused(1).write(out));
        let first = sent(&mut link);
        assert!(sent(&mut link).is_empty());
        link.may_have_lost(Time::ZERO);
        assert_eq!(link.wake_at(), Time::ZERO);
        assert_eq!(sent(&mut link), first);
        assert!(sent(&mut link).is_empty());
        // Where nothing is under way, nothing is to be done.
        link.acknowledged(1, 1 << 20, false, Time::ZERO);
        link.may_have_lost(Time::ZERO);
        assert!(sent(&mut link).is_empty());
        assert_eq!(link.wake_at(), Time::NEVER);
    }

    /// However much else there is for a node, a walk has its share of what it takes.
    #[test]
    fn what_a_walk_sent_is_gone_when_the_neighbor_has_it() {
        let mut link = Link::new(Time::ZERO);
        let write = |link: &mut Link| link.write(|out| out.extend_from_slice(&[0; FRAME]));
        write(&mut link);
        link.walked(FRAME);
        write(&mut link);
        assert_eq!(link.held_of_walk(), FRAME);
        sent(&mut link);
        write(&mut link);
        link.acknowledged(1, 1 << 20, false, Time::ZERO);
        assert_eq!((link.held_of_walk(), link.held()), (0, 2 * FRAME));
    }
}
