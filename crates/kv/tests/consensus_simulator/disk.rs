//! A disk that forgets, in a crash, what was not synced, or keeps some of it, damaged, and with it
//! what is in the same block. Now and then it damages what was synced, too. Where a sync failed,
//! what it was for is in the system's memory, and will never be on the disk: it is read by the next
//! process, and gone when the machine dies.

use crate::random::Random;
use rhythm_kv::consensus::{Disk, Unwritten};
use std::cell::RefCell;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::rc::Rc;

/// What a disk writes as a whole.
const BLOCK: usize = 4096;

#[derive(Debug, Default)]
struct State {
    synced: Vec<u8>,
    written: Vec<u8>,
    /// Where the last write was, and the last that was synced; 0: that is the whole of it.
    at: usize,
    synced_at: usize,
    /// Nothing can be written, or there is no room ahead, or none for another journal.
    is_full: bool,
    has_no_room: bool,
    has_none_beside: bool,
    /// The machine dies at the so-manieth operation from now.
    dies_in: Option<u64>,
    /// The next sync fails, which ends the process; and of which bytes one has failed.
    sync_fails: bool,
    unsynced: Range<usize>,
    /// It was the process that ended, and not the machine.
    lives_on: bool,
    /// It says that it has synced, and has not.
    lies: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk(Rc<RefCell<State>>);

impl SimDisk {
    /// What is there after a crash; and whether the end of it is torn.
    pub(crate) fn crash(&self, random: &mut Random) -> (Vec<u8>, bool) {
        let mut state = self.0.borrow_mut();
        state.dies_in = None;
        if std::mem::take(&mut state.lives_on) {
            return (state.written.clone(), false);
        }
        state.unsynced = 0..0;
        let synced = state.synced.clone();
        let mut left = synced.clone();
        let unsynced = state.written.len().saturating_sub(synced.len());
        let is_longer = unsynced > 0 && state.written.starts_with(&synced);
        let is_torn = is_longer && random.percent(70);
        if is_torn {
            // All of it more often than by chance: then only its checksum says that it is damaged.
            let kept = random.below(2 * unsynced as u64).min(unsynced as u64) as usize;
            left = state.written[..synced.len() + kept].to_vec();
            if kept > 0 && random.percent(50) {
                let from = synced.len() / BLOCK * BLOCK;
                let at = from + random.below((left.len() - from) as u64) as usize;
                left[at] ^= 1 << random.below(8);
            }
        }
        // What is read at the start is there from then on.
        state.synced.clone_from(&left);
        state.written.clone_from(&left);
        (left, is_torn)
    }

    /// What is there after a crash, and damaged where others were told of it.
    pub(crate) fn rot(&self, random: &mut Random) -> Vec<u8> {
        let all = self.0.borrow().synced.len();
        let (mut left, _) = self.crash(random);
        let mut state = self.0.borrow_mut();
        // Of the last record nobody can tell whether it was synced.
        let until = match state.synced_at {
            0 => all.min(left.len()),
            last => last,
        };
        if until > 0 {
            left[random.below(until as u64) as usize] ^= 1 << random.below(8);
        }
        state.synced.clone_from(&left);
        state.written.clone_from(&left);
        left
    }

    /// It is another disk from now on, with nothing on it.
    pub(crate) fn lose(&self) {
        let mut state = self.0.borrow_mut();
        *state = State {
            lies: state.lies,
            ..State::default()
        };
    }

    /// It does not sync what is written from now on, and says so to nobody.
    pub(crate) fn lie(&self) {
        self.0.borrow_mut().lies = true;
    }

    /// Whether one failed, and the process has not begun again.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.borrow().lives_on
    }

    /// The next sync fails.
    pub(crate) fn fail_sync(&self) {
        self.0.borrow_mut().sync_fails = true;
    }

    pub(crate) fn die_in(&self, operations: u64) {
        self.0.borrow_mut().dies_in = Some(operations);
    }

    /// The machine does not die.
    pub(crate) fn live_on(&self) {
        let mut state = self.0.borrow_mut();
        (state.dies_in, state.sync_fails) = (None, false);
    }

    pub(crate) fn set_well(&self) {
        let mut state = self.0.borrow_mut();
        (state.has_no_room, state.has_none_beside, state.is_full) = (false, false, false);
    }

    /// There is no room ahead, and perhaps none for another journal, or none at all.
    pub(crate) fn set_full(&self, has_none_beside: bool, is_full: bool) {
        let mut state = self.0.borrow_mut();
        state.has_no_room = true;
        (state.has_none_beside, state.is_full) = (has_none_beside, is_full);
    }
}

impl State {
    fn operate(&mut self) -> Result<(), Unwritten> {
        match &mut self.dies_in {
            Some(0) => return Err(Unwritten::Ever(Error::other("the machine died"))),
            Some(left) => *left -= 1,
            None => {}
        }
        match self.is_full {
            true => Err(Unwritten::Yet(ErrorKind::StorageFull.into())),
            false => Ok(()),
        }
    }
}

impl Disk for SimDisk {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut state = self.0.borrow_mut();
        // A write that fails leaves some of it behind.
        state.at = at as usize;
        state.written.resize(at as usize, 0);
        let Range { start, end } = state.unsynced;
        state.unsynced = start.min(at as usize)..end.min(at as usize);
        let operated = state.operate();
        let some = match operated {
            Ok(()) => bytes,
            Err(_) => &bytes[..bytes.len() / 2],
        };
        state.written.extend_from_slice(some);
        operated
    }

    fn sync(&mut self) -> Result<(), Unwritten> {
        let mut state = self.0.borrow_mut();
        match state.operate() {
            Err(Unwritten::Yet(_)) | Ok(()) => {}
            died => return died,
        }
        if state.lies {
            return Ok(());
        }
        let mut written = state.written.clone();
        if std::mem::take(&mut state.sync_fails) {
            state.unsynced = state.synced.len().min(written.len())..written.len();
            state.lives_on = true;
            return Err(Unwritten::Ever(Error::other("the disk failed")));
        }
        written[state.unsynced.clone()].fill(0);
        state.synced = written;
        state.synced_at = state.at;
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        if state.has_none_beside {
            return Err(Unwritten::Yet(ErrorKind::StorageFull.into()));
        }
        state.synced_at = 0;
        state.synced = bytes.to_vec();
        state.written = bytes.to_vec();
        state.unsynced = 0..0;
        // It may die before it is told that it is there.
        state.operate()
    }

    fn has_room(&mut self) -> bool {
        !self.0.borrow().has_no_room
    }
}
