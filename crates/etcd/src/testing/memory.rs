//! A store in memory, of one client or several.

use super::model::Model;
use crate::error::EtcdError;
use crate::store::{At, Entry, Renewed, Store};
use crate::transaction::Transaction;
use rhythm_net::Time;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How a transaction goes.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// It is done, and answered.
    Done,
    /// It is done, and nobody says so.
    Unanswered,
    /// It is done, which nobody says, and then asked of another member, which does.
    Twice,
    /// It lies somewhere: see [`Memory::arrive`].
    Late,
    /// There is no room for it.
    Full,
}

#[derive(Debug, Default)]
struct Inner {
    model: Model,
    fates: VecDeque<Fate>,
    late: Vec<Transaction>,
    is_silent: bool,
    /// The term of a deposed leader that renews leases.
    deposed: Option<u64>,
    takes: Duration,
}

/// See the head of this file. Clones are clients of the same etcd.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Inner>>);

fn silent() -> EtcdError {
    EtcdError::Silent {
        at: "etcd".to_owned(),
        error: ErrorKind::TimedOut.into(),
    }
}

impl Memory {
    fn inner<T>(&self, what: impl FnOnce(&mut Inner) -> T) -> T {
        what(&mut self.0.lock().expect("nobody panics under it"))
    }

    /// Does something with what it knows.
    pub fn with<T>(&self, what: impl FnOnce(&mut Model) -> T) -> T {
        self.inner(|inner| what(&mut inner.model))
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.with(|model| model.now())
    }

    /// Time passes.
    pub fn pass(&self, time: Duration) {
        self.with(|model| model.begin(model.now() + time));
    }

    /// How the next transactions go, in this order; those behind them are done.
    pub fn fates(&self, fates: &[Fate]) {
        self.inner(|inner| inner.fates.extend(fates));
    }

    /// Whether nothing is answered from now on.
    pub fn be_silent(&self, is_silent: bool) {
        self.inner(|inner| inner.is_silent = is_silent);
    }

    /// So long each transaction takes from now on.
    pub fn take(&self, time: Duration) {
        self.inner(|inner| inner.takes = time);
    }

    /// Another member leads etcd; until the next time, the one before renews leases, in vain.
    pub fn elect(&self) {
        self.inner(|inner| {
            inner.deposed = Some(inner.model.at().term);
            inner.model.elect(Duration::ZERO);
        });
    }

    /// The deposed leader has heard that it is one.
    pub fn depose(&self) {
        self.inner(|inner| inner.deposed = None);
    }

    /// What lay somewhere is done; how much of it changed something.
    pub fn arrive(&self) -> usize {
        self.inner(|inner| {
            let late = std::mem::take(&mut inner.late);
            let done = late.iter().filter(|late| inner.model.transact(late));
            done.count()
        })
    }

    fn ask<T>(&self, what: impl FnOnce(&mut Inner) -> T) -> Result<T, EtcdError> {
        self.inner(|inner| match inner.is_silent {
            true => Err(silent()),
            false => Ok(what(inner)),
        })
    }
}

impl Store for Memory {
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        self.ask(|inner| inner.model.grant(seconds, Duration::ZERO))
    }

    fn keep_alive(&mut self, lease: i64) -> Result<Option<Renewed>, EtcdError> {
        self.ask(|inner| match inner.deposed {
            Some(term) => inner.model.renew_in_vain(lease, term),
            None => inner.model.renew(lease, Duration::ZERO),
        })
    }

    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        self.ask(|inner| inner.model.revoke(lease))
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, At), EtcdError> {
        self.ask(|Inner { model, .. }| (model.keys().get(key).cloned(), model.at()))
    }

    fn entries(&mut self) -> Result<(Vec<Entry>, At), EtcdError> {
        self.ask(|Inner { model, .. }| (model.keys().values().cloned().collect(), model.at()))
    }

    fn page(
        &mut self,
        folder: &str,
        behind: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError> {
        self.ask(|inner| inner.model.page(folder, behind, most))
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        self.ask(|inner| {
            let model = &mut inner.model;
            model.begin(model.now() + inner.takes);
            match inner.fates.pop_front() {
                None | Some(Fate::Done) => return Ok(model.transact(transaction)),
                Some(Fate::Twice) => {
                    model.transact(transaction);
                    return Ok(model.transact(transaction));
                }
                Some(Fate::Full) => {
                    return Err(EtcdError::NoSpace {
                        at: "etcd".to_owned(),
                        said: "database space exceeded".to_owned(),
                    });
                }
                Some(Fate::Unanswered) => drop(model.transact(transaction)),
                Some(Fate::Late) => inner.late.push(transaction.clone()),
            }
            Err(silent())
        })?
    }

    fn rest(&mut self) {}
}
