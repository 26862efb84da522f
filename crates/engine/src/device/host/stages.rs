//! What is known of pages from their earlier runs: how each stage is run, and what room its lanes
//! need.

use super::plan::Plan;
use super::write::SLACK;
use crate::device::limits::{FOLD_BYTES_MAX, LaneLimits};
use crate::program::Service;
use std::sync::{Arc, Weak};

/// Room for output that a lane is run with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Room {
    pub(super) run_bytes: usize,
    pub(super) segments: usize,
}

impl Room {
    /// What a lane of a page not run before gets.
    pub(super) const FIRST: Room = Room {
        run_bytes: 1024,
        segments: 32,
    };
    /// No lane gets more on the strength of what others needed.
    pub(super) const EXPECTED_MAX: Room = Room {
        run_bytes: 64 << 10,
        segments: 1024,
    };

    /// What a lane can need at most: its body is limited, and a segment stands for more than
    /// [`FOLD_BYTES_MAX`] bytes.
    pub(super) fn most(limits: LaneLimits) -> Room {
        Room {
            run_bytes: limits.body_bytes_max,
            segments: limits.body_bytes_max / FOLD_BYTES_MAX + 1,
        }
    }

    pub(super) fn at_most(self, other: Room) -> Room {
        Room {
            run_bytes: self.run_bytes.min(other.run_bytes),
            segments: self.segments.min(other.segments),
        }
    }

    pub(super) fn at_least(self, other: Room) -> Room {
        Room {
            run_bytes: self.run_bytes.max(other.run_bytes),
            segments: self.segments.max(other.segments),
        }
    }

    /// So much and so many parts of it.
    fn scaled(self, times: usize, part: usize) -> Room {
        Room {
            run_bytes: self.run_bytes * times / part,
            segments: self.segments * times / part,
        }
    }

    pub(super) fn times_four(self) -> Room {
        self.scaled(4, 1)
    }

    /// Bytes of run region a lane.
    pub(super) fn stride(self) -> usize {
        (self.run_bytes + SLACK).next_multiple_of(64)
    }
}

/// A stage of a page.
pub(super) struct Stage {
    pub(super) plan: Plan,
    /// The room that its lanes were seen to need: a hint.
    pub(super) expected: Room,
    /// What those needed, of late, that needed more: of them those that need more still are run
    /// again, and again, each time from the beginning.
    pub(super) long: Room,
    /// The work that a lane was seen to do at most, of late.
    pub(super) expected_work: usize,
}

impl Stage {
    /// Takes note of the most room that a lane of a strip needed that had so much.
    pub(super) fn expect(&mut self, needed: Room, had: Room) {
        if had.run_bytes > Room::EXPECTED_MAX.run_bytes
            || had.segments > Room::EXPECTED_MAX.segments
        {
            // The next may need a little more; of less it is by and by.
            self.long = needed.scaled(9, 8).at_least(self.long.scaled(7, 8));
        }
        let expected = self.expected.at_least(needed);
        self.expected = expected.at_most(Room::EXPECTED_MAX);
    }

    /// Takes note of the most that a lane of a strip did: of less by and by.
    pub(super) fn expect_work(&mut self, work: usize) {
        self.expected_work = work.max(self.expected_work - self.expected_work.div_ceil(8));
    }
}

/// The pages of a service. It does not keep the service, only its place in memory: no other comes
/// to be there.
struct Pages {
    service: Weak<Service>,
    /// By page, each a stage after the other; empty where it was not run yet.
    stages: Vec<Vec<Stage>>,
}

/// The stages of all services that pages are run of: of those that are served, and for a while
/// after a reload of their predecessors.
#[derive(Default)]
pub(super) struct Stages {
    services: Vec<Pages>,
}

impl Stages {
    /// A stage of a page, planned when the page is first run.
    pub(super) fn get(&mut self, service: &Arc<Service>, page: usize, stage: usize) -> &mut Stage {
        let is_it = |pages: &Pages| std::ptr::eq(pages.service.as_ptr(), Arc::as_ptr(service));
        let at = match self.services.iter().position(is_it) {
            Some(at) => at,
            None => self.add(service),
        };
        let stages = &mut self.services[at].stages[page];
        if stages.is_empty() {
            *stages = plan(service, page);
        }
        &mut stages[stage]
    }

    /// Makes room for a service, in place of those that are gone.
    #[cold]
    fn add(&mut self, service: &Arc<Service>) -> usize {
        (self.services).retain(|pages| pages.service.strong_count() > 0);
        self.services.push(Pages {
            service: Arc::downgrade(service),
            stages: service.pages.iter().map(|_| Vec::new()).collect(),
        });
        self.services.len() - 1
    }
}

#[cold]
fn plan(service: &Service, page: usize) -> Vec<Stage> {
    let program = &service.pages[page];
    let stage = |stage| {
        let plan = Plan::new(program, stage, &service.fragments);
        Stage {
            expected: Room::FIRST,
            long: Room::default(),
            expected_work: plan.once,
            plan,
        }
    };
    (0..program.stages.len()).map(stage).collect()
}
