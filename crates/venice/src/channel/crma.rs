//! CRMA at the borrower's end (the paper's section 5.1.2), without I/O: reads, writes and
//! compare-and-swap of a page at most, to the byte. Each is one frame and one answer, in order, and
//! a bounded number of them are under way at a time. The paper's hardware makes them of loads and
//! stores, a cache line each; here a program asks.

use super::broken::Broken;
use super::frame::{self, Frame, Kind, u64_at};
use std::collections::VecDeque;

/// Operations under way, at most.
pub(crate) const OPERATIONS_MAX: usize = 64;

/// What came for an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// The bytes that were read.
    Data(&'a [u8]),
    /// It is written, or freed.
    Done,
    /// What was there before a compare-and-swap.
    Swapped(u64),
    /// The window that was asked for: its address, and bytes.
    Mapped(u64, u64),
}

/// Operations that were asked, in their order.
#[derive(Debug, Default)]
pub(crate) struct Crma {
    asked: VecDeque<(u64, Kind, u32)>,
    next: u64,
}

impl Crma {
    /// One more operation may be asked.
    pub(crate) fn has_room(&self) -> bool {
        self.asked.len() < OPERATIONS_MAX
    }

    /// Operations without an answer.
    pub(crate) fn under_way(&self) -> usize {
        self.asked.len()
    }

    fn ask(&mut self, answer: Kind, bytes: u32) -> u64 {
        debug_assert!(self.has_room());
        let id = self.next;
        self.next += 1;
        self.asked.push_back((id, answer, bytes));
        id
    }

    /// Asks for a window; `payload` names the loan.
    pub(crate) fn map(&mut self, out: &mut Vec<u8>, payload: &[u8]) -> u64 {
        let id = self.ask(Kind::Mapped, 8);
        frame::put(out, Kind::Map, id, 0, payload);
        id
    }

    /// Reads a page at most.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, address: u64, bytes: u32) -> u64 {
        let id = self.ask(Kind::Data, bytes);
        frame::put_want(out, Kind::Read, id, address, bytes);
        id
    }

    /// Writes a page at most.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, address: u64, bytes: &[u8]) -> u64 {
        let id = self.ask(Kind::Done, 0);
        frame::put(out, Kind::Write, id, address, bytes);
        id
    }

    /// Replaces a number by another, if it is the one expected.
    pub(crate) fn compare_and_swap(
        &mut self,
        out: &mut Vec<u8>,
        address: u64,
        expected: u64,
        new: u64,
    ) -> u64 {
        let id = self.ask(Kind::Swapped, 8);
        let mut payload = [0; 16];
        payload[..8].copy_from_slice(&expected.to_le_bytes());
        payload[8..].copy_from_slice(&new.to_le_bytes());
        frame::put(out, Kind::CompareAndSwap, id, address, &payload);
        id
    }

    /// Has pages read as zeros from now on.
    pub(crate) fn free(&mut self, out: &mut Vec<u8>, address: u64, bytes: u64) -> u64 {
        let id = self.ask(Kind::Done, 0);
        frame::put(out, Kind::Free, id, address, &bytes.to_le_bytes());
        id
    }

    /// Takes an answer, with the id of what was asked.
    ///
    /// # Errors
    /// [`Broken::Unasked`]: it is not the one that is due.
    pub(crate) fn answer<'a>(&mut self, frame: &Frame<'a>) -> Result<(u64, Answer<'a>), Broken> {
        let due = self.asked.pop_front();
        let (id, kind, bytes) = due.ok_or(Broken::Unasked)?;
        let fits = kind != Kind::Data || frame.payload.len() == bytes as usize;
        if frame.id != id || frame.kind != kind || !fits {
            return Err(Broken::Unasked);
        }
        let answer = match kind {
            Kind::Data => Answer::Data(frame.payload),
            Kind::Swapped => Answer::Swapped(u64_at(frame.payload, 0)),
            Kind::Mapped => Answer::Mapped(frame.address, u64_at(frame.payload, 0)),
            _ => Answer::Done,
        };
        Ok((id, answer))
    }
}
