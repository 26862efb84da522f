//! RDMA at the borrower's end (the paper's section 5.1.2), without I/O: bulk transfers, each of one
//! request, the chunks that its registered buffer is divided into, and one end. For as long as a
//! transfer is under way its caller keeps the buffer: chunks are told with where in it they go, and
//! are copied there once.

use super::broken::Broken;
use super::frame::{self, BULK_BYTES_MAX, BULK_REQUESTS_MAX, Frame, Kind, PAYLOAD_BYTES_MAX};
use std::collections::VecDeque;

/// What came for a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    /// The transfer.
    pub(crate) id: u64,
    /// Where in its buffer the bytes go.
    pub(crate) at: usize,
    /// None where it was a write.
    pub(crate) bytes: &'a [u8],
}

#[derive(Debug)]
struct Transfer {
    id: u64,
    bytes: usize,
    came: usize,
}

/// Transfers under way: reads in their order, and writes in theirs, which the donor does not keep
/// waiting for reads. Their ids have a mark, so that an answer tells its channel.
#[derive(Debug, Default)]
pub(crate) struct Rdma {
    reads: VecDeque<Transfer>,
    writes: VecDeque<u64>,
    next: u64,
}

/// Set in the ids of transfers, and never of operations of CRMA.
const MARK: u64 = 1 << 63;

/// Whether an answer is to a transfer.
pub(crate) fn is_transfer(frame: &Frame<'_>) -> bool {
    frame.id & MARK != 0
}

impl Rdma {
    /// One more transfer may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way() < BULK_REQUESTS_MAX
    }

    /// Transfers without their end.
    pub(crate) fn under_way(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    fn begin(&mut self, bytes: usize) -> u64 {
        debug_assert!(self.has_room() && (1..=BULK_BYTES_MAX).contains(&bytes));
        let id = self.next | MARK;
        self.next += 1;
        id
    }

    /// Begins a read of [`BULK_BYTES_MAX`] at most.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, address: u64, bytes: usize) -> u64 {
        let id = self.begin(bytes);
        let came = 0;
        self.reads.push_back(Transfer { id, bytes, came });
        frame::put_want(out, Kind::BulkRead, id, address, bytes as u32);
        id
    }

    /// Begins a write of as much; its chunks are to be put next, from the first to the last.
    pub(crate) fn write(&mut self, bytes: usize) -> u64 {
        let id = self.begin(bytes);
        self.writes.push_back(id);
        id
    }

    /// Puts the chunk of a write that begins at `at` of its buffer; where the next one begins.
    pub(crate) fn put_chunk(
        &self,
        out: &mut Vec<u8>,
        id: u64,
        address: u64,
        buffer: &[u8],
        at: usize,
    ) -> usize {
        let end = buffer.len().min(at + PAYLOAD_BYTES_MAX);
        let kind = match end == buffer.len() {
            true => Kind::BulkLast,
            false => Kind::BulkChunk,
        };
        // A donor that says impossible addresses gets back impossible ones.
        let address = address.wrapping_add(at as u64);
        frame::put(out, kind, id, address, &buffer[at..end]);
        end
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// [`Broken::Unasked`]: it is not the one that is due.
    pub(crate) fn answer<'a>(&mut self, frame: &Frame<'a>) -> Result<Chunk<'a>, Broken> {
        let (id, bytes) = (frame.id, frame.payload);
        if frame.kind == Kind::Done {
            let due = self.writes.pop_front();
            due.filter(|due| *due == id).ok_or(Broken::Unasked)?;
            return Ok(Chunk { id, at: 0, bytes });
        }
        let read = self.reads.front_mut().filter(|read| read.id == id);
        let read = read.ok_or(Broken::Unasked)?;
        let at = read.came;
        // As much as a frame carries: smaller ones could go on for ever.
        let due = PAYLOAD_BYTES_MAX.min(read.bytes - at);
        if frame.kind != Kind::Chunk || frame.address != at as u64 || bytes.len() != due {
            return Err(Broken::Unasked);
        }
        read.came += due;
        if read.came == read.bytes {
            self.reads.pop_front();
        }
        Ok(Chunk { id, at, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_donors_impossible_address_is_no_overflow_here() {
        let mut rdma = Rdma::default();
        let buffer = vec![7; PAYLOAD_BYTES_MAX + 9];
        let id = rdma.write(buffer.len());
        let (address, at) = (u64::MAX - 5, PAYLOAD_BYTES_MAX);
        let mut out = Vec::new();
        assert_eq!(
            rdma.put_chunk(&mut out, id, address, &buffer, at),
            buffer.len()
        );
        let (frame, _) = frame::parse(&out).unwrap().unwrap();
        assert_eq!(frame.address, PAYLOAD_BYTES_MAX as u64 - 6);
    }

    #[test]
    fn chunks_are_as_long_as_they_can_be() {
        let bytes = PAYLOAD_BYTES_MAX + 9;
        for lengths in [&[PAYLOAD_BYTES_MAX, 9][..], &[9], &[PAYLOAD_BYTES_MAX, 1]] {
            let mut rdma = Rdma::default();
            let id = rdma.read(&mut Vec::new(), 0, bytes);
            let mut at = 0;
            let mut taken = Ok(());
            for length in lengths {
                let mut out = Vec::new();
                frame::put(&mut out, Kind::Chunk, id, at, &vec![7; *length]);
                let (frame, _) = frame::parse(&out).unwrap().unwrap();
                taken = taken.and(rdma.answer(&frame).map(drop));
                at += *length as u64;
            }
            let is_whole = at == bytes as u64;
            assert_eq!(
                taken,
                if is_whole {
                    Ok(())
                } else {
                    Err(Broken::Unasked)
                }
            );
        }
    }
}
