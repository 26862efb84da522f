//! Where in the sources a lane failed: it is run once more, by itself, when a line of the log is to
//! tell. So no executor has to remember where it is.

use super::lane::{Lane, Stop};
use crate::cohort::{Cohort, LaneError};
use crate::device::LaneLimits;
use crate::program::{Service, Spot};

/// Where in the sources a lane of a cohort failed for `error` in stage `stage`, which it ran last;
/// `None` where nothing of the page tells: another has failed it, or the cohort.
///
/// It takes as long as that stage of the lane did, and memory for its texts and its answer.
pub fn locate<'s>(
    service: &'s Service,
    page: usize,
    cohort: &Cohort,
    lane: usize,
    stage: usize,
    error: LaneError,
    limits: LaneLimits,
) -> Option<Spot<'s>> {
    let program = service.pages.get(page)?;
    let mut alone = cohort.copy_of_lane(program, lane)?;
    alone.stage = stage;
    let of_stage = program.stages.get(stage)?;
    let mut lane = Lane::begin(program, &service.fragments, &mut alone, 0, limits);
    match lane.run(&of_stage.body) {
        Err(Stop::Failed(again)) if again == error => of_stage.spots.of(lane.failed_at?),
        _ => None,
    }
}
