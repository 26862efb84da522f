//! Backends that are slow, silent, wrong or down, around BeSim's own answers.

use crate::reference::{BANK, REFUSED, USERS, deliver};
use rhythm_engine::cohort::{Cell, LaneError, Queries, ROWS_MAX, Rows};
use rhythm_engine::device::conformance::Dice;
use rhythm_net::{Port, Time};
use rhythm_protocol::besim::AnswerReader;
use rhythm_server::ConnectionOwner;
use rhythm_server::backend::{Backend, Batch, Embedded, Failure, QueryAnswers, Tell};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How a backend behaves. All numbers mean one request in so many; 0: none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackendFaults {
    /// Answer at once, from within the call that asks.
    pub(crate) embedded: bool,
    /// Most that an answer takes, nanoseconds.
    pub(crate) delay_max: u64,
    /// Stragglers: take a hundred times as long.
    pub(crate) late: usize,
    /// Fail.
    pub(crate) fail: usize,
    /// Are refused at once.
    pub(crate) refuse: usize,
    /// Get something that is no answer.
    pub(crate) garble: usize,
    /// Get status 1.
    pub(crate) no: usize,
    /// Get nothing but their deadline.
    pub(crate) silent: usize,
}

impl BackendFaults {
    /// Whether a page may fail with 502, 503 or 504 on account of this.
    pub(crate) fn can_fail(&self) -> bool {
        !self.embedded && (self.late | self.fail | self.refuse | self.garble | self.silent) != 0
    }
}

/// How often a user's requests met a fault: more errors than this a client must not see.
pub(crate) type Blame = Rc<RefCell<BTreeMap<u64, Met>>>;

/// What a user's requests met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    /// Answers that are missing, late or unreadable.
    pub(crate) faults: usize,
    /// Answers of status 1.
    pub(crate) refusals: usize,
}

/// The user that clients know each other by: what a login asks for may be a user who is not there.
pub(crate) fn who(user: u64) -> u64 {
    user % 1_000_000
}

/// Whose query it is.
pub(crate) fn asker(query: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(query);
    let user = text.split('&').nth(2).and_then(|user| user.parse().ok());
    who(user.unwrap_or(0))
}

/// Mistakes planted into the backend, to see them found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BackendSabotage {
    /// None.
    #[default]
    None,
    /// One request in fifty is answered with another user's rows.
    OtherUser,
    /// Once in twenty two answers of a batch are exchanged.
    SwapAnswers,
    /// One request in fifty is never told of.
    ForgetRequest,
}

/// When a request is answered, which, for how many columns, and what.
type Due = (Time, u64, u16, Result<Vec<u8>, LaneError>);

/// Delivers the rows of an answer's body, and gives its status.
fn read(body: &[u8], columns: u16, answers: &mut QueryAnswers) -> Result<i64, LaneError> {
    let mut reader = AnswerReader::default();
    let read = reader.read(body, columns.into(), ROWS_MAX);
    let values = read.map_err(|_| LaneError::BadAnswer)?;
    for row in values.rows() {
        row.for_each(|cell| answers.cell(Cell::Text(cell)));
        answers.end_row();
    }
    Ok(i64::from(values.status))
}

/// The backend.
pub(crate) struct FaultyBackend {
    faults: BackendFaults,
    sabotage: BackendSabotage,
    dice: Dice,
    now: Time,
    blame: Blame,
    /// When, of what, and what.
    answers: Vec<Due>,
    told: QueryAnswers,
}

impl FaultyBackend {
    pub(crate) fn new(
        faults: BackendFaults,
        sabotage: BackendSabotage,
        dice: Dice,
        blame: Blame,
    ) -> FaultyBackend {
        FaultyBackend {
            faults,
            sabotage,
            dice,
            now: Time::ZERO,
            blame,
            answers: Vec::new(),
            told: QueryAnswers::default(),
        }
    }

    fn chance(&mut self, times: usize) -> bool {
        times != 0 && self.dice.once_in(times)
    }

    /// The answer's body, true or sabotaged.
    fn body(&mut self, query: &[u8]) -> Vec<u8> {
        let mut query = query.to_vec();
        if self.sabotage == BackendSabotage::OtherUser && self.dice.once_in(50) {
            let text = String::from_utf8_lossy(&query).into_owned();
            let mut parts: Vec<String> = text.split('&').map(str::to_owned).collect();
            if let Some(user) = parts.get_mut(2) {
                let number: u32 = user.parse().unwrap_or(1);
                *user = (number % USERS + 1).to_string();
            }
            query = parts.join("&").into_bytes();
        }
        let mut body = Vec::new();
        BANK.answer(&query, &mut body);
        body
    }

    fn garble(&mut self, body: &mut Vec<u8>) {
        match self.dice.below(4) {
            0 => body.clear(),
            1 => body.truncate(body.len() - b"</pre>\n".len()),
            2 => body.splice(..6, *b"<pre>\n\n").for_each(drop),
            _ => body.splice(6..7, *b"x").for_each(drop),
        }
    }
}

impl Embedded for FaultyBackend {
    fn answer(&mut self, queries: &Queries, rows: &mut Rows<'_>) {
        let columns = rows.call().columns;
        let mut bodies = Vec::new();
        for request in 0..queries.len() {
            let mut query = Vec::new();
            (rows.call().form).write(queries.arguments(request), &mut query);
            let mut body = self.body(&query);
            if self.chance(self.faults.no) {
                body = REFUSED.to_vec();
                let user = asker(&query);
                self.blame.borrow_mut().entry(user).or_default().refusals += 1;
            }
            let forgotten =
                self.sabotage == BackendSabotage::ForgetRequest && self.dice.once_in(50);
            bodies.push((!forgotten).then_some(body));
        }
        if self.sabotage == BackendSabotage::SwapAnswers
            && bodies.len() > 1
            && self.dice.once_in(20)
        {
            let last = bodies.len() - 1;
            bodies.swap(0, last);
        }
        for (request, body) in bodies.iter().enumerate() {
            if let Some(body) = body {
                rows.answer(request, |answer| deliver(body, columns, answer));
            }
        }
    }
}

impl ConnectionOwner for FaultyBackend {
    fn wake_at(&self) -> Option<Time> {
        // What is due already is told when it is polled.
        self.answers
            .iter()
            .map(|(at, ..)| *at)
            .filter(|at| *at > self.now)
            .min()
    }

    fn tick(&mut self, _port: &mut dyn Port, now: Time) {
        self.now = now;
    }
}

impl Backend for FaultyBackend {
    fn embedded(&mut self) -> Option<&mut dyn Embedded> {
        match self.faults.embedded {
            true => Some(self),
            false => None,
        }
    }

    fn submit(&mut self, _port: &mut dyn Port, batch: Batch<'_>, now: Time) {
        self.now = now;
        let faults = self.faults;
        let first = self.answers.len();
        for ask in batch.asks {
            let mut query = Vec::new();
            batch.call.form.write(batch.arguments(ask), &mut query);
            let mut body = self.body(&query);
            let mut after = 1 + self.dice.below(faults.delay_max as usize + 1) as u64;
            if self.chance(faults.late) {
                after *= 100;
            }
            let mut at = now + Duration::from_nanos(after);
            let mut answer = Ok(());
            // Nobody tells how many lanes one answer is for.
            let once = if batch.call.shared { 100 } else { 1 };
            let mut met = Met {
                faults: once,
                refusals: 0,
            };
            if self.chance(faults.refuse) {
                (at, answer) = (now, Err(LaneError::BackendRefused));
            } else if self.chance(faults.fail) {
                answer = Err(LaneError::BackendFailed);
            } else if self.chance(faults.silent) || at > batch.deadline {
                (at, answer) = (batch.deadline, Err(LaneError::BackendTimeout));
            } else if self.chance(faults.garble) {
                self.garble(&mut body);
            } else if self.chance(faults.no) {
                body = REFUSED.to_vec();
                met = Met {
                    faults: 0,
                    refusals: once,
                };
            } else {
                met = Met::default();
            }
            let mut blame = self.blame.borrow_mut();
            let all = blame.entry(asker(&query)).or_default();
            all.faults += met.faults;
            all.refusals += met.refusals;
            drop(blame);
            if self.sabotage == BackendSabotage::ForgetRequest && self.dice.once_in(50) {
                continue;
            }
            let columns = batch.call.columns;
            self.answers
                .push((at, ask.key, columns, answer.map(|()| body)));
        }
        let new = self.answers.len() - first;
        if self.sabotage == BackendSabotage::SwapAnswers && new > 1 && self.dice.once_in(20) {
            let last = self.answers.len() - 1;
            let body = std::mem::replace(&mut self.answers[first].3, Ok(Vec::new()));
            self.answers[first].3 = std::mem::replace(&mut self.answers[last].3, body);
        }
    }

    fn poll(&mut self, tell: &mut Tell<'_>) {
        let now = self.now;
        // Answers come in an order of their own.
        let mut due: Vec<_> = self.answers.extract_if(.., |(at, ..)| *at <= now).collect();
        while !due.is_empty() {
            let index = self.dice.below(due.len());
            let (_, key, columns, answer) = due.swap_remove(index);
            let outcome = answer.and_then(|body| read(&body, columns, &mut self.told));
            self.told.push(key, outcome.map_err(Failure::from));
        }
        self.told.tell(tell);
    }
}
