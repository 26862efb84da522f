//! How records lie in a journal: bytes <-> what each says.
//!
//! ```text
//!   a block                                                             the next
//!   | magic | length | number | checksum | the head's checksum | ... | 0 0 0 | magic | length |
//! ```
//!
//! Each record begins a block of the disk: a write that is torn takes nothing with it of those
//! before it, which were synced. The head has a checksum of its own, so that a record is seen to
//! have been there also where all that it said is damaged, and at no cost where it was not. The
//! key of the checksums is in the file, so no value that a client chooses looks like a record.
//!
//! In journals of before, which are read and not added to, records lay back to back, and heads had
//! no checksum.

use crate::bytes::{Put, Reader};
use crate::checksum::checksum;
use memchr::memmem;

/// What disks and file systems write as a whole, or in whole parts.
pub(super) const BLOCK: usize = 4096;
const MAGIC: &[u8; 4] = b"RKr\n";
/// What distinguishes a head's checksum from that of what a record says.
const HEAD_KEY: u64 = 1;
/// Bytes of a head, but for its checksum.
const PACKED_HEAD: usize = 24;
const HEAD: usize = PACKED_HEAD + 8;

/// How they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Back to back, as before.
    Packed,
    /// In blocks.
    Blocks,
}

/// See the head of this file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records {
    pub(super) form: Form,
    /// What the checksums are keyed with.
    pub(super) salt: u64,
}

/// Fills the last block.
pub(super) fn fill(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
}

impl Records {
    /// A record, without what fills its last block.
    pub(super) fn encode(&self, number: u64, said: &[u8]) -> Vec<u8> {
        debug_assert_eq!(self.form, Form::Blocks, "the one before is only read");
        let mut out = Vec::with_capacity((HEAD + said.len()).next_multiple_of(BLOCK));
        out.extend_from_slice(MAGIC);
        out.put_u32(said.len() as u32);
        out.put_u64(number);
        out.put_u64(self.sum(number, said));
        let sum = self.head_sum(&out);
        out.put_u64(sum);
        out.extend_from_slice(said);
        out
    }

    /// What the record says that is at a place, if it is of this number, and where the next is.
    pub(super) fn decode<'a>(
        &self,
        bytes: &'a [u8],
        at: usize,
        number: u64,
    ) -> Option<(&'a [u8], usize)> {
        let record = bytes.get(at..)?;
        let head = self.head(record).filter(|head| head.number == number)?;
        let behind = head.bytes + head.length;
        let said = record.get(head.bytes..behind)?;
        let next = match self.form {
            Form::Packed => at + behind,
            Form::Blocks => (at + behind).next_multiple_of(BLOCK),
        };
        (self.sum(number, said) == head.sum).then_some((said, next))
    }

    /// Whether one was written behind that of this number, whose place this is: then that one was
    /// synced.
    pub(super) fn has_later(&self, bytes: &[u8], at: usize, number: u64) -> bool {
        let rest = bytes.get(at..).unwrap_or_default();
        match self.form {
            Form::Blocks => {
                let mut heads = rest.chunks(BLOCK).filter_map(|block| self.head(block));
                heads.any(|head| head.number > number)
            }
            // Numbers are looked at first: what looks like a head may be a client's value.
            Form::Packed => memmem::find_iter(rest, MAGIC).any(|at| {
                let later = number + 1..=number + (rest.len() / PACKED_HEAD) as u64;
                let found = self.head(&rest[at..]).map(|head| head.number);
                let found = found.filter(|found| later.contains(found));
                found.is_some_and(|found| self.decode(rest, at, found).is_some())
            }),
        }
    }

    /// The head that these bytes begin with.
    fn head(&self, bytes: &[u8]) -> Option<Head> {
        let mut reader = Reader(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let head = Head {
            length: reader.u32()? as usize,
            number: reader.u64()?,
            sum: reader.u64()?,
            bytes: match self.form {
                Form::Packed => PACKED_HEAD,
                Form::Blocks => HEAD,
            },
        };
        let is_whole = match self.form {
            Form::Packed => true,
            Form::Blocks => reader.u64()? == self.head_sum(&bytes[..PACKED_HEAD]),
        };
        is_whole.then_some(head)
    }

    fn sum(&self, number: u64, said: &[u8]) -> u64 {
        checksum([self.salt ^ number, 0], said)
    }

    fn head_sum(&self, head: &[u8]) -> u64 {
        checksum([self.salt, HEAD_KEY], head)
    }
}

/// What is in front of what a record says.
struct Head {
    length: usize,
    number: u64,
    sum: u64,
    /// Of the head itself.
    bytes: usize,
}

#[cfg(test)]
impl Records {
    /// A record as it was written before.
    pub(super) fn encode_packed(&self, number: u64, said: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(said.len() as u32);
        out.put_u64(number);
        out.put_u64(self.sum(number, said));
        out.extend_from_slice(said);
        out
    }
}
