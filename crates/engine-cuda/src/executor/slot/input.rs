//! What a launch is given: the cohort's columns and texts, and which of its lanes, packed for one
//! copy.

use super::footprint::Footprint;
use crate::abi::Columns;
use crate::abi::layout::UNIT;
use crate::executor::job::Job;
use crate::executor::options::FirstBytes;
use crate::gpu::{
    Address, DeviceBuffer, Extent, Extents, GpuError, PinnedBuffer, Queue, SharedGpu, Slice,
};
use crate::program::Page;
use crate::upload::Bundle;
use rhythm_engine::cohort::Column;

/// Where a slot's column is; all values of columns have 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnPlace {
    /// Among what was copied in.
    Input(Extent<u64>),
    /// A pool of items that the device decodes.
    Items(Extent<u64>),
}

/// Where what was packed is.
#[derive(Clone, Copy, Debug, Default)]
struct InputExtents {
    table: Extent<Address>,
    lane_list: Extent<u32>,
    rows_needed: Extent<[u32; 2]>,
    arena_bytes: usize,
}

/// The input of a slot's launches, in the host's memory and in the device's.
#[derive(Debug)]
pub(super) struct Input {
    bundle: Bundle,
    pinned: PinnedBuffer,
    device: DeviceBuffer,
    arena_pinned: PinnedBuffer,
    arena: DeviceBuffer,
    items: DeviceBuffer,
    places: InputExtents,
    /// By slot.
    columns: Vec<ColumnPlace>,
}

impl Input {
    /// Memory for cohorts of so many lanes of a usual page, with so many bytes of answers a lane.
    pub(super) fn new(
        gpu: &SharedGpu,
        lanes: usize,
        first: &FirstBytes,
        answers: usize,
    ) -> Result<Input, GpuError> {
        Ok(Input {
            bundle: Bundle::default(),
            pinned: PinnedBuffer::new(gpu, lanes * first.columns)?,
            device: DeviceBuffer::new(gpu, lanes * first.columns)?,
            arena_pinned: PinnedBuffer::new(gpu, lanes * first.texts)?,
            arena: DeviceBuffer::new(gpu, lanes * (2048 + answers))?,
            items: DeviceBuffer::new(gpu, lanes * 1024)?,
            places: InputExtents::default(),
            columns: Vec::new(),
        })
    }

    /// Bytes of the host's memory that it has.
    pub(super) fn host_bytes(&self) -> usize {
        self.bundle.capacity() + self.pinned.len() + self.arena_pinned.len()
    }

    /// Packs what the device needs of the job's cohort. Nothing of the slot's is under way.
    pub(super) fn pack(&mut self, job: &Job, footprint: &Footprint) -> Result<(), GpuError> {
        let cohort = &job.work.cohort;
        self.bundle.clear();
        let items = self.pack_columns(job, &job.service.pages[job.work.page].page);
        let lanes = &job.pending[..footprint.lanes];
        let lane_list = self.bundle.push(lanes);
        let rows_needed = self.bundle.reserve(1);
        let table = self.pack_table(items)?;
        self.places = InputExtents {
            table,
            lane_list,
            rows_needed,
            arena_bytes: footprint.text_base,
        };
        let (bytes, arena) = (self.bundle.bytes(), cohort.arena.bytes());
        self.pinned.grow(bytes.len().max(UNIT))?;
        self.arena_pinned.grow(footprint.text_base.max(UNIT))?;
        self.arena.grow(footprint.arena_bytes)?;
        self.pinned.host()[..bytes.len()].copy_from_slice(bytes);
        self.arena_pinned.host()[..arena.len()].copy_from_slice(arena);
        Ok(())
    }

    /// Packs the columns; gives the bytes of the pools of those lists that the launch decodes.
    fn pack_columns(&mut self, job: &Job, page: &Page) -> usize {
        let cohort = &job.work.cohort;
        debug_assert_eq!(job.work.program().fields.len(), page.slots.len());
        let decoded = |slot: u32| {
            let calls = job.first + 1..=job.last;
            (calls.into_iter()).any(|stage| page.decodings[stage - 1].spans == Some(slot))
        };
        let mut pools = Extents::default();
        let (places, bundle) = (&mut self.columns, &mut self.bundle);
        places.clear();
        for (field, &slot) in cohort.fields.iter().zip(&page.slots) {
            places.push(ColumnPlace::Input(pack_column(bundle, field)));
            let Column::List(list) = field else {
                continue;
            };
            for column in &list.columns {
                places.push(if decoded(slot) {
                    let items = cohort.len() * job.room.items as usize;
                    ColumnPlace::Items(pools.take(items))
                } else {
                    ColumnPlace::Input(pack_column(bundle, column))
                });
            }
        }
        pools.bytes()
    }

    /// Packs the table of the columns' addresses, last: what is grown for it must not move again.
    fn pack_table(&mut self, items: usize) -> Result<Extent<Address>, GpuError> {
        let table = Extent::<Address>::new(self.bundle.bytes().len(), self.columns.len());
        self.device.grow(table.range().end.next_multiple_of(UNIT))?;
        self.items.grow(items)?;
        let addresses: Vec<Address> = (self.columns.iter())
            .map(|place| match *place {
                ColumnPlace::Input(place) => self.device.slice(place).address(),
                ColumnPlace::Items(place) => self.items.slice(place).address(),
            })
            .collect();
        Ok(self.bundle.push(&addresses))
    }

    /// Puts the copies to the device into a queue.
    pub(super) fn copy<'m>(&'m self, queue: &Queue<'m>) -> Result<(), GpuError> {
        let bytes = self.bundle.bytes().len();
        queue.copy(self.device.first(bytes), self.pinned.first(bytes))?;
        let bytes = self.places.arena_bytes;
        queue.copy(self.arena.first(bytes), self.arena_pinned.first(bytes))
    }

    /// Which lanes of the cohort.
    pub(super) fn lane_list(&self) -> Slice<'_, u32> {
        self.device.slice(self.places.lane_list)
    }

    /// The columns.
    pub(super) fn columns(&self) -> Columns<'_> {
        // A column of the cohort or a pool for its lanes for each slot of the page: `pack` wrote
        // the table when the buffers had grown, and `copy` is put into the stream before any work
        // that reads it.
        Columns::new(
            self.device.slice(self.places.table),
            [&self.device, &self.items],
        )
    }

    /// What the device counts, zeros before.
    pub(super) fn rows_needed(&self) -> Slice<'_, [u32; 2]> {
        self.device.slice(self.places.rows_needed)
    }

    /// The arena.
    pub(super) fn arena(&self) -> Slice<'_, u8> {
        self.arena.first(self.arena.len())
    }
}

/// Packs a scalar field's values, or a list's spans.
fn pack_column(bundle: &mut Bundle, column: &Column) -> Extent<u64> {
    match column {
        Column::Text(views) => bundle.push(views).cast(),
        Column::Int(values) => bundle.push(values).cast(),
        Column::List(list) => bundle.push(&list.spans).cast(),
    }
}
