//! A ring of records in a file that a server's processes have mapped: `modules/ring.h` writes it.
//!
//! ```text
//! 0    "RPORING1"                  what it is
//! 8    u32 128                     bytes of a record
//! 12   u32 n                       records, a power of two
//! 64   u64 head                    records begun so far; writers take numbers here, atomically
//! 128  record 0, 1, ... n - 1      record r of all times is at 128 + 128 (r mod n):
//!
//!      0    u64 number   r + 1, written last; 0 while the record is being written
//!      8    u64 check    of what follows and the number: see `check`
//!      16   u64 at       when, CLOCK_MONOTONIC, ns
//!      24   u64 took     ns; 0 for an arrival
//!      32   u64 token    which request: the process and a number of its own
//!      40   u16 status   0 for an arrival
//!      42   u8 kind      1 arrival, 2 completion
//!      43   u8 method    bytes of the method, at the beginning of the text
//!      44   u16 path     bytes of the path, behind it
//!      46   u16          0
//!      48   80 bytes     method and path, cut
//! ```
//!
//! All numbers are in the machine's own byte order. Writers never wait: who is slow is overwritten,
//! and whoever reads counts that.
//!
//! This side reads the file and does not map it. A read of a mapped file sees what was written to
//! memory, costs one call for hundreds of records, and cannot be harmed by a writer that shortens
//! the file, which would kill whoever has it mapped. What was copied while it was written is told
//! by the check: a record counts only where number and check are what its place asks for. So
//! the worst that a writer does is to have records left out, or to tell of requests that there were
//! not, on which the choice of a setting then rests.

use super::lines::TOOK_MAX;
use super::record::{Counts, Record, What};
use rhythm_net::files::open_regular;
use rustix::process::geteuid;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAGIC: [u8; 8] = *b"RPORING1";
/// Bytes of a record, and of the head of the file.
const RECORD: usize = 128;
/// Where the number of records begun is.
const HEAD_AT: u64 = 64;
/// Where a record's text begins.
const TEXT_AT: usize = 48;
/// Records that one read takes.
const READ_MAX: u64 = 256;
/// The largest ring: 1 GiB.
const RECORDS_MAX: u32 = 1 << 23;
/// For how long a record that was begun is waited for. Its writer may be off its CPU, or dead.
const PATIENCE: Duration = Duration::from_millis(20);

/// Why there is no ring to read.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// It cannot be opened or read.
    #[error("cannot read the ring {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no ring.
    #[error("{path} is no ring of records: {what}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// A ring, read.
#[derive(Debug)]
pub struct Ring {
    path: PathBuf,
    file: File,
    inode: (u64, u64),
    records: u64,
    /// The record that is read next.
    next: u64,
    /// When there were so many records last when one was waited for: how long those before have
    /// been begun at least.
    begun: (Duration, u64),
    buffer: Vec<u8>,
    counts: Counts,
}

impl Ring {
    /// Opens a ring at what is written next.
    ///
    /// # Errors
    /// When it is not there, no ring, or others than its server may have made or changed it.
    pub fn open(path: &Path) -> Result<Ring, RingError> {
        let read = |source| RingError::Read {
            path: path.to_owned(),
            source,
        };
        let other = |what: String| RingError::Other {
            path: path.to_owned(),
            what,
        };
        let file = open_regular(path).map_err(read)?;
        let meta = file.metadata().map_err(read)?;
        may_be_read(path, &meta).map_err(other)?;
        let mut head = [0; RECORD];
        file.read_exact_at(&mut head, 0).map_err(read)?;
        let (size, records) = (u32_at(&head, 8), u32_at(&head, 12));
        if head[..8] != MAGIC || size as usize != RECORD {
            return Err(other("it does not begin as one".to_owned()));
        }
        let bytes = RECORD as u64 * (u64::from(records) + 1);
        if !records.is_power_of_two() || records > RECORDS_MAX || meta.len() < bytes {
            return Err(other(format!(
                "it says that it has {records} records, and is {} bytes long",
                meta.len()
            )));
        }
        Ok(Ring {
            path: path.to_owned(),
            file,
            inode: (meta.dev(), meta.ino()),
            records: u64::from(records),
            next: u64_at(&head, HEAD_AT as usize),
            begun: (Duration::ZERO, 0),
            buffer: vec![0; RECORD * READ_MAX as usize],
            counts: Counts::default(),
        })
    }

    /// What it has counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether another file has its place now, or none has: the server was started anew.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        !fs::metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.inode)
    }

    /// Gives what was written since the last look, all records of the ring at most, and says how
    /// many that was. `now` is any clock's that goes on.
    ///
    /// # Errors
    /// When the file cannot be read any more.
    pub fn look(
        &mut self,
        now: Duration,
        mut each: impl FnMut(Record<'_>),
    ) -> Result<u64, RingError> {
        let mut given = 0;
        let mut head = [0; 8];
        self.read(&mut head, HEAD_AT)?;
        let head = u64::from_ne_bytes(head);
        let ahead = head.wrapping_sub(self.next);
        if head < self.next {
            // Somebody began it anew, or it is garbage.
            self.counts.garbage += 1;
            self.next = head;
            self.begun = (now, head);
        } else if ahead > self.records {
            let lost = ahead - self.records;
            self.counts.lost = self.counts.lost.saturating_add(lost);
            self.next += lost;
        }
        while self.next < head {
            let place = self.next & (self.records - 1);
            let count = READ_MAX.min(head - self.next).min(self.records - place);
            let mut buffer = std::mem::take(&mut self.buffer);
            let bytes = &mut buffer[..RECORD * count as usize];
            let result = self.read(bytes, RECORD as u64 * (place + 1));
            let mut is_open = false;
            if result.is_ok() {
                for record in bytes.chunks_exact(RECORD) {
                    match self.judge(record, now, head) {
                        Judged::Good(record) => {
                            given += 1;
                            each(record);
                        }
                        Judged::Garbage => self.counts.garbage += 1,
                        Judged::Lost => self.counts.lost += 1,
                        Judged::Open => {
                            is_open = true;
                            break;
                        }
                    }
                    self.next += 1;
                }
            }
            self.buffer = buffer;
            result?;
            if is_open {
                break;
            }
        }
        self.counts.records += given;
        Ok(given)
    }

    /// What the bytes at the place of the next record are, of `head` that were begun.
    fn judge<'a>(&mut self, bytes: &'a [u8], now: Duration, head: u64) -> Judged<'a> {
        let (number, wanted) = (u64_at(bytes, 0), self.next.wrapping_add(1));
        if number == wanted && u64_at(bytes, 8) == check(bytes) {
            return record(bytes).map_or(Judged::Garbage, Judged::Good);
        }
        // The writer of a later turn was here.
        if number > wanted && (number - wanted) & (self.records - 1) == 0 {
            return Judged::Lost;
        }
        let (since, begun) = self.begun;
        if self.next >= begun {
            self.begun = (now, head);
            Judged::Open
        } else if now.saturating_sub(since) < PATIENCE {
            Judged::Open
        } else {
            Judged::Garbage
        }
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), RingError> {
        self.file.read_exact_at(bytes, at).map_err(|source| {
            let source = match source.kind() {
                ErrorKind::UnexpectedEof => io::Error::other("it was shortened"),
                _ => source,
            };
            RingError::Read {
                path: self.path.clone(),
                source,
            }
        })
    }
}

/// Says what speaks against believing a file.
fn may_be_read(path: &Path, meta: &Metadata) -> Result<(), String> {
    if meta.mode() & 0o022 != 0 {
        let what = "others than its owner may write to it: take that permission away (chmod go-w)";
        return Err(what.to_owned());
    }
    if meta.nlink() != 1 {
        return Err("it has other names, too: remove it, and have its server make it".to_owned());
    }
    // Whoever may put any file there needs none that is believed for another reason.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or(Path::new("."))).map(|folder| folder.uid());
    let owner = meta.uid();
    match owner == 0 || owner == geteuid().as_raw() || folder.is_ok_and(|of| of == owner) {
        true => Ok(()),
        false => Err(format!(
            "it is of user {owner}, who is neither root nor this one: have it in a folder of that \
             user's own"
        )),
    }
}

enum Judged<'a> {
    Good(Record<'a>),
    Garbage,
    /// Overwritten.
    Lost,
    /// Not finished.
    Open,
}

/// What a record's words, but for the check itself, come to.
fn check(record: &[u8]) -> u64 {
    let words = record.chunks_exact(8).enumerate();
    (words.filter(|&(index, _)| index != 1)).fold(0, |sum: u64, (_, word)| {
        let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
        (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// A record whose check is right; none where what it says cannot be.
fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let method = usize::from(bytes[43]);
    let path = usize::from(u16::from_ne_bytes([bytes[44], bytes[45]]));
    let text = &bytes[TEXT_AT..];
    let method_text = std::str::from_utf8(text.get(..method)?).ok()?;
    let path = text.get(method..method.checked_add(path)?)?;
    // It may be cut within a character, or have any bytes.
    let path = path.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let took = Duration::from_nanos(u64_at(bytes, 24));
    let status = u16::from_ne_bytes([bytes[40], bytes[41]]);
    let what = match bytes[42] {
        1 => What::Arrived,
        2 if took <= TOOK_MAX => What::Completed { took, status },
        _ => return None,
    };
    Some(Record {
        method: method_text,
        path,
        what,
        token: u64_at(bytes, 32),
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
pub(super) mod tests;
