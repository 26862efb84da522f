//! The turns that a loop with choices takes: which of its list's positions each lane has left, in
//! their order.

use super::strip::STRIP;

/// The positions that a loop's choices left, lane by lane. Its memory is kept from loop to loop.
#[derive(Default)]
pub(super) struct Positions {
    /// Lanes, positions and the cells that these have, as they were found: each lane's in order.
    found: Vec<(u8, i64, u64)>,
    /// Positions and their cells, by lane.
    placed: Vec<(i64, u64)>,
    /// Where each lane's positions start.
    starts: Vec<u32>,
}

impl Positions {
    /// Memory kept between loops, in positions. What a loop needed beyond it is given back.
    const CAPACITY_KEPT: usize = 1 << 16;

    /// Empties it.
    pub(super) fn cleared(mut self) -> Positions {
        self.found.clear();
        self.found.shrink_to(Positions::CAPACITY_KEPT);
        self.placed.clear();
        self.placed.shrink_to(Positions::CAPACITY_KEPT);
        self
    }

    /// Keeps a position of a lane, behind those that it has.
    pub(super) fn keep(&mut self, lane: u8, position: i64, cell: u64) {
        self.found.push((lane, position, cell));
    }

    /// Puts what was found in order of lanes.
    pub(super) fn place(&mut self) {
        self.starts.clear();
        self.starts.resize(STRIP + 1, 0);
        for (lane, ..) in &self.found {
            self.starts[usize::from(*lane) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        // Each lane's start is moved behind what is placed, and so ends as the next one's.
        self.placed.resize(self.found.len(), (0, 0));
        for (lane, position, cell) in &self.found {
            let at = &mut self.starts[usize::from(*lane)];
            self.placed[*at as usize] = (*position, *cell);
            *at += 1;
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    /// A lane's positions and their cells.
    pub(super) fn of(&self, lane: u8) -> &[(i64, u64)] {
        let [start, end] = [lane.into(), usize::from(lane) + 1].map(|at| self.starts[at] as usize);
        &self.placed[start..end]
    }

    /// How many positions a lane has.
    pub(super) fn count(&self, lane: u8) -> i64 {
        self.of(lane).len() as i64
    }

    /// A lane's position at this turn.
    pub(super) fn position(&self, lane: u8, turn: i64) -> i64 {
        self.of(lane)[turn as usize].0
    }
}
