//! What a cohort's lanes answer: runs and fragments, stitched just before they are sent.
//!
//! The long static texts of a page (*fragments*) are the same for every lane, so an executor writes
//! only what differs (*runs*, short static text folded in) and where the fragments go. `runs` holds
//! a region a lane; `segments` says for each lane: after so many bytes of the run comes this
//! fragment. The body's length, hence Content-Length, is known before a byte of it is assembled,
//! which replaces the white space that the paper patches afterwards (section 4.3.2, *Whitespace
//! Padding in HTML Headers*).

use super::arena::View;
use super::budget::{Lease, Share};
use super::need::Need;
use crate::program::FragmentId;
use std::ops::Range;
use std::rc::Rc;
use zerocopy::FromZeros;

/// A fragment's place in a lane's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// The fragment comes when this many bytes of the lane's run have been sent.
    pub run_end: u32,
    /// Which fragment.
    pub fragment: u32,
}

/// What an answer does to sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionChange {
    /// Nothing.
    #[default]
    None,
    /// One is created for this user id.
    Create(i64),
    /// The request's own is destroyed.
    Destroy,
}

/// A lane's answer: where its run and segments are, and what goes into its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOutput {
    /// Where its run starts in [`Output::runs`].
    pub run_start: usize,
    /// Length of its run, bytes.
    pub run_length: u32,
    /// Where its segments start in [`Output::segments`].
    pub segment_start: u32,
    /// How many segments.
    pub segment_count: u32,
    /// Length of its body, bytes: the run and all fragments.
    pub body_length: u32,
    /// HTTP status; 200 unless the program sets it.
    pub status: u16,
    /// What happens to the session.
    pub session: SessionChange,
    /// The body is this file of `static/` instead.
    pub file: Option<View>,
}

impl Default for LaneOutput {
    /// An empty answer, 200.
    fn default() -> Self {
        LaneOutput {
            run_start: 0,
            run_length: 0,
            segment_start: 0,
            segment_count: 0,
            body_length: 0,
            status: 200,
            session: SessionChange::None,
            file: None,
        }
    }
}

/// The answers of a cohort's finished lanes.
#[derive(Debug, Default)]
pub struct Output {
    /// A slot for each lane, meaningful where the lane is finished.
    pub lanes: Vec<LaneOutput>,
    /// The lanes' runs. Its length is what was needed of late; the lanes' slots say what is meant.
    pub runs: Vec<u8>,
    /// The lanes' segments, likewise.
    pub segments: Vec<Segment>,
    /// How much of `runs` this cohort uses.
    pub runs_used: usize,
    /// How much of `segments` this cohort uses.
    pub segments_used: usize,
    /// Headers of lanes: lane, index into the program's header names, value in the cohort's arena.
    /// In order of lanes, and for one lane in the order set.
    pub headers: Vec<(u32, u16, View)>,
    /// Of lanes, runs, segments and headers.
    need: [Need; 4],
    /// For runs and segments.
    lease: Lease,
}

impl Output {
    /// An empty one of a cohort's share, usually of no more than so many bytes.
    pub(super) fn of_share(share: &Rc<Share>, usual_max: usize) -> Output {
        Output {
            lease: Lease::for_answers(share, usual_max),
            ..Output::default()
        }
    }

    /// Empties it for another pass of the stage, whose lanes come after those that are answered.
    pub(super) fn begin_pass(&mut self) {
        (self.runs_used, self.segments_used) = (0, 0);
    }

    /// Empties it, keeping its memory but what was not needed of late.
    pub fn clear(&mut self) {
        let [lanes, runs, segments, headers] = &mut self.need;
        lanes.needed(self.lanes.len());
        runs.needed(self.runs_used);
        segments.needed(self.segments_used);
        headers.needed(self.headers.len());
        self.lanes.clear();
        self.headers.clear();
        self.runs_used = 0;
        self.segments_used = 0;
        lanes.shrink(&mut self.lanes);
        runs.shrink(&mut self.runs);
        segments.shrink(&mut self.segments);
        headers.shrink(&mut self.headers);
        self.lease.keep(self.region_capacity());
    }

    /// Gives the memory of runs and segments back, which nobody needs any more.
    pub(super) fn give_back(&mut self) {
        self.begin_pass();
        (self.runs, self.segments) = (Vec::new(), Vec::new());
        self.lease.keep(0);
    }

    /// Gives all memory of an empty one back.
    pub(super) fn forget(&mut self) {
        debug_assert!(self.lanes.is_empty(), "what is in use is not forgotten");
        self.lanes = Vec::new();
        self.headers = Vec::new();
        self.give_back();
    }

    /// Bytes that it has of the system for runs and segments.
    fn region_capacity(&self) -> usize {
        self.runs.capacity() + self.segments.capacity() * size_of::<Segment>()
    }

    /// Bytes that it has of the system.
    pub(super) fn capacity(&self) -> usize {
        self.region_capacity()
            + self.lanes.capacity() * size_of::<LaneOutput>()
            + self.headers.capacity() * size_of::<(u32, u16, View)>()
    }

    /// Of so many regions, each of so many bytes of `runs` and so many of `segments`, how many
    /// there is room for beside those that are in use, where runs take no more than `runs_max`. One
    /// always has room for one, but where the cohort is short.
    pub(crate) fn lease_regions(
        &self,
        regions: usize,
        run_bytes: usize,
        segments: usize,
        runs_max: usize,
    ) -> usize {
        let alone = usize::from(self.runs_used == 0);
        let fit = runs_max.saturating_sub(self.runs_used) / run_bytes;
        let mut fit = regions.min(fit.max(alone));
        while fit > 0 {
            let runs = self.runs_used + fit * run_bytes;
            let segments = self.segments_used + fit * segments;
            if self.lease.covers(runs + segments * size_of::<Segment>()) {
                break;
            }
            fit /= 2;
        }
        fit
    }

    /// Reserves a region of so many bytes of `runs` and so many of `segments`, and gives where each
    /// starts; `None` where the system has no memory for it. The contents are what an earlier
    /// cohort left: clearing them would cost as much as rendering.
    pub(crate) fn reserve(&mut self, run_bytes: usize, segments: usize) -> Option<(usize, usize)> {
        let at = (self.runs_used, self.segments_used);
        let (runs, segments) = (at.0 + run_bytes, at.1 + segments);
        if self.runs.len() < runs && at.0 == 0 {
            // Nothing of it is in use. What the system has cleared is cleared, and of a long answer
            // what is not written never becomes memory.
            self.runs = Vec::new();
            self.runs = u8::new_vec_zeroed(runs).ok()?;
        } else if self.runs.len() < runs {
            // No more than is needed: it is large.
            (self.runs.try_reserve_exact(runs - self.runs.len())).ok()?;
            self.runs.resize(runs, 0);
        }
        if self.segments.len() < segments {
            (self.segments.try_reserve(segments - self.segments.len())).ok()?;
            self.segments.resize(segments, Segment::default());
        }
        (self.runs_used, self.segments_used) = (runs, segments);
        Some(at)
    }

    /// Takes back the regions that were reserved last, from here on.
    pub(crate) fn take_back(&mut self, run_start: usize, segment_start: usize) {
        (self.runs_used, self.segments_used) = (run_start, segment_start);
    }

    /// A lane's run.
    pub fn run(&self, lane: usize) -> &[u8] {
        let output = &self.lanes[lane];
        &self.runs[output.run_start..][..output.run_length as usize]
    }

    /// What a lane's body is made of, in order: parts of its run, and the fragment behind each but
    /// the last.
    pub fn parts(&self, lane: usize) -> impl Iterator<Item = (Range<usize>, Option<FragmentId>)> {
        let output = &self.lanes[lane];
        let segments =
            &self.segments[output.segment_start as usize..][..output.segment_count as usize];
        let mut at = 0;
        segments
            .iter()
            .map(|segment| (segment.run_end as usize, Some(segment.fragment)))
            .chain(std::iter::once((output.run_length as usize, None)))
            .map(move |(end, fragment)| (std::mem::replace(&mut at, end)..end, fragment))
    }

    /// The pieces of a lane's body, in order: parts of its run, and fragments.
    pub fn pieces<'a>(
        &'a self,
        lane: usize,
        fragments: &'a [Box<[u8]>],
    ) -> impl Iterator<Item = &'a [u8]> {
        let run = self.run(lane);
        self.parts(lane).flat_map(move |(part, fragment)| {
            let fragment = fragment.map_or(&[][..], |fragment| &*fragments[fragment as usize]);
            [&run[part], fragment]
        })
    }

    /// Appends a lane's body to `to`.
    pub fn stitch(&self, lane: usize, fragments: &[Box<[u8]>], to: &mut Vec<u8>) {
        to.reserve(self.lanes[lane].body_length as usize);
        for piece in self.pieces(lane, fragments) {
            to.extend_from_slice(piece);
        }
    }
}
