//! How much memory each lane of a cohort gets.

use crate::abi::LaneResult;
use crate::abi::layout::UNIT;
use crate::layout::Layout;
use crate::program::Stage;

/// Shares of the lanes' regions: how many of each a lane gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Bytes of a run, a multiple of 16.
    pub(crate) run: u32,
    /// Segments.
    pub(crate) segments: u32,
    /// Bytes of texts made, a multiple of 16.
    pub(crate) text: u32,
    /// Queries to a backend.
    pub(crate) queries: u32,
    /// Headers.
    pub(crate) headers: u32,
}

/// The room for so much: in steps of powers of two, so that a page settles after a few cohorts, up
/// to the largest that there is.
pub(crate) fn step(needed: u32) -> u32 {
    needed.checked_next_power_of_two().unwrap_or(1 << 31)
}

/// How much room each lane gets in a launch. What is too small is found out on the device, made
/// larger and remembered, so that the next cohort of the page has it from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Of the lanes' regions.
    pub(crate) shares: Shares,
    /// Rows of an answer.
    pub(crate) items: u32,
    /// Rows of a tile of columns.
    pub(crate) rows: u32,
    /// Bytes delivered of bodies, a lane.
    pub(crate) body: u32,
    /// Bytes delivered of texts, a lane.
    pub(crate) texts: u32,
}

impl Room {
    /// The most that is remembered of a page, or one odd request would make all that come after it
    /// pay for room that they do not need.
    pub(crate) const REMEMBERED_MAX: Room = Room {
        shares: Shares {
            run: 64 << 10,
            segments: 4 << 10,
            text: 16 << 10,
            queries: 256,
            headers: 64,
        },
        items: 256,
        rows: 16 << 10,
        body: 256 << 10,
        texts: 16 << 10,
    };

    /// A first guess, from what the programs of these stages say.
    pub(crate) fn guess<'a>(stages: impl Iterator<Item = &'a Stage>, layout: Layout) -> Room {
        let mut shares = Shares {
            run: 1024,
            segments: 4,
            text: 16,
            queries: 0,
            headers: 0,
        };
        for stage in stages {
            shares.segments = shares.segments.max(stage.segments);
            shares.queries = shares.queries.max(stage.queries);
            shares.headers = shares.headers.max(stage.headers);
            if stage.makes_texts {
                shares.text = 256;
            }
        }
        Room {
            shares,
            items: 16,
            rows: 1024,
            body: if layout == Layout::Runs {
                4 << 10
            } else {
                16 << 10
            },
            texts: 64,
        }
    }

    /// Grows what was too small for a lane.
    pub(crate) fn grow(&mut self, result: &LaneResult) {
        let fit = |room: &mut u32, needed: u32| {
            if needed > *room {
                *room = step(needed);
            }
        };
        let shares = &mut self.shares;
        fit(&mut shares.run, result.run_length.max(UNIT as u32));
        fit(&mut shares.segments, result.segment_count);
        fit(&mut shares.queries, result.query_count);
        fit(&mut shares.headers, result.header_count);
        // A lane stops at the first text without room, so what it used says little of what it
        // needs.
        if result.text_used > shares.text {
            shares.text = step(result.text_used)
                .max(step(shares.text.saturating_mul(4)))
                .max(64);
        }
    }

    /// What is remembered after a job: the larger of each, within bounds.
    pub(crate) fn remember(&mut self, job: &Room) {
        let keep = |room: &mut u32, needed: u32, most: u32| *room = (*room).max(needed.min(most));
        let (shares, needed) = (&mut self.shares, &job.shares);
        let most = Room::REMEMBERED_MAX;
        keep(&mut shares.run, needed.run, most.shares.run);
        keep(&mut shares.segments, needed.segments, most.shares.segments);
        keep(&mut shares.text, needed.text, most.shares.text);
        keep(&mut shares.queries, needed.queries, most.shares.queries);
        keep(&mut shares.headers, needed.headers, most.shares.headers);
        keep(&mut self.items, job.items, most.items);
        keep(&mut self.rows, job.rows, most.rows);
        keep(&mut self.body, job.body, most.body);
        keep(&mut self.texts, job.texts, most.texts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::read;

    #[test]
    fn room_grows_as_far_as_can_be_said() {
        let mut room = Room::guess(std::iter::empty(), Layout::Row);
        let most = LaneResult {
            run_length: u32::MAX,
            text_used: u32::MAX,
            ..read(&[0; size_of::<LaneResult>()])
        };
        room.shares.text = 1 << 30;
        room.grow(&most);
        assert_eq!([room.shares.run, room.shares.text], [1 << 31; 2]);
        // No more helps: its lane is the host's.
        let before = room;
        room.grow(&most);
        assert_eq!(room, before);
    }

    #[test]
    fn what_is_remembered_grows_within_bounds() {
        let first = Room::guess(std::iter::empty(), Layout::Row);
        let more = Room {
            shares: Shares {
                run: 2048,
                segments: 40,
                ..first.shares
            },
            rows: 4096,
            ..first
        };
        let mut room = first;
        room.remember(&more);
        assert_eq!(room, more);
        // Less leaves it as it is.
        room.remember(&first);
        assert_eq!(room, more);
        let most = u32::MAX;
        room.remember(&Room {
            shares: Shares {
                run: most,
                segments: most,
                text: most,
                queries: most,
                headers: most,
            },
            items: most,
            rows: most,
            body: most,
            texts: most,
        });
        let shares = room.shares;
        assert!(room.items <= 256 && room.rows <= 16 << 10 && room.body <= 256 << 10);
        assert!(shares.run <= 64 << 10 && shares.text <= 16 << 10 && room.texts <= 16 << 10);
        assert!(shares.segments <= 4 << 10 && shares.queries <= 256 && shares.headers <= 64);
        // The kernels store whole units.
        assert!(
            [shares.run, shares.text]
                .iter()
                .all(|share| share % 16 == 0)
        );
    }
}
