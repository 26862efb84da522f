//! A page's programs, and what the host must know of them.

use super::stage::{Form, Stage, bits};
use crate::abi::column_slots;
use crate::abi::stage::{DecodedColumn, Fragment};
use rhythm_engine::program::{CallResult, FieldType, PageProgram, Type};

/// What a call's answers are decoded to: slots of columns, and their types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoding {
    /// The slot of the status.
    pub(crate) status: u32,
    /// The slot of the spans; `None` where there is one row, whose columns go to scalar fields.
    pub(crate) spans: Option<u32>,
    /// Each column.
    pub(crate) columns: Vec<DecodedColumn>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its stages.
    pub(crate) stages: Vec<Stage>,
    /// What follows each of its calls.
    pub(crate) decodings: Vec<Decoding>,
    /// The first slot of each field.
    pub(crate) slots: Vec<u32>,
    /// The bits of all its tables of constants.
    pub(crate) tables: Vec<u64>,
}

impl Page {
    /// Encodes a page's programs, with bodies in this form. `fragments` are where those of the
    /// service are.
    #[must_use]
    pub(crate) fn encode(program: &PageProgram, fragments: &[Fragment], form: Form) -> Page {
        let (slots, _) = column_slots(program);
        let mut tables = Vec::new();
        let table_starts: Vec<u32> = program
            .tables
            .iter()
            .map(|table| {
                let start = tables.len() as u32;
                tables.extend(table.iter().map(bits));
                start
            })
            .collect();
        let stages = program
            .stages
            .iter()
            .map(|stage| Stage::encode(program, stage, &slots, &table_starts, fragments, form));
        let decodings = program.calls.iter().map(|call| {
            let (spans, columns) = match &call.result {
                CallResult::Rows(list) => {
                    let first = slots[usize::from(*list)];
                    let kinds = match &program.fields[usize::from(*list)].kind {
                        FieldType::List(columns) => columns.as_slice(),
                        FieldType::Scalar(_) => &[],
                    };
                    let columns = (first + 1..).zip(kinds);
                    let columns = columns.map(|(slot, (_, kind))| decoded(slot, *kind));
                    (Some(first), columns.collect())
                }
                CallResult::Row(fields) => {
                    let columns = fields.iter().map(|field| {
                        let field = usize::from(*field);
                        match &program.fields[field].kind {
                            FieldType::Scalar(kind) => decoded(slots[field], *kind),
                            FieldType::List(_) => unreachable!("a row's columns are scalars"),
                        }
                    });
                    (None, columns.collect())
                }
            };
            Decoding {
                status: slots[usize::from(call.status)],
                spans,
                columns,
            }
        });
        Page {
            stages: stages.collect(),
            decodings: decodings.collect(),
            slots: slots.clone(),
            tables,
        }
    }
}

/// A column that answers are decoded to.
fn decoded(slot: u32, kind: Type) -> DecodedColumn {
    DecodedColumn {
        slot,
        is_text: u32::from(kind == Type::Text),
    }
}
