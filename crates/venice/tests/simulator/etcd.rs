//! A model of etcd: keys, leases that end, and answers that are lost, or come from what is done
//! later.

use rhythm_etcd::{Change, Compare, Entry, EtcdError, Transaction};
use rhythm_net::Time;
use rhythm_venice::monitor::etcd::Store;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What there is.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) now: Time,
    /// How much later than that it is for who waits within one event.
    waited: Duration,
    pub(crate) keys: BTreeMap<String, Entry>,
    leases: BTreeMap<i64, (Duration, Time)>,
    last: i64,
    late: Vec<(Time, Transaction)>,
    /// Answers are lost, and for a while there are none.
    pub(crate) has_faults: bool,
    pub(crate) down_until: Time,
    /// For a while it has no room.
    pub(crate) full_until: Time,
    random: fastrand::Rng,
    turns: u64,
    pub(crate) unanswered: u64,
    pub(crate) late_done: u64,
    pub(crate) fenced: u64,
    pub(crate) refused: u64,
}

/// How a request goes.
enum Fate {
    Answered,
    /// It is done, and nobody says so.
    Unanswered,
    Lost,
    Late,
}

impl Model {
    pub(crate) fn new(random: fastrand::Rng) -> Model {
        Model {
            now: Time::ZERO,
            waited: Duration::ZERO,
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            last: 0,
            late: Vec::new(),
            has_faults: true,
            down_until: Time::ZERO,
            full_until: Time::ZERO,
            random,
            turns: 0,
            unanswered: 0,
            late_done: 0,
            fenced: 0,
            refused: 0,
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
        self.end_leases();
    }

    /// How often a leader kept something.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    pub(crate) fn time(&self) -> Time {
        self.now + self.waited
    }

    /// Leases whose time is over, and the keys under them.
    fn end_leases(&mut self) {
        let now = self.time();
        self.leases.retain(|_, (_, until)| *until > now);
        let leases = &self.leases;
        self.keys
            .retain(|_, entry| entry.lease == 0 || leases.contains_key(&entry.lease));
    }

    /// etcd looks for leases that are over twice a second.
    fn lease_until(&mut self, lasts: Duration) -> Time {
        self.time() + lasts + Duration::from_millis(self.random.u64(..500))
    }

    fn transact(&mut self, transaction: &Transaction) -> bool {
        self.end_leases();
        let holds = transaction.compares.iter().all(|compare| match compare {
            Compare::Absent(key) => !self.keys.contains_key(key),
            Compare::Under(key, lease) => self
                .keys
                .get(key)
                .is_some_and(|entry| entry.lease == *lease),
            Compare::Is(key, value) => self
                .keys
                .get(key)
                .is_some_and(|entry| entry.value == *value),
        });
        if !holds {
            return false;
        }
        assert!(transaction.changes.len() <= 128, "etcd takes no more");
        self.turns += 1;
        for change in &transaction.changes {
            match change {
                Change::Put { key, value, lease } => {
                    if *lease != 0 && !self.leases.contains_key(lease) {
                        return false;
                    }
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone(),
                        lease: *lease,
                    };
                    self.keys.insert(key.clone(), entry);
                }
                Change::Delete(key) => drop(self.keys.remove(key)),
            }
        }
        true
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
pub(crate) struct Client(pub(crate) Arc<Mutex<Model>>);

impl Client {
    fn ask<T>(&self, what: impl FnOnce(&mut Model) -> T) -> Result<T, EtcdError> {
        let mut model = self.0.lock().expect("one thread");
        model.end_leases();
        let silent = || EtcdError::Silent {
            at: "etcd".to_owned(),
            error: io::ErrorKind::TimedOut.into(),
        };
        match model.fate() {
            Fate::Answered => Ok(what(&mut model)),
            Fate::Unanswered => {
                what(&mut model);
                model.unanswered += 1;
                Err(silent())
            }
            Fate::Lost | Fate::Late => Err(silent()),
        }
    }

    /// What takes room is refused where there is none.
    fn takes_room(&self) -> Result<(), EtcdError> {
        let mut model = self.0.lock().expect("one thread");
        if model.time() >= model.full_until {
            return Ok(());
        }
        model.refused += 1;
        Err(EtcdError::NoSpace {
            at: "etcd".to_owned(),
            said: "etcdserver: mvcc: database space exceeded".to_owned(),
        })
    }
}

impl Store for Client {
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        self.takes_room()?;
        self.ask(|model| {
            model.last += 1;
            let lasts = Duration::from_secs(seconds);
            let until = model.lease_until(lasts);
            model.leases.insert(model.last, (lasts, until));
            model.last
        })
    }

    fn keep_alive(&mut self, lease: i64) -> Result<bool, EtcdError> {
        self.ask(|model| {
            let Some((lasts, _)) = model.leases.get(&lease).copied() else {
                return false;
            };
            let until = model.lease_until(lasts);
            model.leases.insert(lease, (lasts, until));
            true
        })
    }

    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        self.ask(|model| {
            model.leases.remove(&lease);
            model.end_leases();
        })
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, i64), EtcdError> {
        self.ask(|model| (model.keys.get(key).cloned(), 1))
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
            let mut model = self.0.lock().expect("one thread");
            let most = if model.has_faults { 1000 } else { 300 };
            let millis = model.random.u64(..most);
            model.waited += Duration::from_millis(millis);
        }
        self.ask(|model| {
            let all = model.keys.values();
            let of = all.filter(|entry| entry.key.starts_with(&format!("{folder}/")));
            let of = of.filter(|entry| behind.is_none_or(|behind| entry.key.as_str() > behind));
            let mut found: Vec<Entry> = of.take(MOST + 1).cloned().collect();
            let has_more = found.len() > MOST;
            found.truncate(MOST);
            (found, has_more)
        })
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        self.takes_room()?;
        {
            let mut model = self.0.lock().expect("one thread");
            if let Fate::Late = model.fate() {
                // It lies somewhere, and is done when others have been.
                let at = model.time() + Duration::from_millis(model.random.u64(1..10_000));
                model.late.push((at, transaction.clone()));
                model.may_be_full();
                return Err(EtcdError::Silent {
                    at: "etcd".to_owned(),
                    error: io::ErrorKind::TimedOut.into(),
                });
            }
        }
        let done = self.ask(|model| model.transact(transaction));
        if done.is_err() {
            self.0.lock().expect("one thread").may_be_full();
        }
        done
    }

    fn rest(&mut self) {
        let mut model = self.0.lock().expect("one thread");
        model.waited += Duration::from_millis(50);
    }
}
