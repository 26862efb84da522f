//! One connection: what it sent that is no whole command yet, and what it has not taken.

use super::held::Held;
use crate::cohort::PART_COMMANDS;
use crate::input::Input;
use crate::shared::Place;
use crate::wire::Stream;
use memchr::memchr;
use rhythm_net::{Outgoing, Time};

/// A client's connection. An idle one holds no buffer.
#[derive(Debug)]
pub(super) struct Client {
    /// It counts as connected as long as it is there.
    _place: Place,
    /// What it is in the middle of.
    pub(super) stream: Stream,
    /// Bytes that are no whole command yet, or that wait for room.
    pub(super) input: Input,
    /// So many bytes of input make it worth looking at it again.
    pub(super) needed: usize,
    /// Or a line's end, which is not in what there is.
    pub(super) or_line: bool,
    pub(super) out: Outgoing,
    /// Answers that may not be sent yet.
    pub(super) held: Held,
    /// It has a part in the cohort.
    pub(super) in_cohort: bool,
    /// Its input waits until its answers are taken, and no more is read.
    pub(super) is_stalled: bool,
    /// Its input waits until the ring takes commands of a range again.
    pub(super) waits_for_room: bool,
    /// It is among those whose input goes on when it is their turn.
    pub(super) is_in_line: bool,
    /// Its number there.
    pub(super) number: u64,
    /// What its commands cost when some were last executed, in bytes.
    pub(super) took: usize,
    /// As many of its commands are parsed next at most: where some were left, not many more than
    /// were executed, since what is left is parsed again.
    pub(super) commands_max: usize,
    /// It is closed when its answers are taken.
    pub(super) is_closing: bool,
    /// It will send nothing more.
    pub(super) has_finished: bool,
    /// When bytes last came from it, or were taken by it.
    pub(super) moved: Time,
    /// What of the thread's sum is its.
    pub(super) counted: usize,
}

impl Client {
    pub(super) fn new(place: Place, stream: Stream, now: Time) -> Client {
        Client {
            _place: place,
            stream,
            input: Input::default(),
            needed: 0,
            or_line: false,
            out: Outgoing::new(),
            held: Held::default(),
            in_cohort: false,
            is_stalled: false,
            waits_for_room: false,
            is_in_line: false,
            number: 0,
            took: 0,
            commands_max: PART_COMMANDS,
            is_closing: false,
            has_finished: false,
            moved: now,
            counted: 0,
        }
    }

    /// Bytes it holds.
    pub(super) fn holds(&self) -> usize {
        self.input.capacity() + self.unsent()
    }

    /// Bytes of answers that it has not taken, or that may not be sent yet.
    pub(super) fn unsent(&self) -> usize {
        self.out.unsent() + self.held.bytes()
    }

    /// Whether it has all answers.
    pub(super) fn owes_nothing(&self) -> bool {
        self.out.is_empty() && self.held.is_empty()
    }

    /// Whether with these bytes behind it the input is worth looking at again.
    pub(super) fn is_enough(&self, bytes: &[u8]) -> bool {
        self.input.len() + bytes.len() >= self.needed
            || self.or_line && memchr(b'\n', bytes).is_some()
    }

    /// Adds to the input, where there is memory for it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> bool {
        self.input.append(bytes, self.needed)
    }
}
