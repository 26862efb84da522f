//! A model of etcd: keys, leases that end, and answers that are lost, or come from what is done
//! later.

use rhythm_etcd::testing::Model;
use rhythm_etcd::{At, Entry, EtcdError, Renewed, Store, Transaction};
use rhythm_net::Time;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// etcd, and how it is reached.
#[derive(Debug)]
pub(crate) struct Members {
    now: Time,
    /// How much later than that it is for who waits within one event.
    waited: Duration,
    model: Model,
    late: Vec<(Time, Transaction)>,
    /// Answers are lost, and for a while there are none.
    pub(crate) has_faults: bool,
    pub(crate) down_until: Time,
    /// For a while it has no room.
    pub(crate) full_until: Time,
    /// The term of a leader that was deposed, and until when it does not know it.
    deposed: (u64, Time),
    random: fastrand::Rng,
    turns: u64,
    pub(crate) unanswered: u64,
    pub(crate) late_done: u64,
    pub(crate) fenced: u64,
    pub(crate) refused: u64,
    pub(crate) in_vain: u64,
}

/// How a request goes.
enum Fate {
    Answered,
    /// It is done, and nobody says so.
    Unanswered,
    Lost,
    Late,
}

impl Members {
    pub(crate) fn new(random: fastrand::Rng) -> Members {
        Members {
            now: Time::ZERO,
            waited: Duration::ZERO,
            model: Model::default(),
            late: Vec::new(),
            has_faults: true,
            down_until: Time::ZERO,
            full_until: Time::ZERO,
            deposed: (0, Time::ZERO),
            random,
            turns: 0,
            unanswered: 0,
            late_done: 0,
            fenced: 0,
            refused: 0,
            in_vain: 0,
        }
    }

    /// An event begins.
    pub(crate) fn begin(&mut self, now: Time) {
        (self.now, self.waited) = (now, Duration::ZERO);
        let late = std::mem::take(&mut self.late);
        let (due, later) = late.into_iter().partition(|(at, _)| *at <= now);
        self.late = later;
        let due: Vec<(Time, Transaction)> = due;
        for (_, transaction) in due {
            self.late_done += 1;
            let done = self.transact(&transaction);
            self.fenced += u64::from(!done);
        }
    }

    /// What it knows by now.
    pub(crate) fn model(&mut self) -> &mut Model {
        self.model.begin(self.now + self.waited);
        &mut self.model
    }

    /// Whether leases ended, in the time for which somebody waited, that are not over yet.
    pub(crate) fn is_ahead(&self) -> bool {
        self.model.now() > self.time()
    }

    /// How often a leader kept something.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    pub(crate) fn time(&self) -> Time {
        self.now + self.waited
    }

    /// Another member leads, and the one before does not know it for a while.
    pub(crate) fn elect(&mut self, until: Time) {
        let slack = self.slack();
        let model = self.model();
        let term = model.at().term;
        model.elect(slack);
        self.deposed = (term, until);
    }

    /// etcd looks for leases that are over twice a second.
    fn slack(&mut self) -> Duration {
        Duration::from_millis(self.random.u64(..500))
    }

    fn keep_alive(&mut self, lease: i64) -> Option<Renewed> {
        let (term, until) = self.deposed;
        let slack = self.slack();
        if self.has_faults && self.time() < until {
            self.in_vain += 1;
            return self.model().renew_in_vain(lease, term);
        }
        self.model().renew(lease, slack)
    }

    fn transact(&mut self, transaction: &Transaction) -> bool {
        let done = self.model().transact(transaction);
        self.turns += u64::from(done);
        done
    }

    /// The member that is asked next may have no room for what this one did not answer.
    fn may_be_full(&mut self) {
        if self.has_faults && self.random.u8(..4) == 0 {
            self.full_until = self.time() + Duration::from_secs(3);
        }
    }

    fn fate(&mut self) -> Fate {
        if self.time() < self.down_until {
            return Fate::Lost;
        }
        match self.random.u16(..400) {
            0 if self.has_faults => Fate::Unanswered,
            1 if self.has_faults => Fate::Lost,
            2 if self.has_faults => Fate::Late,
            _ => Fate::Answered,
        }
    }
}

/// A monitor's way to it.
#[derive(Clone)]
pub(crate) struct Client(pub(crate) Arc<Mutex<Members>>);

impl Client {
    fn ask<T>(&self, what: impl FnOnce(&mut Members) -> T) -> Result<T, EtcdError> {
        let mut etcd = self.0.lock().expect("one thread");
        let silent = || EtcdError::Silent {
            at: "etcd".to_owned(),
            error: io::ErrorKind::TimedOut.into(),
        };
        match etcd.fate() {
            Fate::Answered => Ok(what(&mut etcd)),
            Fate::Unanswered => {
                what(&mut etcd);
                etcd.unanswered += 1;
                Err(silent())
            }
            Fate::Lost | Fate::Late => Err(silent()),
        }
    }

    /// What takes room is refused where there is none.
    fn takes_room(&self) -> Result<(), EtcdError> {
        let mut etcd = self.0.lock().expect("one thread");
        if etcd.time() >= etcd.full_until {
            return Ok(());
        }
        etcd.refused += 1;
        Err(EtcdError::NoSpace {
            at: "etcd".to_owned(),
            said: "etcdserver: mvcc: database space exceeded".to_owned(),
        })
    }
}

impl Store for Client {
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        self.takes_room()?;
        self.ask(|etcd| {
            let slack = etcd.slack();
            etcd.model().grant(seconds, slack)
        })
    }

    fn keep_alive(&mut self, lease: i64) -> Result<Option<Renewed>, EtcdError> {
        self.ask(|etcd| etcd.keep_alive(lease))
    }

    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        self.ask(|etcd| etcd.model().revoke(lease))
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, At), EtcdError> {
        self.ask(|etcd| {
            let model = etcd.model();
            (model.keys().get(key).cloned(), model.at())
        })
    }

    fn entries(&mut self) -> Result<(Vec<Entry>, At), EtcdError> {
        unreachable!("a monitor asks for pages")
    }

    fn page(
        &mut self,
        folder: &str,
        behind: Option<&str>,
        _: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError> {
        // A few at a time, so that there are several pages.
        const MOST: usize = 3;
        {
            // It takes its time.
            let mut etcd = self.0.lock().expect("one thread");
            let most = if etcd.has_faults { 1000 } else { 300 };
            let millis = etcd.random.u64(..most);
            etcd.waited += Duration::from_millis(millis);
        }
        self.ask(|etcd| etcd.model().page(folder, behind, MOST))
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        self.takes_room()?;
        {
            let mut etcd = self.0.lock().expect("one thread");
            if let Fate::Late = etcd.fate() {
                // It lies somewhere, and is done when others have been.
                let at = etcd.time() + Duration::from_millis(etcd.random.u64(1..10_000));
                etcd.late.push((at, transaction.clone()));
                etcd.may_be_full();
                return Err(EtcdError::Silent {
                    at: "etcd".to_owned(),
                    error: io::ErrorKind::TimedOut.into(),
                });
            }
        }
        let done = self.ask(|etcd| etcd.transact(transaction));
        if done.is_err() {
            self.0.lock().expect("one thread").may_be_full();
        }
        done
    }

    fn rest(&mut self) {
        let mut etcd = self.0.lock().expect("one thread");
        etcd.waited += Duration::from_millis(50);
    }
}
