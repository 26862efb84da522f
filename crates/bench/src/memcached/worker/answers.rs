//! What a worker does with the answers that arrive.

use super::super::answers;
use super::super::client::{Asked, FRAME, judge};
use super::super::options::Words;
use super::super::piece::Piece;
use super::super::versions::GONE;
use super::{FILL_LOST_MAX, Task, Worker};
use rhythm_net::Port;
use rhythm_net::clock::monotonic;
use std::sync::atomic::Ordering;

/// What a piece of an answer means for its request.
enum Next {
    /// More is to come.
    More,
    /// It is answered.
    Done,
    /// Nothing that follows can be trusted.
    Broken(String),
}

impl Worker {
    /// Takes the answers out of what arrived on a connection.
    pub(super) fn take_in(&mut self, port: &mut dyn Port, index: usize, bytes: &[u8]) {
        let mut input = std::mem::take(&mut self.clients[index].input);
        let is_whole = input.is_empty();
        if !is_whole {
            input.extend_from_slice(bytes);
        }
        let data = if is_whole { bytes } else { &input };
        let mut at = 0;
        let mut fault = None;
        while at < data.len() && fault.is_none() {
            let Some(mut asked) = self.clients[index].pending.pop_front() else {
                fault = Some("an answer that nobody asked for".to_owned());
                break;
            };
            let (taken, next) = self.pieces(&mut asked, &data[at..]);
            at += taken;
            match next {
                Next::Done => self.done(asked),
                Next::More => {
                    self.clients[index].pending.push_front(asked);
                    break;
                }
                Next::Broken(reason) => {
                    self.clients[index].pending.push_front(asked);
                    fault = Some(reason);
                }
            }
        }
        if let Some(fault) = fault {
            return self.give_up(port, index, &fault);
        }
        if is_whole {
            input.extend_from_slice(&bytes[at..]);
        } else {
            input.drain(..at);
        }
        self.clients[index].input = input;
        self.refill(port, index, monotonic());
    }

    /// Takes a part of an answer out of a datagram.
    pub(super) fn take_in_datagram(&mut self, index: usize, datagram: &[u8]) {
        let Some((frame, bytes)) = datagram.split_first_chunk::<FRAME>() else {
            return self.error("a datagram without a frame");
        };
        let field = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let (id, part, parts) = (field(0), field(2), field(4));
        let pending = &mut self.clients[index].pending;
        let Some(position) = pending.iter().position(|asked| asked.id == id) else {
            // Given up before, or sent twice by the network.
            return self.counts.late();
        };
        let asked = &mut pending[position];
        // Each answer to a request of several has parts of its own, counted from 0.
        let (next, of) = asked.part;
        let is_next = match next == of {
            true => part == 0,
            false => (part, parts) == (next, of),
        };
        if !is_next {
            return self.lose(index, position);
        }
        asked.part = (part + u16::from(parts > 0), parts);
        asked.input.extend_from_slice(bytes);
        let Some(mut asked) = pending.remove(position) else {
            return;
        };
        let input = std::mem::take(&mut asked.input);
        let (taken, next) = self.pieces(&mut asked, &input);
        asked.input = input;
        asked.input.drain(..taken);
        match next {
            Next::Done => self.done(asked),
            Next::More => self.clients[index].pending.insert(position, asked),
            Next::Broken(reason) => {
                self.error(&reason);
                self.under_way -= 1;
                self.spare.push(asked);
            }
        }
    }

    /// A request by datagram whose answer is lost, as a whole or in part, or was never sent.
    pub(super) fn lose(&mut self, index: usize, position: usize) {
        if let Some(asked) = self.clients[index].pending.remove(position) {
            self.under_way -= 1;
            // A write may yet come about: its key is left as it is.
            self.counts.lost();
            self.spare.push(asked);
            self.lost_in_row += 1;
            let is_fill = matches!(self.setup.task, Task::Fill) && !self.fill.is_empty();
            // A moment in which nothing comes loses what all connections have under way.
            let most = FILL_LOST_MAX.max(16 * self.clients.len() as u64);
            if is_fill && self.lost_in_row >= most {
                self.error("no datagram is answered: the keys are not stored");
                self.fill = 0..0;
            }
        }
    }

    /// Takes pieces of the answer to a request; returns the bytes they had, too.
    fn pieces(&mut self, asked: &mut Asked, bytes: &[u8]) -> (usize, Next) {
        let (words, largest) = (self.setup.options.words, self.setup.items.largest());
        let keys = if asked.is_write { 0 } else { asked.keys.len() };
        let mut at = 0;
        loop {
            match answers::next(words, keys, largest, &bytes[at..]) {
                Ok(None) => return (at, Next::More),
                Err(reason) => return (at, Next::Broken(reason)),
                Ok(Some((piece, length))) => {
                    at += length;
                    match self.piece(asked, &piece) {
                        Next::More => {}
                        next => return (at, next),
                    }
                }
            }
        }
    }

    fn piece(&mut self, asked: &mut Asked, piece: &Piece<'_>) -> Next {
        let (options, versions) = (&self.setup.options, &self.setup.versions);
        match *piece {
            Piece::Value { key, value } => {
                let items = &self.setup.items;
                if let Err(wrong) = judge(asked, key, value, items, versions, options.validate) {
                    self.counts.wrong(wrong, key);
                }
                match options.words {
                    Words::Meta | Words::Binary if asked.keys.len() == 1 => Next::Done,
                    _ => Next::More,
                }
            }
            Piece::End => Next::Done,
            Piece::Stored => {
                versions.settle(asked.keys[0].0, true);
                Next::Done
            }
            Piece::Refused { line, goes_on } => {
                let reason = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                if !goes_on {
                    return Next::Broken(reason);
                }
                // Of a ring's node that is gone nobody knows whether it was written.
                if asked.is_write && self.nodes == 1 {
                    versions.settle(asked.keys[0].0, false);
                }
                // Of several keys by these words each has an answer of its own, and an end follows.
                let has_end = match options.words {
                    Words::Meta | Words::Binary => !asked.is_write && asked.keys.len() > 1,
                    Words::Ascii => false,
                };
                asked.is_refused = true;
                self.error(&reason);
                if has_end { Next::More } else { Next::Done }
            }
        }
    }

    /// A request is answered: counts it.
    fn done(&mut self, mut asked: Asked) {
        if self.setup.options.keeps && !asked.is_write && !asked.is_refused {
            asked.pass_over(asked.keys.len() - asked.answered);
            for key in &asked.gone {
                self.key.clear();
                self.setup.items.write_key(*key, &mut self.key);
                self.counts.wrong(GONE, &self.key);
            }
        }
        self.under_way -= 1;
        self.lost_in_row = 0;
        self.live.fetch_add(1, Ordering::Relaxed);
        let is_fill = matches!(self.setup.task, Task::Fill);
        if self.is_measuring(asked.started) && !asked.is_refused && !is_fill {
            let took = monotonic().since(asked.started);
            match asked.is_write {
                true => self.counts.written(took),
                false => self.counts.read(asked.keys.len(), asked.hits, took),
            }
        }
        self.spare.push(asked);
    }
}
