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
                Ok(answer) => tell(
                    key,
                    Ok(Told {
                        of: self,
                        answer,
                        part: None,
                    }),
                ),
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
    /// Where it is one of several that came as one: which rows, and that each begins with whose it
    /// is.
    part: Option<&'a [usize]>,
}

impl<'a> Told<'a> {
    /// The backend's status; 0 is good.
    pub fn status(&self) -> i64 {
        self.answer.status
    }

    /// Its rows of cells.
    pub fn rows(self) -> impl Iterator<Item = impl Iterator<Item = Cell<'a>>> {
        let (part, count) = match self.part {
            Some(part) => (part, part.len()),
            None => (&[][..], self.answer.rows.len()),
        };
        let skipped = usize::from(self.part.is_some());
        (0..count).map(move |at| {
            let row = part.get(at).copied().unwrap_or(at);
            self.cells(row).skip(skipped)
        })
    }

    /// The cells of one of its rows.
    fn cells(self, row: usize) -> impl Iterator<Item = Cell<'a>> {
        let Told { of, answer, .. } = self;
        let row = answer.rows.start + row;
        let first = match row == answer.rows.start {
            true => answer.first,
            false => of.rows[row - 1],
        };
        of.cells[first..of.rows[row]].iter().map(|cell| match cell {
            StoredCell::Plain(cell) => *cell,
            StoredCell::Text(text) => Cell::Text(&of.texts[text.clone()]),
            StoredCell::Decimal(text) => Cell::Decimal(&of.texts[text.clone()]),
            StoredCell::Bytes(bytes) => Cell::Bytes(&of.texts[bytes.clone()]),
        })
    }

    /// Where it answers so many queries as one: which of its rows are whose, in the order in which
    /// they came, or nothing of a query that is to be asked by itself. `None` where a row is
    /// nobody's.
    pub(crate) fn split(self, queries: usize) -> Option<Vec<Option<Vec<usize>>>> {
        let mut rows_of = vec![Some(Vec::new()); queries];
        for row in 0..self.answer.rows.len() {
            let Some(Cell::Int(number)) = self.cells(row).next() else {
                return None;
            };
            let query = usize::try_from(number.unsigned_abs()).ok()?;
            let rows = rows_of.get_mut(query.checked_sub(1)?)?;
            match rows {
                _ if number < 0 => *rows = None,
                Some(rows) => rows.push(row),
                None => {}
            }
        }
        Some(rows_of)
    }

    /// The part of it that is one query's, of these rows.
    pub(crate) fn part(self, rows: &'a [usize]) -> Told<'a> {
        Told {
            part: Some(rows),
            ..self
        }
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

    #[test]
    fn what_came_as_one_is_split_by_its_first_cell() {
        let mut answers = QueryAnswers::default();
        // Another, whose cells and rows stand before.
        answers.cell(Cell::Int(9));
        answers.end_row();
        answers.push(1, Ok(0));
        for (number, text) in [(3, "c"), (1, "a"), (3, "d")] {
            answers.cell(Cell::Int(number));
            answers.cell(Cell::Text(text.as_bytes()));
            answers.end_row();
        }
        answers.push(2, Ok(0));
        let mut seen = Vec::new();
        answers.tell(&mut |key, told| {
            let told = told.expect("it is answered");
            if key == 1 {
                assert_eq!(told.split(8), None, "a row of nobody");
                return;
            }
            assert_eq!(told.split(2), None, "a row of nobody");
            let rows_of = told.split(4).expect("all are somebody's");
            for rows in rows_of.iter().map(|rows| rows.as_deref().expect("rows")) {
                let part = told.part(rows);
                let rows = part
                    .rows()
                    .map(|row| format!("{:?}", row.collect::<Vec<_>>()));
                seen.push(rows.collect::<Vec<_>>().concat());
            }
        });
        let [a, c, d] = [b"a", b"c", b"d"].map(|text| format!("{:?}", [Cell::Text(text)]));
        assert_eq!(seen, [a, String::new(), c + &d, String::new()]);
    }

    #[test]
    fn what_one_answer_says_nothing_of_is_nobodys_row() {
        let mut answers = QueryAnswers::default();
        for number in [1, -3] {
            answers.cell(Cell::Int(number));
            answers.end_row();
        }
        answers.push(1, Ok(0));
        answers.tell(&mut |_, told| {
            let rows_of = told.expect("it is answered").split(3);
            assert_eq!(rows_of, Some(vec![Some(vec![0]), Some(vec![]), None]));
        });
    }
}
