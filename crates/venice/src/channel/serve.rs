//! The donor's end of CRMA and RDMA on one connection, without I/O: windows on loans, found by the
//! RAMT, read and written as the borrower asks. All is executed and answered as it comes, but for
//! what transfers read: that is put a chunk at a time, in their order, while there is room, so that
//! a long one keeps nobody else waiting and no more than a chunk of it is in memory. It has what
//! was written before it was asked for, and may have what was written since.

use super::broken::Broken;
use super::frame::{
    self, BULK_REQUESTS_MAX, Frame, HEAD_BYTES, Kind, MAP_BYTES, PAYLOAD_BYTES_MAX, u64_at,
};
use super::ramt::Ramt;
use crate::loan::{LoanId, LoanKey};
use std::collections::VecDeque;

/// Where the first window is; what is far below is no address, so that a zero never is one.
const FIRST_WINDOW: u64 = 1 << 32;
/// Windows begin at multiples of this, with as much at least between them.
const WINDOW_UNIT: u64 = 1 << 30;

/// What a borrower shows to have a window on a loan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Map {
    /// Which; 0 for a share of what the donor offers to all who have its key.
    pub(crate) loan: LoanId,
    /// Its secret.
    pub(crate) key: LoanKey,
    /// The same random number for all connections of one borrower.
    pub(crate) session: u64,
    /// Bytes wanted.
    pub(crate) bytes: u64,
}

impl Map {
    /// As the payload of a frame.
    pub(crate) fn payload(&self) -> [u8; MAP_BYTES] {
        let mut payload = [0; MAP_BYTES];
        let numbers = [self.loan.0, self.session, self.bytes];
        for (number, to) in numbers.iter().zip(payload.chunks_exact_mut(8)) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        payload[24..].copy_from_slice(&self.key.0);
        payload
    }

    fn parse(payload: &[u8]) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(&payload[24..]);
        Self {
            loan: LoanId(u64_at(payload, 0)),
            session: u64_at(payload, 8),
            bytes: u64_at(payload, 16),
            key: LoanKey(key),
        }
    }
}

/// Memory that is lent.
pub(crate) trait Memory {
    /// Bytes; none where they are not all within.
    fn get(&self, offset: u64, length: usize) -> Option<&[u8]>;
    /// Puts bytes; false where they would not all be within.
    fn put(&mut self, offset: u64, bytes: &[u8]) -> bool;
    /// Has whole pages read as zeros; false where they are not all within, or not whole.
    fn free(&mut self, offset: u64, length: u64) -> bool;
}

/// What is done to a memory; false where it cannot be.
pub(crate) type Act<'a> = &'a mut dyn FnMut(&mut dyn Memory) -> bool;

/// Loans, as one connection knows them.
pub(crate) trait Loans {
    /// Lets the borrower use a loan: a number for it, and its bytes.
    ///
    /// # Errors
    /// Why not.
    fn map(&mut self, map: &Map) -> Result<(usize, u64), String>;

    /// Does something to a loan's memory; what that says.
    ///
    /// # Errors
    /// The loan is over.
    fn access(&mut self, number: usize, act: Act<'_>) -> Result<bool, String>;

    /// Whether the borrower has one: until then it is waited for no longer than for a greeting.
    fn is_used(&self) -> bool;
}

#[derive(Debug)]
struct BulkRead {
    id: u64,
    address: u64,
    bytes: usize,
    at: usize,
}

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Serve {
    ramt: Ramt<usize>,
    next_window: u64,
    reads: VecDeque<BulkRead>,
}

impl Serve {
    /// Bytes of transfers are to be put.
    pub(crate) fn is_streaming(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Executes a request; its answer is appended, but for a transfer's.
    ///
    /// # Errors
    /// [`Broken`], which the borrower is to be told; the connection is over.
    pub(crate) fn came(
        &mut self,
        frame: &Frame<'_>,
        loans: &mut impl Loans,
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let (id, address, payload) = (frame.id, frame.address, frame.payload);
        match frame.kind {
            Kind::Map => self.map(id, &Map::parse(payload), loans, out),
            Kind::Read => {
                let length = frame.length as usize;
                self.act(loans, address, length as u64, &mut |memory, offset| {
                    let bytes = memory.get(offset, length);
                    bytes.is_some_and(|bytes| {
                        frame::put(out, Kind::Data, id, 0, bytes);
                        true
                    })
                })
            }
            Kind::Write | Kind::BulkChunk | Kind::BulkLast => {
                let length = payload.len() as u64;
                self.act(loans, address, length, &mut |memory, offset| {
                    memory.put(offset, payload)
                })?;
                if frame.kind != Kind::BulkChunk {
                    frame::put(out, Kind::Done, id, 0, &[]);
                }
                Ok(())
            }
            Kind::CompareAndSwap => {
                if !address.is_multiple_of(8) {
                    let what = format!("a compare-and-swap at {address:#x}: no multiple of 8");
                    return Err(Broken::Memory(what));
                }
                let (expected, new) = (u64_at(payload, 0), &payload[8..]);
                self.act(loans, address, 8, &mut |memory, offset| {
                    let Some(there) = memory.get(offset, 8).map(|bytes| u64_at(bytes, 0)) else {
                        return false;
                    };
                    frame::put(out, Kind::Swapped, id, 0, &there.to_le_bytes());
                    there != expected || memory.put(offset, new)
                })
            }
            Kind::Free => {
                let length = u64_at(payload, 0);
                self.act(loans, address, length, &mut |memory, offset| {
                    memory.free(offset, length)
                })?;
                frame::put(out, Kind::Done, id, 0, &[]);
                Ok(())
            }
            Kind::BulkRead => {
                if self.reads.len() >= BULK_REQUESTS_MAX {
                    return Err(Broken::Crowded(BULK_REQUESTS_MAX));
                }
                let bytes = frame.length as usize;
                self.ramt.find(address, bytes as u64)?;
                self.reads.push_back(BulkRead {
                    id,
                    address,
                    bytes,
                    at: 0,
                });
                Ok(())
            }
            kind => Err(Broken::NotDue(format!("{kind:?}"))),
        }
    }

    fn map(
        &mut self,
        id: u64,
        map: &Map,
        loans: &mut impl Loans,
        out: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let start = self.next_window.max(FIRST_WINDOW);
        let (number, bytes) = loans.map(map).map_err(Broken::Memory)?;
        let inserted = self.ramt.insert(start, bytes, number);
        inserted.map_err(|error| Broken::Memory(error.to_string()))?;
        // Behind the last address no further window fits, which `insert` then says.
        let end = (start + bytes).checked_next_multiple_of(WINDOW_UNIT);
        let next = end.and_then(|end| end.checked_add(WINDOW_UNIT));
        self.next_window = next.unwrap_or(u64::MAX);
        frame::put(out, Kind::Mapped, id, start, &bytes.to_le_bytes());
        Ok(())
    }

    /// Does something to the memory of a window, wholly within.
    fn act(
        &self,
        loans: &mut impl Loans,
        address: u64,
        length: u64,
        act: &mut dyn FnMut(&mut dyn Memory, u64) -> bool,
    ) -> Result<(), Broken> {
        let (number, offset) = self.ramt.find(address, length)?;
        let done = loans.access(*number, &mut |memory| act(memory, offset));
        match done.map_err(Broken::Memory)? {
            true => Ok(()),
            false => Err(Broken::Memory(format!(
                "{length} bytes at {address:#x} cannot be used so: pages are freed whole"
            ))),
        }
    }

    /// Puts chunks of transfers, as long as there are fewer than `most` bytes to go out.
    ///
    /// # Errors
    /// [`Broken`]: the loan is over.
    pub(crate) fn stream(
        &mut self,
        loans: &mut impl Loans,
        out: &mut Vec<u8>,
        most: usize,
    ) -> Result<(), Broken> {
        while out.len() < most
            && let Some(read) = self.reads.front()
        {
            let length = (read.bytes - read.at).min(PAYLOAD_BYTES_MAX);
            let (id, at) = (read.id, read.at);
            let address = read.address + at as u64;
            self.act(loans, address, length as u64, &mut |memory, offset| {
                let bytes = memory.get(offset, length);
                bytes.is_some_and(|bytes| {
                    out.reserve(length + HEAD_BYTES);
                    frame::put(out, Kind::Chunk, id, at as u64, bytes);
                    true
                })
            })?;
            match self.reads.front_mut() {
                Some(read) if at + length < read.bytes => read.at = at + length,
                _ => drop(self.reads.pop_front()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
