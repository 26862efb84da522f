//! Datagrams for which a turn had no room: they wait for the next ones, and what comes behind them
//! for these in the system's queue, which is bounded. So there is never more than one batch of
//! each socket.

use crate::cohort::Source;
use rhythm_net::{DatagramId, Port};
use std::collections::VecDeque;

/// Those that go on together: less than a turn has room for, as a rule, for who is left is copied
/// back.
pub(super) const TOGETHER: usize = 16;

/// A datagram's commands, and who sent them.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) source: Source,
    pub(super) bytes: Vec<u8>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Left>,
    /// The sockets from which nothing is taken meanwhile.
    paused: Vec<DatagramId>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a datagram in, behind the others.
    pub(super) fn push(&mut self, port: &mut dyn Port, socket: DatagramId, left: Left) {
        self.pause(port, socket);
        self.waiting.push_back(left);
    }

    /// Takes those back, in their order, that had come to the front.
    pub(super) fn put_back(&mut self, left: Vec<Left>) {
        left.into_iter()
            .rev()
            .for_each(|left| self.waiting.push_front(left));
    }

    fn pause(&mut self, port: &mut dyn Port, socket: DatagramId) {
        if !self.paused.contains(&socket) {
            port.pause_datagrams(socket);
            self.paused.push(socket);
        }
    }

    /// Takes the next one.
    pub(super) fn next(&mut self) -> Option<Left> {
        self.waiting.pop_front()
    }

    /// Has what came meanwhile be told of again, where nothing waits any more.
    pub(super) fn resume_if_empty(&mut self, port: &mut dyn Port) {
        if self.waiting.is_empty() {
            for socket in self.paused.drain(..) {
                port.resume_datagrams(socket);
            }
        }
    }
}
