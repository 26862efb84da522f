//! What a backend has to tell until it is asked: cells in rows, without an allocation an answer.

use super::failure::Failure;
use rhythm_engine::cohort::{AnswerWriter, Cell};
use std::ops::Range;

/// What a backend tells answers to: the key, and the answer or why there is none.
pub type Tell<'a> = dyn FnMut(u64, Result<Told<'_>, Failure>) + 'a;

/// A cell whose bytes lie among the texts.
#[derive(Clone, Debug)]
enum StoredCell {
    Plain(Cell<'static>),
    Text(Range<usize>),
    Decimal(Range<usize>),
    Bytes(Range<usize>),
}

/// Answers to queries by key, in the order they came; their cells lie one after the other.
#[derive(Debug, Default)]
pub struct QueryAnswers {
    texts: Vec<u8>,
    cells: Vec<StoredCell>,
    /// Where each row ends among the cells.
    rows: Vec<usize>,
    told: Vec<(u64, Result<Reach, Failure>)>,
    /// Where the answer under way begins among texts, cells and rows.
    open: [usize; 3],
}

/// An answer: its status, its first cell, and its rows.
#[derive(Clone, Debug)]
struct Reach {
    status: i64,
    first: usize,
    rows: Range<usize>,
}

impl QueryAnswers {
    /// Memory kept between polls, in bytes, for texts. What a burst needed beyond it is given back.
    const TEXTS_KEPT: usize = 4 << 20;
    /// Likewise, in cells.
    const CELLS_KEPT: usize = 1 << 17;

    /// Delivers a cell of the row under way.
    pub fn cell(&mut self, cell: Cell<'_>) {
        let start = self.texts.len();
        let mut text = |text: &[u8]| {
            self.texts.extend_from_slice(text);
            start..start + text.len()
        };
        self.cells.push(match cell {
            Cell::Text(bytes) => StoredCell::Text(text(bytes)),
            Cell::Decimal(bytes) => StoredCell::Decimal(text(bytes)),
            Cell::Bytes(bytes) => StoredCell::Bytes(text(bytes)),
            Cell::Null => StoredCell::Plain(Cell::Null),
            Cell::Int(value) => StoredCell::Plain(Cell::Int(value)),
            Cell::Float(value) => StoredCell::Plain(Cell::Float(value)),
            Cell::Bool(value) => StoredCell::Plain(Cell::Bool(value)),
            Cell::Timestamp(value) => StoredCell::Plain(Cell::Timestamp(value)),
        });
    }

    /// Ends the row under way.
    pub fn end_row(&mut self) {
        self.rows.push(self.cells.len());
    }

    /// Keeps the answer under way, or why there is none, for the next poll.
    pub fn push(&mut self, key: u64, outcome: Result<i64, Failure>) {
        let [_, first, first_row] = self.open;
        let answer = outcome.map(|status| Reach {
            status,
            first,
            rows: first_row..self.rows.len(),
        });
        if answer.is_err() {
            self.discard();
        }
        self.told.push((key, answer));
        self.open = [self.texts.len(), self.cells.len(), self.rows.len()];
    }

    /// Whether there is nothing to tell.
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Forgets the answer under way.
    pub(super) fn discard(&mut self) {
        let [texts, cells, rows] = self.open;
        self.texts.truncate(texts);
        self.cells.truncate(cells);
        self.rows.truncate(rows);
    }

    /// Tells all and forgets them.
    pub fn tell(&mut self, tell: &mut Tell<'_>) {
        let mut told = std::mem::take(&mut self.told);
        for (key, answer) in told.drain(..) {
            match &answer {
                Ok(answer) => tell(key, Ok(Told { of: self, answer })),
                Err(failure) => tell(key, Err(*failure)),
            }
        }
        self.told = told;
        self.texts.clear();
        self.texts.shrink_to(Self::TEXTS_KEPT);
        self.cells.clear();
        self.cells.shrink_to(Self::CELLS_KEPT);
        self.rows.clear();
        self.rows.shrink_to(Self::CELLS_KEPT);
        self.open = [0; 3];
    }
}

/// An answer that a backend tells.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    of: &'a QueryAnswers,
    answer: &'a Reach,
}

impl<'a> Told<'a> {
    /// The backend's status; 0 is good.
    pub fn status(&self) -> i64 {
        self.answer.status
    }

    /// Its rows of cells.
    pub fn rows(self) -> impl Iterator<Item = impl Iterator<Item = Cell<'a>>> {
        let Told { of, answer } = self;
        let mut start = answer.first;
        of.rows[answer.rows.clone()].iter().map(move |&end| {
            let from = std::mem::replace(&mut start, end);
            of.cells[from..end].iter().map(|cell| match cell {
                StoredCell::Plain(cell) => *cell,
                StoredCell::Text(text) => Cell::Text(&of.texts[text.clone()]),
                StoredCell::Decimal(text) => Cell::Decimal(&of.texts[text.clone()]),
                StoredCell::Bytes(bytes) => Cell::Bytes(&of.texts[bytes.clone()]),
            })
        })
    }

    /// Delivers its rows, and gives its status.
    pub fn deliver(&self, answer: &mut AnswerWriter<'_>) -> i64 {
        self.rows().for_each(|row| answer.row(row));
        self.status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::cohort::LaneError;

    #[test]
    fn each_is_told_once_in_order() {
        let mut answers = QueryAnswers::default();
        for text in [&b"se"[..], b"ven"] {
            answers.cell(Cell::Text(text));
            answers.cell(Cell::Int(7));
            answers.end_row();
        }
        answers.push(7, Ok(0));
        answers.cell(Cell::Text(b"begun"));
        answers.push(3, Err(LaneError::BackendTimeout.into()));
        answers.push(9, Ok(5));
        answers.cell(Cell::Null);
        answers.end_row();
        answers.push(1, Ok(0));
        let mut told = Vec::new();
        answers.tell(&mut |key, answer| {
            let rows = |told: Told<'_>| {
                let rows: Vec<Vec<String>> = told
                    .rows()
                    .map(|row| row.map(|cell| format!("{cell:?}")).collect())
                    .collect();
                (told.status(), rows)
            };
            told.push((key, answer.map(rows)));
        });
        let row = |text: &[u8]| vec![format!("{:?}", Cell::Text(text)), "Int(7)".to_owned()];
        assert_eq!(
            told,
            [
                (7, Ok((0, vec![row(b"se"), row(b"ven")]))),
                (3, Err(LaneError::BackendTimeout.into())),
                (9, Ok((5, vec![]))),
                (1, Ok((0, vec![vec!["Null".to_owned()]]))),
            ]
        );
        answers.tell(&mut |key, _| panic!("{key} told twice"));
    }
}
