//! A strip: up to 256 lanes that an operation is run for before the next operation is.
//!
//! Strips bound the working set: the registers, run regions and views of 256 lanes stay in the
//! second-level cache whatever the cohort's size (as the vectors of vectorized databases do).
//! Within a strip a lane is a byte, so indexing an array of 256 needs no check; a *selection* is
//! the list of lanes an operation runs for.

use super::work::TURN_WORK;
use crate::cohort::{Arena, Argument, LaneError, LaneOutput, View};
use crate::device::cost::WORK_OF_ONE;
use crate::program::{Constant, Register, Type};

/// Lanes of a strip.
pub(super) const STRIP: usize = 256;

/// The lanes of a strip that an operation runs for, ascending.
pub(super) type Selection = Vec<u8>;

/// The registers of a strip: a column of 64-bit cells each. What a cell holds follows from the
/// register's type.
#[derive(Default)]
pub(super) struct Registers {
    columns: Vec<Cells>,
}

/// A register's cells, and a line of the cache that keeps columns from standing apart by a power of
/// two: a lane's cells would otherwise all fall into few sets of the first-level cache.
#[derive(Clone)]
struct Cells {
    cells: [u64; STRIP],
    _apart: [u64; 8],
}

impl Registers {
    pub(super) fn prepare(&mut self, registers: usize) {
        if self.columns.len() < registers {
            let empty = Cells {
                cells: [0; STRIP],
                _apart: [0; 8],
            };
            self.columns.resize(registers, empty);
        }
    }

    #[inline]
    pub(super) fn column(&self, register: Register) -> &[u64; STRIP] {
        &self.columns[usize::from(register)].cells
    }

    #[inline]
    pub(super) fn column_mut(&mut self, register: Register) -> &mut [u64; STRIP] {
        &mut self.columns[usize::from(register)].cells
    }

    #[inline]
    pub(super) fn int(&self, register: Register, lane: u8) -> i64 {
        self.column(register)[usize::from(lane)] as i64
    }

    #[inline]
    pub(super) fn float(&self, register: Register, lane: u8) -> f64 {
        f64::from_bits(self.column(register)[usize::from(lane)])
    }

    #[inline]
    pub(super) fn bool(&self, register: Register, lane: u8) -> bool {
        self.column(register)[usize::from(lane)] != 0
    }

    #[inline]
    pub(super) fn view(&self, register: Register, lane: u8) -> View {
        unpack(self.column(register)[usize::from(lane)])
    }

    /// A value with its type.
    pub(super) fn argument<'a>(
        &self,
        register: Register,
        lane: u8,
        kind: Type,
        arena: &'a Arena,
    ) -> Argument<'a> {
        argument(self.column(register)[usize::from(lane)], kind, arena)
    }

    #[inline]
    pub(super) fn set(&mut self, register: Register, lane: u8, cell: impl Pack) {
        self.column_mut(register)[usize::from(lane)] = cell.pack();
    }
}

/// What a cell holds, with its type.
pub(super) fn argument(cell: u64, kind: Type, arena: &Arena) -> Argument<'_> {
    match kind {
        Type::Text => Argument::Text(arena.get(unpack(cell))),
        Type::Int => Argument::Int(cell as i64),
        Type::Float => Argument::Float(f64::from_bits(cell)),
        Type::Bool => Argument::Bool(cell != 0),
    }
}

/// A view in a cell.
#[inline]
pub(super) fn unpack(cell: u64) -> View {
    View {
        offset: cell as u32,
        length: (cell >> 32) as u32,
    }
}

/// What fits a cell.
pub(super) trait Pack: Copy {
    fn pack(self) -> u64;
}

impl Pack for u64 {
    #[inline]
    fn pack(self) -> u64 {
        self
    }
}

impl Pack for i64 {
    #[inline]
    fn pack(self) -> u64 {
        self as u64
    }
}

impl Pack for f64 {
    #[inline]
    fn pack(self) -> u64 {
        self.to_bits()
    }
}

impl Pack for bool {
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self)
    }
}

impl Pack for View {
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.offset) | u64::from(self.length) << 32
    }
}

impl Pack for &Constant {
    fn pack(self) -> u64 {
        match *self {
            Constant::Text { offset, length } => View { offset, length }.pack(),
            Constant::Int(value) => value.pack(),
            Constant::Float(value) => value.pack(),
            Constant::Bool(value) => value.pack(),
        }
    }
}

/// What befell a lane in this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is running.
    Running,
    /// [`Op::Finish`](crate::program::Op::Finish).
    Finished,
    /// It failed.
    Failed(LaneError),
    /// Its output region was too small: it is run again with a larger one.
    Overflowed,
    /// The strip has done enough: it is run in another pass.
    PutOff,
}

impl From<LaneError> for Fate {
    fn from(error: LaneError) -> Fate {
        Fate::Failed(error)
    }
}

/// The lanes of a strip and what is kept for each beside the registers.
pub(super) struct Lanes {
    /// The lane's index in the cohort.
    pub(super) index: [u32; STRIP],
    pub(super) fate: [Fate; STRIP],
    /// How many lanes are no longer running: tells whether a selection has to be looked through
    /// again.
    pub(super) ended: usize,
    /// Text the lane may still make.
    pub(super) text_left: [usize; STRIP],
    /// How much more work than is charged for it did where it looked through texts.
    pub(super) read_work: [usize; STRIP],
    /// Turns it may still take.
    pub(super) turns_left: [usize; STRIP],
    /// Work that all of them may still do together, in the units of `work`.
    pub(super) work_left: usize,
    /// The lanes before this one go on, however much work is done.
    pub(super) spared: usize,
    /// Bytes of fragments that stand as segments in its body.
    pub(super) fragment_bytes: [usize; STRIP],
    /// Next byte of its run, relative to the strip's region.
    pub(super) cursor: [u32; STRIP],
    /// Segments it has so far.
    pub(super) segments: [u32; STRIP],
    /// Status, session and file of its answer.
    pub(super) answer: [LaneOutput; STRIP],
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes {
            index: [0; STRIP],
            fate: [Fate::Running; STRIP],
            ended: 0,
            text_left: [0; STRIP],
            read_work: [0; STRIP],
            turns_left: [0; STRIP],
            work_left: 0,
            spared: 0,
            fragment_bytes: [0; STRIP],
            cursor: [0; STRIP],
            segments: [0; STRIP],
            answer: [LaneOutput::default(); STRIP],
        }
    }
}

impl Lanes {
    /// Begins a strip of `count` lanes, each with a run region of `stride` bytes.
    pub(super) fn begin(&mut self, indexes: &[u32], stride: u32, text_bytes: usize, turns: usize) {
        let count = indexes.len();
        self.ended = 0;
        // Array by array, several lanes an instruction.
        self.index[..count].copy_from_slice(indexes);
        self.fate[..count].fill(Fate::Running);
        self.text_left[..count].fill(text_bytes);
        self.read_work[..count].fill(0);
        self.turns_left[..count].fill(turns);
        self.fragment_bytes[..count].fill(0);
        for (cursor, lane) in self.cursor[..count].iter_mut().zip(0..) {
            *cursor = lane * stride;
        }
        self.segments[..count].fill(0);
        self.answer[..count].fill(LaneOutput::default());
    }

    /// The lane takes no further part, unless it already takes none.
    #[cold]
    pub(super) fn end(&mut self, lane: u8, fate: Fate) {
        let own = &mut self.fate[usize::from(lane)];
        if *own == Fate::Running {
            *own = fate;
            self.ended += 1;
        }
    }

    #[cold]
    pub(super) fn fail(&mut self, lane: u8, error: LaneError) {
        self.end(lane, Fate::Failed(error));
    }

    #[inline]
    pub(super) fn runs(&self, lane: u8) -> bool {
        self.fate[usize::from(lane)] == Fate::Running
    }

    /// Accounts for text made; fails the lane that makes too much.
    #[inline]
    pub(super) fn charge(&mut self, lane: u8, bytes: usize) -> bool {
        let left = &mut self.text_left[usize::from(lane)];
        match left.checked_sub(bytes) {
            Some(less) => {
                *left = less;
                self.works(lane, bytes)
            }
            None => {
                self.fail(lane, LaneError::TooMuchText);
                false
            }
        }
    }

    /// Accounts for text looked through, by what is charged for it (`cost`); fails the lane that
    /// looks through too much.
    #[inline]
    pub(super) fn read(&mut self, lane: u8, charge: usize) -> bool {
        if charge == 0 {
            return true;
        }
        // What is charged counts as work, too.
        let more = charge.saturating_mul(WORK_OF_ONE - 1);
        if !self.charge(lane, charge) {
            return false;
        }
        self.read_work[usize::from(lane)] += more;
        self.works(lane, more)
    }

    /// Accounts for the turns of a loop; fails the lane that takes too many.
    #[inline]
    pub(super) fn take_turns(&mut self, lane: u8, turns: i64) -> bool {
        let left = &mut self.turns_left[usize::from(lane)];
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        match left.checked_sub(turns) {
            Some(less) => {
                *left = less;
                self.works(lane, turns * TURN_WORK)
            }
            None => {
                self.fail(lane, LaneError::TooManyTurns);
                false
            }
        }
    }

    /// Accounts for work that a lane is to do; puts the lane off where all have done enough.
    #[inline]
    pub(super) fn works(&mut self, lane: u8, work: usize) -> bool {
        match self.work_left.checked_sub(work) {
            Some(less) => {
                self.work_left = less;
                true
            }
            None => {
                self.work_left = 0;
                self.may_begin(lane)
            }
        }
    }

    /// Whether a lane's turn may begin: puts it off where all have done enough.
    #[inline]
    pub(super) fn may_begin(&mut self, lane: u8) -> bool {
        let may = self.work_left > 0 || usize::from(lane) < self.spared;
        if !may {
            self.end(lane, Fate::PutOff);
        }
        may
    }
}
