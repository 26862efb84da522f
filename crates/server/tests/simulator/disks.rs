//! A disk that is slow, fails or hangs, and files on it.

use rhythm_engine::device::conformance::Dice;
use rhythm_server::{Disk, FileSource, Read};
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::rc::Rc;

/// How a disk behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskFaults {
    /// Longer files are on it.
    pub(crate) kept_max: usize,
    /// Most that a read takes, nanoseconds.
    pub(crate) delay_max: u64,
    /// Once in so many reads it fails; 0: never.
    pub(crate) fail: usize,
    /// Once in so many reads it never answers; 0: always does.
    pub(crate) silent: usize,
    /// How long a read is waited for, nanoseconds.
    pub(crate) timeout: u64,
}

impl DiskFaults {
    /// Whether a file may not be had.
    pub(crate) fn can_fail(&self) -> bool {
        // All reads take their turns.
        self.fail != 0 || self.silent != 0 || self.timeout < 100_000_000_000
    }
}

/// Mistakes planted into files, to see them found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskSabotage {
    /// None.
    #[default]
    None,
    /// What is read later is from elsewhere in the file.
    OtherPlace,
}

/// A file on it.
#[derive(Debug)]
pub(crate) struct DiskFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sabotage: DiskSabotage,
}

impl FileSource for DiskFile {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let at = match self.sabotage {
            DiskSabotage::OtherPlace if at > 0 => at as usize - 1,
            _ => at as usize,
        };
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
        Ok(())
    }
}

/// See the module's text.
pub(crate) struct FaultyDisk {
    faults: DiskFaults,
    dice: Dice,
    clock: Rc<Cell<u64>>,
    /// When the next read is done.
    due: Rc<Cell<Option<u64>>>,
    under_way: Vec<(u64, Read)>,
}

impl FaultyDisk {
    /// One that reads nothing yet. `clock` is the world's, `due` is for the world to read.
    pub(crate) fn new(
        faults: DiskFaults,
        dice: Dice,
        clock: Rc<Cell<u64>>,
        due: Rc<Cell<Option<u64>>>,
    ) -> FaultyDisk {
        FaultyDisk {
            faults,
            dice,
            clock,
            due,
            under_way: Vec::new(),
        }
    }

    fn chance(&mut self, times: usize) -> bool {
        times != 0 && self.dice.once_in(times)
    }

    fn set_due(&self) {
        self.due
            .set(self.under_way.iter().map(|(due, _)| *due).min());
    }
}

impl Disk for FaultyDisk {
    fn read(&mut self, read: Read) {
        if !self.chance(self.faults.silent) {
            let takes = self.dice.below(self.faults.delay_max as usize + 1) as u64;
            self.under_way.push((self.clock.get() + takes, read));
            self.set_due();
        }
    }

    fn next(&mut self) -> Option<Read> {
        let now = self.clock.get();
        let index = self.under_way.iter().position(|(due, _)| *due <= now)?;
        let (_, mut read) = self.under_way.swap_remove(index);
        self.set_due();
        match self.chance(self.faults.fail) {
            true => read.fail(ErrorKind::Other.into()),
            false => read.run(),
        }
        Some(read)
    }
}
