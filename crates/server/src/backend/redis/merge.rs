//! Look-ups of one call, asked as one: `GET` of many keys is `MGET`, for which a server does little
//! more than half of the work.
//!
//! A key without a value is nil in both. But nil is also what `MGET` answers for a key that holds
//! another kind of value, for which `GET` is an error: so who was answered nil asks by itself.
//! Where that is often, or `MGET` fails or is late, the next cohorts ask one by one for a while.

use super::reply::{ANSWER_MAX, Scalar, Token, Tokens};
use crate::backend::answers::QueryAnswers;
use crate::backend::pause::Pause;
use crate::backend::wire::Unreadable;
use rhythm_engine::cohort::{Argument, Cell};
use rhythm_engine::program::Call;

/// What is merged.
pub(super) const MERGES: &[&str] = &["GET"];

/// What it is merged into.
const MERGED: &[u8] = b"MGET";

/// Most queries that are asked as one.
const MERGED_MAX: usize = 64;

/// What is known of values that are looked up, and how they are asked for now.
#[derive(Debug, Default)]
pub(super) struct Merging {
    /// The longest answer of late, in bytes; 0 until there was one.
    longest: usize,
    pause: Pause,
}

impl Merging {
    /// How many queries of a call, of a cohort, go as one now; less than 2: none. So many that
    /// their answers have room where each is four times as long as the longest was.
    pub(super) fn most(&mut self, call: &Call) -> usize {
        if call.form.arguments.is_empty() || self.longest == 0 || self.pause.leaves_out() {
            return 0;
        }
        (ANSWER_MAX / 4 / self.longest).min(MERGED_MAX)
    }

    /// A value was looked up, whose answer had so many bytes. What was long once is forgotten.
    pub(super) fn learn(&mut self, bytes: usize) {
        self.longest = bytes.max(self.longest - self.longest / 64);
    }

    /// Queries that were asked as one have failed, or were not answered in time.
    pub(super) fn failed(&mut self) {
        self.pause.failed();
    }

    /// Delivers the values of so many queries, each behind the query's number.
    ///
    /// # Errors
    /// These are no such values.
    pub(super) fn read(
        &mut self,
        reply: &[u8],
        queries: usize,
        answers: &mut QueryAnswers,
    ) -> Result<(), Unreadable> {
        let mut values = Tokens(reply);
        if values.next() != Some(Token::List(queries)) {
            return Err(Unreadable);
        }
        let mut nils = 0;
        for number in 1..=queries as i64 {
            match values.next() {
                Some(Token::Scalar(Scalar::Null)) => {
                    nils += 1;
                    answers.cell(Cell::Int(-number));
                }
                Some(Token::Scalar(Scalar::Text(text))) => {
                    self.learn(text.len());
                    answers.cell(Cell::Int(number));
                    answers.cell(Cell::Text(text));
                }
                _ => return Err(Unreadable),
            }
            answers.end_row();
        }
        match 4 * nils > queries {
            true => self.pause.failed(),
            false => self.pause.went_well(),
        }
        Ok(())
    }
}

/// Calls `word` with the words that ask for all of them.
pub(super) fn words(call: &Call, arguments: &[Argument<'_>], word: &mut dyn FnMut(&[u8])) {
    word(MERGED);
    for of_one in arguments.chunks(call.form.arguments.len()) {
        let mut is_name = true;
        call.form.words(of_one.iter().copied(), |one| {
            if !std::mem::replace(&mut is_name, false) {
                word(one);
            }
        });
    }
}
