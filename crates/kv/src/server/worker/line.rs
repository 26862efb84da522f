//! Connections whose input waits for its turn: for that of others to be over, or for room that
//! there is again.
//!
//! Who takes little of a turn does not wait behind those who take much, and who waits does not wait
//! twice behind the same others: all go to the end of their line, and are taken from its front.

use super::super::client::Client;
use super::work;
use rhythm_net::ConnectionId;
use std::collections::VecDeque;

/// See the head of this file. Each is in it once.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Those that take little, by their numbers.
    light: VecDeque<(u64, ConnectionId)>,
    /// And those that take much.
    heavy: VecDeque<(u64, ConnectionId)>,
    /// The number of who comes next.
    number: u64,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    /// The number of who comes next: whoever is in line now has a lower one.
    pub(super) fn end(&self) -> u64 {
        self.number
    }

    /// Whether some wait who are before a connection that came just now.
    pub(super) fn is_before(&self, client: &Client) -> bool {
        match work::is_light(client.took) {
            true => !self.light.is_empty(),
            false => !self.is_empty(),
        }
    }

    /// Puts a connection behind the others, if it is not in line already.
    pub(super) fn push(&mut self, id: ConnectionId, client: &mut Client) {
        if !std::mem::replace(&mut client.is_in_line, true) {
            client.number = self.number;
            self.number += 1;
            self.of(client).push_back((client.number, id));
        }
    }

    /// Puts a connection back that had come to the front, and for which there was no room.
    pub(super) fn put_back(&mut self, id: ConnectionId, client: &mut Client) {
        if !std::mem::replace(&mut client.is_in_line, true) {
            self.of(client).push_front((client.number, id));
        }
    }

    fn of(&mut self, client: &Client) -> &mut VecDeque<(u64, ConnectionId)> {
        match work::is_light(client.took) {
            true => &mut self.light,
            false => &mut self.heavy,
        }
    }

    /// Takes who has waited for longest, of those before `end`.
    pub(super) fn first(&mut self, end: u64) -> Option<ConnectionId> {
        let number = |line: &VecDeque<(u64, ConnectionId)>| line.front().map(|(number, _)| *number);
        let light = number(&self.light).unwrap_or(u64::MAX);
        let heavy = number(&self.heavy).unwrap_or(u64::MAX);
        match light < heavy {
            true => front(&mut self.light, end),
            false => front(&mut self.heavy, end),
        }
    }

    /// Takes the next for whom there is room, which is asked for those who take little, first, and
    /// for those who take much.
    pub(super) fn next(
        &mut self,
        end: u64,
        has_room: impl Fn(bool) -> bool,
    ) -> Option<ConnectionId> {
        let light = has_room(true)
            .then(|| front(&mut self.light, end))
            .flatten();
        light.or_else(|| {
            has_room(false)
                .then(|| front(&mut self.heavy, end))
                .flatten()
        })
    }
}

/// Takes the first of a line, if it came before `end`.
fn front(line: &mut VecDeque<(u64, ConnectionId)>, end: u64) -> Option<ConnectionId> {
    let (number, id) = *line.front()?;
    if number >= end {
        return None;
    }
    line.pop_front();
    Some(id)
}
