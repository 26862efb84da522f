//! What an executor is made with, and the host's memory that this lets it take.
//!
//! A slot has buffers on the host, most of them page-locked: what goes to the device (a cohort's
//! columns and texts) and what comes back (results, queries, headers, bodies or their runs). They
//! grow to what cohorts need and are kept, so all of them are counted at their largest.

use crate::abi::layout::{LaneOffsets, UNIT};
use crate::abi::{WARP, column_slots};
use crate::cohort::room::Room;
use crate::gpu::{Extents, grown};
use crate::layout::Layout;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;

/// What an executor is to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How answers are made on the device and brought to the host.
    pub layout: Layout,
    /// What a lane may ask for.
    pub limits: LaneLimits,
    /// Cohorts on the device at a time, at least 1: each has memory of its own.
    pub in_flight: usize,
    /// Lanes of a usual cohort: each slot has memory for so many of a usual page from the start.
    pub cohort: usize,
    /// Users of the embedded BeSim, where the device may answer for it.
    pub besim_users: Option<u32>,
    /// Most memory, in bytes, for the lanes of one launch: larger cohorts run in several launches,
    /// one after the other.
    pub launch_bytes: usize,
    /// Most of it that is brought to the host, but for what one lane has.
    pub delivered_bytes: usize,
    /// How much the host does in one pass of a stage that is left to it; see
    /// [`HostExecutor::in_passes_of`](rhythm_engine::device::host::HostExecutor::in_passes_of).
    pub pass_work_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            layout: Layout::default(),
            limits: LaneLimits::default(),
            in_flight: 4,
            cohort: 0,
            besim_users: None,
            launch_bytes: 1 << 30,
            delivered_bytes: 1 << 30,
            pass_work_max: usize::MAX,
        }
    }
}

/// Bytes of the host's memory that each lane of a usual cohort has from the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstBytes {
    pub(super) columns: usize,
    pub(super) texts: usize,
    pub(super) delivered: usize,
    pub(super) counts: usize,
}

impl Options {
    /// What a slot's buffers on the host have for each lane from the start: what Banking's pages
    /// need, and round.
    pub(super) fn first_bytes(&self) -> FirstBytes {
        let body = match self.layout {
            Layout::Runs => 2 << 10,
            _ => 32 << 10,
        };
        FirstBytes {
            columns: 512,
            texts: 1024,
            delivered: 1024 + body,
            counts: 1024,
        }
    }

    /// The most bytes of the host's memory that an executor's slots take, for cohorts of a server
    /// of this service: of no more lanes and texts than it lets them have.
    #[must_use]
    pub fn host_bytes_max(&self, service: &Service) -> usize {
        self.in_flight
            .max(1)
            .saturating_mul(self.slot_bytes_max(service))
    }

    /// The same of one slot.
    pub(super) fn slot_bytes_max(&self, service: &Service) -> usize {
        let (cohort, first) = (&service.config.cohort, self.first_bytes());
        let lanes = cohort.size as usize;
        let slots = service.pages.iter().map(|page| column_slots(page).1);
        let slots = slots.max().unwrap_or(0) as usize;
        // The cells of lists count as texts.
        let texts = cohort.arena_bytes_max as usize + UNIT;
        // The cells of lists count as texts.
        let columns = texts + slots * (lanes * size_of::<u64>() + 2 * UNIT) + 4 * (lanes + UNIT);
        let counts = (lanes + WARP) * (size_of::<LaneOffsets>() + size_of::<u32>()) + PLACES_MAX;
        let delivered = self.delivered_bytes + self.lane_delivered_max() + PLACES_MAX;
        let most = |first: usize, bytes: usize| (first * self.cohort).max(grown(bytes));
        // Columns are packed in a vector, then copied to page-locked memory.
        (2 * columns)
            .saturating_add(most(first.columns, columns))
            .saturating_add(most(first.texts, texts))
            .saturating_add(most(first.delivered, delivered))
            .saturating_add(most(first.counts, counts))
    }

    /// The most that a launch delivers beyond `delivered_bytes`: what one lane has, and in columns
    /// the others of its tile.
    fn lane_delivered_max(&self) -> usize {
        let remembered = Room::REMEMBERED_MAX;
        // Rooms grow by powers of two.
        let body = (2 * self.limits.body_bytes_max).max(remembered.body as usize);
        let texts = (2 * self.limits.text_bytes_max).max(remembered.texts as usize);
        let segments = body / 4;
        let bodies = match self.layout {
            Layout::C => WARP * body.max(remembered.rows as usize * UNIT),
            _ => body + segments,
        };
        // Queries and headers have their places, of the size of a short text each.
        bodies + 2 * texts
    }
}

/// Bytes at most between what is placed in a buffer, for its alignment.
const PLACES_MAX: usize = 8 * Extents::ALIGN;
