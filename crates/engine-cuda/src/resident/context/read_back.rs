//! What a cohort came to, brought to the host: to size memory, to look at answers, to count bytes.
//! Not for speed.
#![allow(unsafe_code)]

use super::Context;
use crate::abi::{LaneResult, Outcome};
use crate::cohort::Tiles;
use crate::executor::upload::read;
use crate::gpu::{Address, GpuError};
use crate::launch::{PAD, UNIT, WARP};
use crate::layout::Layout;
use crate::resident::answer::Answer;
use rhythm_engine::cohort::Segment;

impl Context {
    /// What the cohort's lanes came to, and the counters: after the stream has been waited for.
    pub(in crate::resident) fn results(&mut self) -> Result<(Vec<LaneResult>, [u32; 4]), GpuError> {
        let Some(cohort) = self.cohort else {
            return Ok((Vec::new(), [0; 4]));
        };
        let lanes = cohort.lanes as usize;
        let bytes = lanes * size_of::<LaneResult>();
        let results = self.bring_back(cohort.results, bytes)?;
        let results = (0..lanes).map(|lane| read(&results, 0, lane)).collect();
        let counters = self.bring_back(cohort.counters, 16)?;
        Ok((results, [0, 1, 2, 3].map(|index| read(&counters, 0, index))))
    }

    /// The answers of the cohort just run, as they would be sent: stitched by the host where only
    /// runs left the device, gathered where they are columns. For looking at them, not for speed.
    pub(in crate::resident) fn answers(
        &mut self,
        layout: Layout,
        fragments: &[Box<[u8]>],
    ) -> Result<Vec<Answer>, GpuError> {
        let (Some(cohort), Some(plan)) = (self.cohort, self.plan.clone()) else {
            return Ok(Vec::new());
        };
        let (results, _) = self.results()?;
        let lanes = results.len();
        let base = self.memory.address();
        let count = self.bring_back(base.plus(self.places.lane_count), 4)?;
        let count = (read::<u32>(&count, 0, 0) as usize).min(lanes);
        let tickets = self.bring_back(base.plus(self.places.tickets), lanes * 4)?;
        let heads = self.bring_back(base.plus(self.places.head_lengths), lanes * 4)?;
        let out = match layout {
            Layout::C => {
                self.bring_back(self.tiles.address(), Tiles::bytes(lanes, plan.room.rows))?
            }
            _ => self.bring_back(base.plus(self.places.out), self.places.out_bytes)?,
        };
        let tile_rows =
            self.bring_back(base.plus(self.places.tile_rows), Tiles::count(lanes) * 4)?;
        let stride = cohort.regions.segment_stride as usize;
        let segments = self.bring_back(
            cohort.regions.segments,
            lanes * stride * size_of::<Segment>(),
        )?;
        let answers = results
            .iter()
            .enumerate()
            .take(count)
            .map(|(lane, result)| {
                let outcome = Outcome::of(result.outcome);
                let head = read::<u32>(&heads, 0, lane) as usize;
                let bytes = match (outcome, layout) {
                    (Outcome::Finished, Layout::C) => {
                        let rows: u32 = read(&tile_rows, 0, lane / WARP);
                        let tile =
                            Tiles::bytes(lane / WARP * WARP, plan.room.rows) + lane % WARP * UNIT;
                        let units =
                            (0..rows as usize).map(|row| &out[tile + row * WARP * UNIT..][..UNIT]);
                        units
                            .flat_map(|unit| unit.iter().copied().take_while(|byte| *byte != PAD))
                            .collect()
                    }
                    (Outcome::Finished, Layout::Runs) => {
                        let start = lane * plan.pitch;
                        let run = &out[start + head..][..result.run_length as usize];
                        let mut bytes = out[start..start + head].to_vec();
                        let mut at = 0;
                        for index in 0..result.segment_count as usize {
                            let segment: Segment = read(&segments, 0, lane * stride + index);
                            bytes.extend_from_slice(&run[at..segment.run_end as usize]);
                            bytes.extend_from_slice(&fragments[segment.fragment as usize]);
                            at = segment.run_end as usize;
                        }
                        bytes.extend_from_slice(&run[at..]);
                        bytes
                    }
                    (Outcome::Finished, _) => {
                        out[lane * plan.pitch..][..head + result.body_length as usize].to_vec()
                    }
                    _ => Vec::new(),
                };
                Answer {
                    request: read(&tickets, 0, lane),
                    outcome,
                    bytes,
                }
            });
        Ok(answers.collect())
    }

    /// Lanes of the cohort just run that have their answer.
    pub(in crate::resident) fn finished(&mut self) -> Result<usize, GpuError> {
        let (results, _) = self.results()?;
        let finished = |result: &&LaneResult| Outcome::of(result.outcome) == Outcome::Finished;
        Ok(results.iter().filter(finished).count())
    }

    /// Bytes written for a finished lane, and those of its answer, on average.
    pub(in crate::resident) fn answer_bytes(
        &mut self,
        layout: Layout,
    ) -> Result<[f64; 2], GpuError> {
        let (results, _) = self.results()?;
        let finished = |result: &&LaneResult| Outcome::of(result.outcome) == Outcome::Finished;
        let count = results.iter().filter(finished).count().max(1) as f64;
        let lanes = results.len();
        let base = self.memory.address();
        let heads = self.bring_back(base.plus(self.places.head_lengths), lanes * 4)?;
        let heads: u64 = (results.iter().enumerate())
            .filter(|(_, result)| finished(result))
            .map(|(lane, _)| u64::from(read::<u32>(&heads, 0, lane)))
            .sum();
        let runs_only = layout == Layout::Runs;
        let bodies = results.iter().filter(finished);
        let own: u64 = bodies
            .map(|r| {
                u64::from(if runs_only {
                    r.run_length
                } else {
                    r.body_length
                })
            })
            .sum();
        let own = (heads + own) as f64 / count;
        let written = match layout {
            Layout::Row | Layout::Runs => own,
            Layout::A | Layout::B | Layout::C => {
                let tile_rows =
                    self.bring_back(base.plus(self.places.tile_rows), Tiles::count(lanes) * 4)?;
                let rows: u64 = (0..Tiles::count(lanes))
                    .map(|tile| u64::from(read::<u32>(&tile_rows, 0, tile)))
                    .sum();
                let columns = (rows as usize * WARP * UNIT) as f64 / count;
                if layout == Layout::C {
                    columns
                } else {
                    columns + own
                }
            }
        };
        Ok([written, own])
    }

    fn bring_back(&mut self, from: Address, bytes: usize) -> Result<Vec<u8>, GpuError> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        self.back.grow(bytes)?;
        // SAFETY: the source is the context's, and the copy is waited for.
        unsafe { self.gpu.copy(self.stream, self.back.address(), from, bytes) }?;
        self.gpu.synchronize(self.stream)?;
        // SAFETY: the stream has been waited for.
        Ok(unsafe { &self.back.bytes()[..bytes] }.to_vec())
    }
}
