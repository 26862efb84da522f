//! BeSim on the device (paper, section 5.3.2, Titan B): [`rhythm_besim::Bank::answer`] for all
//! queries of a cohort, in the cohort's arena.
//!
//! The kernel computes; the words it needs are uploaded from [`rhythm_besim::names`], so that they
//! are said once.

use crate::abi::LaneResult;
use crate::abi::besim::{BesimArgs, Word, Words};
use crate::gpu::{DeviceBuffer, Extent, GpuError, Queue, SharedGpu, Slice};
use crate::upload::{Bundle, upload};
use rhythm_besim::names::{CITIES, FIRST_NAMES, MEMOS, PAYEES, STREETS};
use rhythm_besim::{Bank, EMBEDDED, KIND, MAX_ACCOUNTS, MAX_BILLS, MAX_PAYMENTS};
use rhythm_engine::cohort::{AnswerWriter, Cell, Cohort, ROWS_MAX, View};
use rhythm_engine::program::PageProgram;
use rhythm_engine::settings::BackendConfig;
use rhythm_protocol::besim::AnswerReader;

/// How many users a backend has, where it is the embedded BeSim, for which a device may answer.
#[must_use]
pub fn embedded_users(config: &BackendConfig) -> Option<u32> {
    let is_embedded = config.kind == KIND && config.text("url") == EMBEDDED;
    is_embedded.then(|| u32::try_from(config.int("users")).ok())?
}

/// Delivers the cells of an answer's body, and gives its status. What is unreadable delivers a row
/// without cells, which no page expects.
pub fn deliver_text(body: &[u8], columns: u16, answer: &mut AnswerWriter<'_>) -> i64 {
    let mut reader = AnswerReader::default();
    let Ok(values) = reader.read(body, columns.into(), ROWS_MAX) else {
        answer.row([]);
        return 0;
    };
    (values.rows()).for_each(|row| answer.row(row.map(Cell::Text)));
    i64::from(values.status)
}

/// Answers all queries of a cohort as the bank does, and gives the lanes their rows.
pub fn answer_queries(bank: &Bank, program: &PageProgram, cohort: &mut Cohort) {
    let (queries, mut rows) = cohort.exchange(program);
    let (mut text, mut body) = (Vec::new(), Vec::new());
    for query in 0..queries.len() {
        text.clear();
        body.clear();
        let (form, columns) = (&rows.call().form, rows.call().columns);
        form.write(queries.arguments(query), &mut text);
        bank.answer(&text, &mut body);
        rows.answer(query, |answer| deliver_text(&body, columns, answer));
    }
    cohort.settle(program);
}

/// The most bytes an answer takes, in whole words of 8 as the kernel stores them.
pub const ANSWER_BYTES: u32 = {
    // Accounts in a summary: ten digits, two, and five amounts, each with what separates it;
    // amounts are below 100,000.00.
    let accounts = MAX_ACCOUNTS * (11 + 2 + 5 * 9 + 1);
    // Bills and payments: seven digits, a date, an amount.
    let payments = (if MAX_BILLS < MAX_PAYMENTS {
        MAX_PAYMENTS
    } else {
        MAX_BILLS
    }) * (8 + 10 + 9 + 1);
    // An address: house and street, city, state, ZIP code, e-mail, telephone.
    let address = 4 + TEXT + 1 + TEXT + 1 + 2 + 1 + 5 + 1 + TEXT + 1 + 10 + 12 + 1 + 14 + 1;
    // A check: amount, payee, date, memo, two pictures.
    let check = 8 + 4 + TEXT + 4 + 10 + 5 + TEXT + 1 + 18 + 1 + 17 + 1;
    // Everything else is one or two short rows.
    let other = 64;
    let mut rows = accounts;
    let all = [payments, address, check, other];
    let mut index = 0;
    while index < all.len() {
        if rows < all[index] {
            rows = all[index];
        }
        index += 1;
    }
    // "<pre>\n0\n", rows, "</pre>\n".
    (8 + rows + 7).next_multiple_of(8)
};

/// Bytes of a word at most.
const TEXT: u32 = 24;

/// Whether so many words are short enough.
const fn fit<const N: usize>(texts: &[&str; N]) -> bool {
    let mut index = 0;
    while index < N && texts[index].len() <= TEXT as usize {
        index += 1;
    }
    index == N
}

const _: () = assert!(fit(&STREETS) && fit(&FIRST_NAMES) && fit(&PAYEES) && fit(&MEMOS));

/// A word; one with more than [`TEXT`] bytes is our mistake.
fn word(text: &str) -> Word {
    let mut bytes = [0; TEXT as usize];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    let (words, _) = bytes.as_chunks::<8>();
    Word {
        text: [words[0], words[1], words[2]].map(u64::from_le_bytes),
        length: text.len() as u8,
        ..Word::default()
    }
}

/// A city, with its state's two letters.
fn city(&(city, state, zip_start): &(&str, &str, u32)) -> Word {
    let state = state.as_bytes();
    Word {
        state: [state[0], state[1]],
        number: zip_start,
        ..word(city)
    }
}

/// A bank on a device.
#[derive(Debug)]
pub struct BesimTables {
    memory: DeviceBuffer,
    words: Extent<Word>,
    /// Streets, cities, first names, payees and memos.
    tables: [Words; 5],
    users: u32,
}

/// What is to be answered: the queries of a cohort.
#[derive(Clone, Copy, Debug)]
pub struct BesimCohort<'m> {
    /// Of each lane: the queries of active ones are answered, `query_count` of them.
    pub results: Slice<'m, LaneResult>,
    /// In the arena: as many places for each lane.
    pub queries: Slice<'m, View>,
    /// For each of these places the answer, likewise; of length [`NO_TEXT`](crate::abi::NO_TEXT)
    /// where nothing was asked, or where the answer has no room.
    pub answers: Slice<'m, View>,
    /// The cohort's arena, 16-byte aligned.
    pub arena: Slice<'m, u8>,
    /// Where in the arena the answers go, a multiple of 16, behind all queries.
    pub answer_base: u32,
    /// Bytes an answer may take, a multiple of 8; [`ANSWER_BYTES`] is enough for any.
    pub answer_stride: u32,
}

impl BesimTables {
    /// Uploads what the kernel needs.
    ///
    /// # Errors
    /// There is no room, or the device failed.
    pub fn new(gpu: &SharedGpu, bank: Bank) -> Result<BesimTables, GpuError> {
        let tables: [Vec<Word>; 5] = [
            STREETS.iter().map(|text| word(text)).collect(),
            CITIES.iter().map(city).collect(),
            FIRST_NAMES.iter().map(|text| word(text)).collect(),
            PAYEES.iter().map(|text| word(text)).collect(),
            MEMOS.iter().map(|text| word(text)).collect(),
        ];
        let mut bundle = Bundle::default();
        let words = bundle.push(&tables.concat());
        let mut first = 0;
        let tables = tables.map(|table| {
            let count = table.len() as u32;
            first += count;
            Words {
                first: first - count,
                count,
            }
        });
        Ok(BesimTables {
            memory: upload(gpu, gpu.stream()?, bundle.bytes())?,
            words,
            tables,
            users: bank.users(),
        })
    }

    /// Answers a cohort's queries.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] if views cannot address so many answers (4 GiB), or the device
    /// failed.
    ///
    /// # Panics
    /// The slices are not as large as they must be, or base or stride not such multiples.
    pub fn launch<'m>(
        &'m self,
        queue: &Queue<'m>,
        cohort: &BesimCohort<'m>,
    ) -> Result<(), GpuError> {
        let (lanes, places) = (cohort.results.len(), cohort.queries.len());
        let query_stride = places / lanes.max(1);
        assert_eq!([lanes * query_stride, cohort.answers.len()], [places; 2]);
        let end = cohort.answer_base as usize + places * cohort.answer_stride as usize;
        if end > u32::MAX as usize {
            return Err(GpuError::OutOfMemory(end));
        }
        let [streets, cities, first_names, payees, memos] = self.tables;
        // That queries lie in the arena is for those who wrote them, the kernels of stages.
        queue.launch(BesimArgs {
            words: self.memory.slice(self.words),
            streets,
            cities,
            first_names,
            payees,
            memos,
            users: self.users,
            lanes: lanes as u32,
            results: cohort.results,
            queries: cohort.queries,
            answers: cohort.answers,
            arena: cohort.arena,
            query_stride: query_stride as u32,
            answer_base: cohort.answer_base,
            answer_stride: cohort.answer_stride,
            padding: 0,
        })
    }
}
