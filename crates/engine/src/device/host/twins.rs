//! Twins: lanes that have in common all that a stage reads, of which one is run for all.
//!
//! Where requests of a cohort ask a backend the same it is asked once, and they share its rows. A
//! page that shows all its visitors the same (a front page, best sellers) then makes the same of
//! them for each, sorts them again and writes them again, which is most of its work. Here the other
//! lanes get the first one's run, headers and fate. They are looked for only where lanes share
//! rows, since elsewhere to look takes longer than it saves, and only in a page's last stage: what
//! asks a backend is found to be the same when it is asked.

use super::step::Needed;
use super::work::PassWork;
use crate::cohort::{Cohort, Column, LaneState, Span, View};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// Twins of a stage. Its memory is kept from one cohort to the next.
#[derive(Default)]
pub(super) struct Twins {
    /// By the hash of what it reads, the first lane that reads it. The hash's key is random: nobody
    /// outside can make requests that meet in it.
    firsts: HashMap<u64, u32>,
    /// Lanes, each with the one that is run for it.
    pairs: Vec<(u32, u32)>,
    /// Headers of the lanes that were run.
    headers: Vec<(u32, u16, View)>,
}

impl Twins {
    /// Takes those lanes out that have what one before them has, of all that is read.
    pub(super) fn take(&mut self, needed: &Needed, cohort: &Cohort, lanes: &mut Vec<u32>) {
        if !some_share(needed, cohort, lanes) {
            return;
        }
        let reads = Reads { needed, cohort };
        let Twins { firsts, pairs, .. } = self;
        lanes.retain(|&lane| {
            let mut hasher = firsts.hasher().build_hasher();
            reads.hash(lane as usize, &mut hasher);
            let first = *firsts.entry(hasher.finish()).or_insert(lane);
            // Where two only meet in the hash, the later one is run for itself.
            let is_twin = first != lane && reads.are_same(first as usize, lane as usize);
            if is_twin {
                pairs.push((lane, first));
            }
            !is_twin
        });
        firsts.clear();
    }

    /// After the other lanes were run, whose headers are those from here on: gives those that were
    /// taken out what came of these. Nothing is made for them, but what is sent to them is work,
    /// too: what is too much for this pass is left for another.
    pub(super) fn settle(&mut self, cohort: &mut Cohort, header: usize, pass: &mut PassWork) {
        if self.pairs.is_empty() {
            return;
        }
        self.headers.extend(&cohort.output.headers[header..]);
        self.headers.sort_by_key(|(lane, ..)| *lane);
        for (lane, first) in self.pairs.drain(..) {
            if pass.is_enough() {
                cohort.lanes[lane as usize] = LaneState::Later;
                continue;
            }
            let body_length = cohort.output.lanes[first as usize].body_length as usize;
            pass.done = pass.done.saturating_add(body_length);
            cohort.lanes[lane as usize] = cohort.lanes[first as usize];
            cohort.output.lanes[lane as usize] = cohort.output.lanes[first as usize];
            let from = self.headers.partition_point(|(of, ..)| *of < first);
            let own = self.headers[from..].iter();
            let own = own.take_while(|(of, ..)| *of == first);
            (cohort.output.headers).extend(own.map(|(_, name, value)| (lane, *name, *value)));
        }
        self.headers.clear();
    }
}

/// Whether lanes share rows: they have more together than there are.
fn some_share(needed: &Needed, cohort: &Cohort, lanes: &[u32]) -> bool {
    lanes.len() > 1
        && needed.spans.iter().any(|field| {
            let list = cohort.fields[usize::from(*field)].list();
            let length = |lane: &u32| list.spans[*lane as usize].length as usize;
            list.columns.first().map_or(0, Column::len) < lanes.iter().map(length).sum()
        })
}

/// What the lanes of a cohort read in a stage. Of an item's columns nothing is said: where two have
/// the same items, these are the same.
struct Reads<'a> {
    needed: &'a Needed,
    cohort: &'a Cohort,
}

impl Reads<'_> {
    fn spans(&self, lane: usize) -> impl Iterator<Item = Span> {
        let fields = self.needed.spans.iter();
        fields.map(move |field| self.cohort.fields[usize::from(*field)].list().spans[lane])
    }

    fn ints(&self, lane: usize) -> impl Iterator<Item = i64> {
        let scalars = self.needed.ints.iter().filter(|of| of.column.is_none());
        scalars.map(move |of| self.cohort.fields[usize::from(of.field)].ints()[lane])
    }

    fn texts(&self, lane: usize) -> impl Iterator<Item = &[u8]> {
        let scalars = self.needed.texts.iter().filter(|of| of.column.is_none());
        scalars.map(move |of| {
            let view = self.cohort.fields[usize::from(of.field)].texts()[lane];
            self.cohort.arena.get(view)
        })
    }

    fn hash(&self, lane: usize, hasher: &mut impl Hasher) {
        (self.spans(lane)).for_each(|span| (span.start, span.length).hash(hasher));
        self.ints(lane).for_each(|value| value.hash(hasher));
        self.texts(lane).for_each(|text| text.hash(hasher));
    }

    fn are_same(&self, a: usize, b: usize) -> bool {
        self.spans(a).eq(self.spans(b))
            && self.ints(a).eq(self.ints(b))
            && self.texts(a).eq(self.texts(b))
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::ColumnRef;
    use super::*;
    use crate::program::{FieldType, Type};

    /// Six lanes with a list, of four items together, and a text, which is lane 3's own; and that
    /// both are read.
    fn cohort_of_six() -> (Cohort, Needed) {
        let mut cohort = Cohort::default();
        let list = FieldType::List(vec![(String::new(), Type::Int)]);
        cohort.fields = vec![
            Column::new(&list),
            Column::new(&FieldType::Scalar(Type::Text)),
        ];
        for lane in 0..6 {
            cohort.push_lane();
            let text = if lane == 3 { "own" } else { "same" };
            let view = cohort.arena.push(text.as_bytes());
            cohort.fields[1].set_text(lane, view);
        }
        cohort.fields[0].list_mut().columns[0] = Column::Int(vec![1, 2, 3, 4]);
        let column = |field, column| ColumnRef { field, column };
        let needed = Needed {
            texts: vec![column(1, None)],
            ints: vec![column(0, Some(0))],
            spans: vec![0],
        };
        (cohort, needed)
    }

    #[test]
    fn the_same_rows_and_fields_make_twins() {
        let mut twins = Twins::default();
        let (mut cohort, needed) = cohort_of_six();
        let list = cohort.fields[0].list_mut();
        for (lane, start) in [(0, 0), (1, 2), (2, 0), (3, 2), (4, 0), (5, 0)] {
            list.spans[lane] = Span { start, length: 2 };
        }
        let mut lanes = vec![0, 1, 2, 3, 4];
        twins.take(&needed, &cohort, &mut lanes);
        assert_eq!(lanes, [0, 1, 3], "lane 3 has a text of its own");
        assert_eq!(twins.pairs, [(2, 0), (4, 0)]);

        cohort.lanes[0] = LaneState::Finished;
        cohort.output.lanes.resize(6, Default::default());
        cohort.output.lanes[0].body_length = 7;
        let view = View::default();
        cohort.output.headers = vec![(0, 9, view), (1, 1, view), (0, 2, view), (0, 3, view)];
        let mut pass = PassWork {
            max: usize::MAX,
            done: 0,
            lanes: 3,
        };
        twins.settle(&mut cohort, 1, &mut pass);
        assert_eq!(pass.done, 14);
        assert_eq!(cohort.lanes[4], LaneState::Finished);
        assert_eq!(cohort.output.lanes[2].body_length, 7);
        let of_twins: Vec<_> = cohort.output.headers[4..].iter().collect();
        assert_eq!(
            of_twins,
            [&(2, 2, view), &(2, 3, view), &(4, 2, view), &(4, 3, view)]
        );
        assert!(twins.pairs.is_empty() && twins.firsts.is_empty());
    }

    #[test]
    fn what_is_sent_to_twins_is_work_of_the_pass() {
        let mut twins = Twins::default();
        let (mut cohort, needed) = cohort_of_six();
        let list = cohort.fields[0].list_mut();
        list.spans.fill(Span {
            start: 0,
            length: 4,
        });
        let mut lanes = vec![0, 1, 2, 4, 5];
        twins.take(&needed, &cohort, &mut lanes);
        assert_eq!(lanes, [0]);
        cohort.lanes[0] = LaneState::Finished;
        cohort.output.lanes.resize(6, Default::default());
        cohort.output.lanes[0].body_length = 60;
        let mut pass = PassWork {
            max: 150,
            done: 60,
            lanes: 1,
        };
        twins.settle(&mut cohort, 0, &mut pass);
        let states = [1, 2, 4, 5].map(|lane| cohort.lanes[lane]);
        use LaneState::{Finished, Later};
        assert_eq!(states, [Finished, Finished, Later, Later]);
    }

    #[test]
    fn where_nobody_shares_rows_nobody_is_looked_for() {
        let mut twins = Twins::default();
        let (mut cohort, needed) = cohort_of_six();
        let list = cohort.fields[0].list_mut();
        for lane in 0..2 {
            list.spans[lane] = Span {
                start: 2 * lane as u32,
                length: 2,
            };
        }
        let mut lanes = vec![0, 1];
        twins.take(&needed, &cohort, &mut lanes);
        assert_eq!(lanes, [0, 1]);
    }
}
