//! What a cohort came to, brought to the host: to size memory, to look at answers, to count bytes.
//! Not for speed.

use super::answer::Answer;
use super::context::Context;
use super::memory::CohortMemory;
use crate::abi::layout::{PAD, UNIT};
use crate::abi::stage::{STRETCH_BYTES_MAX, STRETCH_FRAGMENT, STRETCH_RUN, Stretch};
use crate::abi::{LaneResult, Outcome, WARP};
use crate::cohort::bodies::Tiles;
use crate::gpu::{Extent, Gpu, GpuError, PinnedBuffer, Slice, Stream, scope};
use crate::layout::Layout;
use crate::plain::Plain;
use crate::service::DeviceService;
use rhythm_engine::cohort::Segment;
use std::ops::Range;

/// Brings what is in a context's memory to the host.
struct Reader<'a> {
    gpu: &'a dyn Gpu,
    stream: Stream,
    back: &'a mut PinnedBuffer,
}

impl Reader<'_> {
    fn read<T: Plain>(&mut self, from: Slice<'_, T>) -> Result<Vec<T>, GpuError> {
        let to = Extent::<T>::new(0, from.len());
        self.back.grow(to.range().end)?;
        let back = self.back.slice(to);
        scope(self.gpu, &[self.stream], |queue| queue.copy(back, from))?;
        let bytes = self.back.host();
        Ok((0..from.len()).map(|index| to.read(bytes, index)).collect())
    }
}

/// A stretch, which stands where a segment would: its kind, and its bytes where that lies.
fn stretch_of(at: &Segment) -> (u32, Range<usize>) {
    let stretch = Stretch {
        offset: at.run_end,
        length: at.fragment,
    };
    let start = stretch.offset as usize;
    let bytes = (stretch.length & STRETCH_BYTES_MAX) as usize;
    (stretch.length & !STRETCH_BYTES_MAX, start..start + bytes)
}

/// Whether a lane has its answer.
fn is_finished(result: &LaneResult) -> bool {
    Outcome::of(result.outcome) == Outcome::Finished
}

impl Context {
    /// Its memory, and what brings it to the host; `None` where it was never prepared.
    fn reader(&mut self) -> Option<(&CohortMemory, Reader<'_>)> {
        let reader = Reader {
            gpu: &*self.gpu,
            stream: self.stream,
            back: &mut self.back,
        };
        Some((self.memory.as_ref()?, reader))
    }

    /// What the cohort's lanes came to, and the rows needed, of items and of tiles: after the
    /// stream has been waited for.
    pub(super) fn results(
        &mut self,
        service: &DeviceService,
    ) -> Result<(Vec<LaneResult>, [u32; 2]), GpuError> {
        let Some((memory, mut reader)) = self.reader() else {
            return Ok((Vec::new(), [0; 2]));
        };
        let cohort = memory.cohort(service);
        let results = reader.read(cohort.regions.results)?;
        let rows_needed = reader.read(cohort.rows_needed)?;
        Ok((results, rows_needed.first().copied().unwrap_or_default()))
    }

    /// The answers of the cohort just run, as they would be sent: stitched by the host where there
    /// are runs alone, gathered where they are columns. For looking at them, not for speed.
    pub(super) fn answers(
        &mut self,
        layout: Layout,
        service: &DeviceService,
    ) -> Result<Vec<Answer>, GpuError> {
        let Some((memory, mut reader)) = self.reader() else {
            return Ok(Vec::new());
        };
        let cohort = memory.cohort(service);
        let results = reader.read(cohort.regions.results)?;
        let count = reader.read(memory.lane_count())?;
        let count = count.first().map_or(0, |count| *count as usize);
        let tickets = reader.read(memory.tickets())?;
        let written = Written {
            heads: reader.read(memory.heads().lengths)?,
            out: match layout {
                Layout::C => reader.read(memory.tiles().units)?,
                _ => reader.read(memory.out())?,
            },
            tile_rows: reader.read(memory.tiles().rows_used)?,
            stretches: reader.read(cohort.regions.segments)?,
            arena: match layout {
                Layout::Runs => reader.read(cohort.arena)?,
                _ => Vec::new(),
            },
            fragment_bytes: reader.read(service.at(service.fragment_bytes))?,
            memory,
        };
        let lanes = results.iter().enumerate().take(count);
        let answers = lanes.map(|(lane, result)| Answer {
            request: tickets[lane],
            outcome: Outcome::of(result.outcome),
            bytes: match (is_finished(result), layout) {
                (false, _) => Vec::new(),
                (true, Layout::C) => written.column(lane),
                (true, Layout::Runs) => written.stitched(lane, result),
                (true, _) => written.row(lane, result.body_length).to_vec(),
            },
        });
        Ok(answers.collect())
    }

    /// Lanes of the cohort just run that have their answer.
    pub(super) fn finished(&mut self, service: &DeviceService) -> Result<usize, GpuError> {
        let (results, _) = self.results(service)?;
        Ok(results.iter().filter(|result| is_finished(result)).count())
    }

    /// Bytes written for a finished lane, and those of its answer, on average.
    pub(super) fn answer_bytes(
        &mut self,
        layout: Layout,
        service: &DeviceService,
    ) -> Result<[f64; 2], GpuError> {
        let Some((memory, mut reader)) = self.reader() else {
            return Ok([0.0; 2]);
        };
        let results = reader.read(memory.cohort(service).regions.results)?;
        let heads = reader.read(memory.heads().lengths)?;
        let lanes = results.iter().zip(heads);
        let finished: Vec<_> = lanes.filter(|(result, _)| is_finished(result)).collect();
        let count = finished.len().max(1) as f64;
        let own = finished.iter().map(|(result, head)| {
            let body = match layout {
                Layout::Runs => result.run_length,
                _ => result.body_length,
            };
            u64::from(*head) + u64::from(body)
        });
        let own = own.sum::<u64>() as f64 / count;
        let stretches = finished
            .iter()
            .map(|(result, _)| result.segment_count as usize);
        let stretches = (stretches.sum::<usize>() * size_of::<Stretch>()) as f64 / count;
        let tile_rows = reader.read(memory.tiles().rows_used)?;
        let rows: u64 = tile_rows.iter().map(|rows| u64::from(*rows)).sum();
        let columns = (rows as usize * WARP * UNIT) as f64 / count;
        let written = match layout {
            Layout::Row => own,
            // And what else there is, and where.
            Layout::Runs => own + stretches,
            Layout::C => columns,
            Layout::A | Layout::B => columns + own,
        };
        Ok([written, own])
    }
}

/// What a cohort's lanes have written, on the host.
struct Written<'a> {
    memory: &'a CohortMemory,
    /// Lengths of heads.
    heads: Vec<u32>,
    /// Of layout C the tiles; else a lane's bytes every so many.
    out: Vec<u8>,
    tile_rows: Vec<u32>,
    /// Of layouts without columns, by number and then by lane.
    stretches: Vec<Segment>,
    /// Of layout Runs alone.
    arena: Vec<u8>,
    fragment_bytes: Vec<u8>,
}

impl Written<'_> {
    /// A lane's head and what comes behind it.
    fn row(&self, lane: usize, length: u32) -> &[u8] {
        let start = lane * self.memory.needs.pitch;
        &self.out[start..][..(self.heads[lane] + length) as usize]
    }

    /// A lane's answer from its head and stretches.
    fn stitched(&self, lane: usize, result: &LaneResult) -> Vec<u8> {
        let (head, run) = (self.row(lane, result.run_length)).split_at(self.heads[lane] as usize);
        let stretches = self.stretches[lane..].iter().step_by(self.heads.len());
        let mut bytes = head.to_vec();
        for stretch in stretches.take(result.segment_count as usize) {
            let (kind, range) = stretch_of(stretch);
            bytes.extend_from_slice(match kind {
                STRETCH_RUN => &run[range],
                STRETCH_FRAGMENT => &self.fragment_bytes[range],
                _ => &self.arena[range],
            });
        }
        bytes
    }

    /// A lane's answer from its column.
    fn column(&self, lane: usize) -> Vec<u8> {
        let first = Tiles::bytes(lane / WARP * WARP, self.memory.needs.room.rows);
        let first = first + lane % WARP * UNIT;
        let rows = 0..self.tile_rows[lane / WARP] as usize;
        let units = rows.map(|row| &self.out[first + row * WARP * UNIT..][..UNIT]);
        units
            .flat_map(|unit| unit.iter().copied().take_while(|byte| *byte != PAD))
            .collect()
    }
}
