//! A borrower's connection: what drives the channels over a transport.

use super::choice::Channel;
use crate::channel::borrow::{Borrow, Came};
use crate::channel::broken::Lost;
use crate::channel::frame::{HEAD_BYTES, PAYLOAD_BYTES_MAX, parse};
use crate::channel::transport::{Transport, Wait, flush};
use std::time::{Duration, Instant};

/// Bytes that are read at a time, with what has not come whole.
const INPUT_BYTES: usize = 4 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// Bytes that wait to be written before their makers have to.
const OUTPUT_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// How long a donor may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The connection.
#[derive(Debug)]
pub(super) struct Line {
    transport: Box<dyn Transport>,
    borrow: Borrow,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    /// How long was waited since the last answer came.
    waited: Duration,
    is_over: bool,
}

impl Line {
    pub(super) fn new(transport: Box<dyn Transport>) -> Self {
        Self {
            transport,
            borrow: Borrow::default(),
            input: vec![0; INPUT_BYTES],
            filled: 0,
            output: Vec::new(),
            written: 0,
            waited: Duration::ZERO,
            is_over: false,
        }
    }

    /// One more may be asked by a channel, and its bytes put.
    pub(super) fn has_room(&self, channel: Channel) -> bool {
        let has_room = match channel {
            Channel::Crma => self.borrow.crma.has_room(),
            Channel::Rdma => self.borrow.rdma.has_room(),
        };
        has_room && !self.is_full()
    }

    /// To ask, where there is room: what is asked, and where its bytes are put.
    pub(super) fn ask(&mut self) -> (&mut Borrow, &mut Vec<u8>) {
        (&mut self.borrow, &mut self.output)
    }

    /// Begins a transfer to the donor, for which there is room.
    pub(super) fn begin_write(&mut self, bytes: usize) -> u64 {
        self.borrow.rdma.write(bytes)
    }

    /// Puts a chunk of it; where the next begins.
    pub(super) fn put_chunk(&mut self, id: u64, address: u64, buffer: &[u8], at: usize) -> usize {
        let rdma = &self.borrow.rdma;
        rdma.put_chunk(&mut self.output, id, address, buffer, at)
    }

    /// Something has to be written before more is asked.
    pub(super) fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_BYTES
    }

    /// Something was asked that has not been answered.
    pub(super) fn is_waiting(&self) -> bool {
        self.borrow.is_waiting()
    }

    /// Does what can be done now, and waits if that is nothing.
    ///
    /// # Errors
    /// [`Lost`].
    pub(super) fn turn_or_wait(&mut self, take: &mut dyn FnMut(Came<'_>)) -> Result<(), Lost> {
        if self.turn(take)? {
            return Ok(());
        }
        let left = ANSWER_TIME.saturating_sub(self.waited);
        if left.is_zero() {
            self.is_over = true;
            return Err(Lost::Silent(ANSWER_TIME));
        }
        let room = !self.output.is_empty();
        let wait = Wait {
            bytes: true,
            room,
            credit: false,
        };
        let start = Instant::now();
        let ended = self.transport.wait(wait, left);
        self.waited += start.elapsed();
        ended
    }

    /// Writes what there is, and takes what came; whether there was anything.
    ///
    /// # Errors
    /// [`Lost`]: the connection is over.
    pub(super) fn turn(&mut self, take: &mut dyn FnMut(Came<'_>)) -> Result<bool, Lost> {
        if self.is_over {
            return Err(Lost::Closed);
        }
        let turned = self.try_turn(take);
        self.is_over = turned.is_err();
        turned
    }

    fn try_turn(&mut self, take: &mut dyn FnMut(Came<'_>)) -> Result<bool, Lost> {
        let transport = self.transport.as_mut();
        // Why the donor closed may have come before that is noticed here.
        let flushed = flush(transport, &mut self.output, &mut self.written);
        let read = transport.read(&mut self.input[self.filled..])?;
        self.filled += read.unwrap_or(0);
        let mut start = 0;
        while let Some((frame, used)) = parse(&self.input[start..self.filled])? {
            take(self.borrow.came(&frame)?);
            // Nothing else that a donor does is what it is waited for.
            self.waited = Duration::ZERO;
            start += used;
        }
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(flushed? || read.is_some())
    }
}
