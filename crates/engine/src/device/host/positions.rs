//! The turns that a loop with a filter takes: which of its list's positions each lane kept.

use super::strip::STRIP;

/// The positions that a loop's filter kept, lane by lane. Its memory is kept from loop to loop.
#[derive(Default)]
pub(super) struct Positions {
    /// Lanes and positions as they were found: by position.
    found: Vec<(u8, i64)>,
    /// The positions, by lane.
    positions: Vec<i64>,
    /// Where each lane's positions start.
    starts: Vec<u32>,
}

impl Positions {
    /// Memory kept between loops, in positions. What a loop needed beyond it is given back.
    const CAPACITY_KEPT: usize = 1 << 16;

    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.found.clear();
        self.found.shrink_to(Positions::CAPACITY_KEPT);
        self.positions.clear();
        self.positions.shrink_to(Positions::CAPACITY_KEPT);
    }

    /// Keeps a position of a lane. Positions of one lane come in rising order.
    pub(super) fn keep(&mut self, lane: u8, position: i64) {
        self.found.push((lane, position));
    }

    /// Puts what was found in order of lanes.
    pub(super) fn sort(&mut self) {
        self.starts.clear();
        self.starts.resize(STRIP + 1, 0);
        for (lane, _) in &self.found {
            self.starts[usize::from(*lane) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        // Each lane's start is moved behind what is placed, and so ends as the next one's.
        self.positions.resize(self.found.len(), 0);
        for (lane, position) in &self.found {
            let at = &mut self.starts[usize::from(*lane)];
            self.positions[*at as usize] = *position;
            *at += 1;
        }
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    /// How many positions of a lane were kept.
    pub(super) fn count(&self, lane: u8) -> i64 {
        let lane = usize::from(lane);
        i64::from(self.starts[lane + 1] - self.starts[lane])
    }

    /// A lane's position at this turn.
    pub(super) fn position(&self, lane: u8, turn: i64) -> i64 {
        self.positions[self.starts[usize::from(lane)] as usize + turn as usize]
    }
}
