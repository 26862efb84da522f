//! What of a cohort's columns a stage reads: nothing else goes to a node.

use rhythm_engine::program::{FieldId, Op, StageProgram};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The fields that a stage reads, each in rising order, so that both ends have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) scalars: Vec<FieldId>,
    /// Lists, each with those of its columns that are read.
    pub(crate) lists: Vec<(FieldId, Vec<u16>)>,
}

impl Reads {
    pub(crate) fn of(stage: &StageProgram) -> Reads {
        let scalars = RefCell::new(BTreeSet::new());
        let lists = RefCell::new(BTreeMap::<FieldId, BTreeSet<u16>>::new());
        let look = |op: &Op| {
            match op {
                Op::Field(load) => drop(scalars.borrow_mut().insert(load.field)),
                Op::Length(load) => drop(lists.borrow_mut().entry(load.field).or_default()),
                Op::Item(item) => {
                    let mut lists = lists.borrow_mut();
                    lists.entry(item.list).or_default().insert(item.column);
                }
                _ => {}
            }
            // Never found, so all are looked at.
            false
        };
        let _ = stage.body.iter().any(|op| op.any(&look));
        let lists = lists.into_inner().into_iter();
        Reads {
            scalars: scalars.into_inner().into_iter().collect(),
            lists: lists
                .map(|(list, columns)| (list, columns.into_iter().collect()))
                .collect(),
        }
    }
}
