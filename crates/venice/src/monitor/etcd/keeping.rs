//! The keeper of the monitor that leads.

use super::loading::Loaded;
use super::rows::{self, HEAD, LEADER};
use super::term::Term;
use crate::loan::LoanId;
use crate::monitor::keeper::{Keeper, NotKept, Record, State};
use rhythm_etcd::{Change, Compare, EtcdError, Store, Transaction};
use rhythm_net::Time;
use rhythm_net::sparse::Sparse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Loans that are changed by one transaction: etcd takes 128 changes, and one is the head's.
const CHANGES_MAX: usize = 100;

/// For how long nothing is lent after etcd had no room; then the next loan finds out.
const FULL_FOR: Duration = Duration::from_secs(5);

/// See the head of this file.
///
/// It has its thread wait for etcd, which is what a keeper's caller wants: what the monitor would
/// do meanwhile it could tell nobody of, as it would build on what is not kept. What comes
/// meanwhile waits in sockets, and becomes the next turn: what a turn changed goes in one
/// transaction, so that many loans at a time cost one wait. A wait ends with the lease at the
/// latest: until then the admin listener, which has another thread, says that the monitor does not
/// answer, and then that it does not lead.
pub struct Keeping<S> {
    store: S,
    term: Arc<Term>,
    state: State,
    loaded: Loaded,
    /// Loans that are over, and are still there: etcd had no room for a transaction. Who takes over
    /// finds that no end knows them.
    over: BTreeSet<LoanId>,
    full_at: Option<Time>,
    /// Of lines about that.
    full: Sparse,
    clock: Box<dyn Fn() -> Time + Send>,
}

impl<S: Store> Keeping<S> {
    /// The keeper of a term, that begins with what was there.
    pub fn new(
        store: S,
        term: Arc<Term>,
        (state, loaded): (State, Loaded),
        clock: Box<dyn Fn() -> Time + Send>,
    ) -> Keeping<S> {
        Keeping {
            store,
            term,
            state,
            loaded,
            over: BTreeSet::new(),
            full_at: None,
            full: Sparse::default(),
            clock,
        }
    }

    fn change(&self, loan: LoanId) -> Change {
        match self.state.loans.get(&loan) {
            Some(kept) => Change::put(&rows::key(loan), &rows::row(kept), 0),
            None => Change::Delete(rows::key(loan)),
        }
    }

    /// Makes changes, once. False: there is no room for them.
    fn turn(&mut self, loans: &[LoanId]) -> Result<bool, NotKept> {
        let lease = self.term.lease();
        let before = match &self.loaded.text {
            Some(text) => Compare::Is(HEAD.to_owned(), text.clone()),
            None => Compare::Absent(HEAD.to_owned()),
        };
        // No head is written for two things, whatever comes of this one: it may be there later,
        // though it was refused.
        self.loaded.head.turn += 1;
        self.loaded.head.last = self.state.last;
        let text = self.loaded.head.text();
        let changes = loans.iter().map(|loan| self.change(*loan));
        let transaction = Transaction {
            compares: vec![Compare::Under(LEADER.to_owned(), lease), before],
            changes: changes.chain([Change::put(HEAD, &text, 0)]).collect(),
        };
        // Others prolong the lease meanwhile, if etcd answers them.
        let until = (self.clock)() + self.term.lasts();
        loop {
            let asked = match self.store.transact(&transaction) {
                // It may have been done for who asked before, of this server or another.
                Ok(false) => self.stands(&text, lease),
                // And this member may have no room for it again.
                Err(full @ EtcdError::NoSpace { .. }) => match self.stands(&text, lease) {
                    Ok(false) => Err(full),
                    stands => stands,
                },
                asked => asked,
            };
            // A thread that waits for many answers, one after the other, does not hang.
            let now = (self.clock)();
            let leads = self.term.look(now);
            match asked {
                Ok(true) => {
                    self.loaded.text = Some(text);
                    return Ok(true);
                }
                Ok(false) => {
                    let why = "another monitor leads, or keys in etcd were changed";
                    return Err(NotKept::Deposed(why.to_owned()));
                }
                Err(error @ EtcdError::Silent { .. }) => {
                    if now >= until || !leads {
                        return Err(NotKept::Deposed(error.to_string()));
                    }
                    self.store.rest();
                }
                Err(error @ EtcdError::NoSpace { .. }) => {
                    self.full_at = Some(now);
                    if let Some(left_out) = self.full.line(now) {
                        tracing::error!(
                            %error, left_out, "nothing is lent: there is no room in etcd"
                        );
                    }
                    return Ok(false);
                }
                Err(error) => return Err(NotKept::Deposed(error.to_string())),
            }
        }
    }

    /// Nothing of that happened to these loans, as far as they are there.
    fn undo(&mut self, records: &[Record], loans: &[LoanId]) {
        let is_refused = |loan: &LoanId| loans.binary_search(loan).is_ok();
        for record in records {
            match record {
                Record::Begun(kept) if is_refused(&kept.loan) => {
                    self.state.loans.remove(&kept.loan);
                }
                Record::Stands(loan) if is_refused(loan) => {
                    if let Some(kept) = self.state.loans.get_mut(loan) {
                        kept.stands = false;
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether it is this monitor's head that stands there: it leads after it was looked at, so it
    /// was led by nobody else before.
    fn stands(&mut self, head: &str, lease: i64) -> Result<bool, EtcdError> {
        let stands = self.store.get(HEAD)?.0.is_some_and(|is| is.value == head);
        Ok(stands && (self.store.get(LEADER)?.0).is_some_and(|is| is.lease == lease))
    }
}

impl<S: Store> Keeper for Keeping<S> {
    fn keep(&mut self, records: &[Record]) -> Result<Vec<LoanId>, NotKept> {
        let mut changed = std::mem::take(&mut self.over);
        for record in records {
            self.state.take(record);
            changed.insert(match record {
                Record::Begun(kept) => kept.loan,
                Record::Stands(loan) | Record::Gone(loan) => *loan,
            });
        }
        // Nobody is told before all of it is there, and each of these parts may be there without
        // the others: a loan that is begun and does not stand yet is undone by who takes over.
        let mut changed: Vec<LoanId> = changed.into_iter().collect();
        let mut kept = 0;
        for loans in changed.chunks(CHANGES_MAX) {
            match self.turn(loans) {
                Ok(true) => kept += loans.len(),
                Ok(false) => break,
                Err(error) => {
                    self.term.end();
                    return Err(error);
                }
            }
        }
        let is_there = |loan: &LoanId| self.state.loans.contains_key(loan);
        let refused = changed.split_off(kept).into_iter();
        let (refused, over): (Vec<LoanId>, Vec<LoanId>) = refused.partition(is_there);
        self.over.extend(over);
        self.undo(records, &refused);
        Ok(refused)
    }

    /// etcd says that it has none when it is asked to keep something.
    fn has_room(&mut self) -> bool {
        let full_at = self.full_at;
        full_at.is_none_or(|at| (self.clock)().since(at) >= FULL_FOR)
    }

    fn leads_until(&self) -> Time {
        self.term.until()
    }

    fn leads(&self) -> bool {
        let stands = self.term.look((self.clock)());
        if !stands {
            // Whatever becomes of the lease: who was deposed once has to be elected anew.
            self.term.end();
        }
        stands
    }
}
