//! The table of column addresses that kernels get, and its slots.

use crate::gpu::{Address, Buffer, DeviceId, Field, Home, Slice};
use rhythm_engine::program::{FieldType, PageProgram};

/// The first slot of each field's columns in the table of column addresses that kernels get, and
/// the number of slots: a scalar field has one (a `View` or `i64` a lane), a list field one for
/// its spans and then one for each column of its records.
#[must_use]
pub fn column_slots(program: &PageProgram) -> (Vec<u32>, u32) {
    let mut next = 0;
    let slots = program.fields.iter().map(|field| {
        let first = next;
        next += match &field.kind {
            FieldType::Scalar(_) => 1,
            FieldType::List(columns) => 1 + columns.len() as u32,
        };
        first
    });
    (slots.collect(), next)
}

/// The addresses of a cohort's columns by slot, in the device's memory; see [`column_slots`].
#[derive(Clone, Copy, Debug)]
pub struct Columns<'m> {
    table: Slice<'m, Address>,
}

impl<'m> Columns<'m> {
    /// The columns that a table says when work that is put into a stream after this reads it: as
    /// many as the page has slots, of a value for each lane, and of lists of as many items as the
    /// lanes' spans reach. They are all in these buffers.
    #[must_use]
    pub fn new<H: Home + 'm>(
        table: Slice<'m, Address>,
        _buffers: impl IntoIterator<Item = &'m Buffer<H>>,
    ) -> Columns<'m> {
        // Borrowed for as long as the table is, which is all that is asked of the buffers.
        Columns { table }
    }
}

impl Field for Columns<'_> {
    type Raw = Address;
    type Counted = Self;
    const POINTEE: Option<fn() -> &'static str> = Slice::<'static, Address>::POINTEE;

    fn counted(self) -> Self {
        self
    }

    fn lower(self, device: DeviceId) -> Address {
        self.table.lower(device)
    }
}
