//! The table of column addresses that kernels get, and its slots.

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
