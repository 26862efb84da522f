//! An executor whose pages are only their runs: the answers of a server whose socket gathers the
//! fragments from where they lie, so that no fragment is copied here.

use rhythm_engine::device::{Executor, Refusal, Work};

/// Takes the fragments out of what an executor has rendered.
pub(super) struct RunsOnly(pub(super) Box<dyn Executor>);

impl Executor for RunsOnly {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        self.0.submit(work)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        let before = done.len();
        self.0.poll(done);
        for work in &mut done[before..] {
            for lane in &mut work.cohort.output.lanes {
                lane.segment_count = 0;
                lane.body_length = lane.run_length;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}
