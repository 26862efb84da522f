//! A machine with a device, at the far end of the server's own connections.
//!
//! What travels is not a cohort yet, only the key of a work and a number of bytes in its place; the
//! answer is the same. It answers what came together in any order, in pieces, late, not at all, or
//! with a reset or an end in the midst of it.

use crate::world::{ActorId, FarEvent, LinkId, World};
use rhythm_engine::device::conformance::Dice;
use std::collections::{BTreeMap, VecDeque};

/// How it behaves. Chances mean one work in so many; 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceServerFaults {
    /// Most that a stage takes, nanoseconds.
    pub(crate) delay_max: u64,
    /// Are not answered, nor is anything after them.
    pub(crate) silent: usize,
    /// Get a reset in the midst of their answer.
    pub(crate) reset: usize,
    /// Get the end of the connection in the midst of their answer.
    pub(crate) finish: usize,
}

impl DeviceServerFaults {
    /// Whether a work may be lost.
    pub(crate) fn can_fail(&self) -> bool {
        (self.silent | self.reset | self.finish) != 0
    }
}

/// Bytes of a message before those that stand for a cohort: key, length.
const HEAD_BYTES: usize = 12;

/// Appends a message.
pub(crate) fn put_message(out: &mut Vec<u8>, key: u64, length: u32) {
    out.extend_from_slice(&key.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.resize(out.len() + length as usize, key as u8);
}

/// Takes a message that has come whole, and gives its key.
///
/// # Errors
/// The bytes are not those that were put.
pub(crate) fn take_message(input: &mut Vec<u8>) -> Result<Option<u64>, ()> {
    let Some((key, rest)) = input.split_first_chunk() else {
        return Ok(None);
    };
    let Some((length, rest)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let key = u64::from_le_bytes(*key);
    let Some(filling) = rest.get(..u32::from_le_bytes(*length) as usize) else {
        return Ok(None);
    };
    if filling.iter().any(|byte| *byte != key as u8) {
        return Err(());
    }
    let end = HEAD_BYTES + filling.len();
    input.drain(..end);
    Ok(Some(key))
}

/// What is done to a connection.
#[derive(Debug)]
enum Act {
    Send(Vec<u8>),
    Finish,
    Reset,
}

#[derive(Debug, Default)]
struct Connection {
    input: Vec<u8>,
    acts: VecDeque<(u64, Act)>,
    /// It answers nothing more.
    over: bool,
}

/// See the module's text.
pub(crate) struct DeviceServer {
    id: ActorId,
    faults: DeviceServerFaults,
    dice: Dice,
    connections: BTreeMap<LinkId, Connection>,
}

impl DeviceServer {
    pub(crate) fn new(id: ActorId, faults: DeviceServerFaults, dice: Dice) -> DeviceServer {
        DeviceServer {
            id,
            faults,
            dice,
            connections: BTreeMap::new(),
        }
    }

    /// Something happened.
    pub(crate) fn tell(&mut self, event: FarEvent, world: &mut World) {
        match event {
            FarEvent::Connected(link) => {
                self.connections.insert(link, Connection::default());
            }
            FarEvent::Received(link) => self.received(link, world),
            FarEvent::Finished(link) | FarEvent::Reset(link, _) | FarEvent::Refused(link) => {
                self.connections.remove(&link);
            }
            FarEvent::Wake(link) => self.act(link as usize, world),
        }
    }

    fn received(&mut self, link: LinkId, world: &mut World) {
        let Some(mut connection) = self.connections.remove(&link) else {
            return;
        };
        world.take(link, &mut connection.input);
        let mut keys = Vec::new();
        loop {
            match take_message(&mut connection.input) {
                Ok(Some(key)) => keys.push(key),
                Ok(None) => break,
                Err(()) => return world.fail("the device got a message that nobody sent"),
            }
        }
        while !keys.is_empty() && !connection.over {
            let key = keys.swap_remove(self.dice.below(keys.len()));
            let last = connection.acts.back().map_or(0, |(due, _)| *due);
            let start = last.max(world.now);
            for (after, act) in self.answer(key, &mut connection.over) {
                connection.acts.push_back((start + after, act));
                world.wake(self.id, start + after - world.now, link as u32);
            }
        }
        self.connections.insert(link, connection);
    }

    fn chance(&mut self, times: usize) -> bool {
        times != 0 && self.dice.once_in(times)
    }

    /// How a work is answered, and after what time each.
    fn answer(&mut self, key: u64, over: &mut bool) -> Vec<(u64, Act)> {
        let faults = self.faults;
        let after = 1 + self.dice.below(faults.delay_max as usize + 1) as u64;
        let later = after + self.dice.below(faults.delay_max as usize + 1) as u64;
        let mut message = Vec::new();
        put_message(&mut message, key, self.dice.below(600) as u32);
        let rest = message.split_off(1 + self.dice.below(message.len() - 1));
        let end = if self.chance(faults.silent) {
            *over = true;
            return Vec::new();
        } else if self.chance(faults.reset) {
            Act::Reset
        } else if self.chance(faults.finish) {
            Act::Finish
        } else {
            return vec![(after, Act::Send(message)), (later, Act::Send(rest))];
        };
        *over = true;
        vec![(after, Act::Send(message)), (later, end)]
    }

    /// Does what is due.
    fn act(&mut self, link: LinkId, world: &mut World) {
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        let now = world.now;
        let is_due = |(due, _): &(u64, Act)| *due <= now;
        while connection.acts.front().is_some_and(is_due)
            && let Some((_, act)) = connection.acts.pop_front()
        {
            match act {
                Act::Send(bytes) => world.send_from(link, &bytes),
                Act::Finish => world.finish_from(link),
                Act::Reset => {
                    world.reset_from(link);
                    self.connections.remove(&link);
                    return;
                }
            }
        }
    }
}
