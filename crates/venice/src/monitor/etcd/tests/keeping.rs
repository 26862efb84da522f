//! The keeper where some member of etcd does not answer, or has no room.

use super::super::keeping::Keeping;
use super::super::loading::Loaded;
use super::super::rows::{HEAD, LEADER, LOANS};
use super::super::store::Store;
use super::super::term::Term;
use crate::loan::LoanId;
use crate::monitor::keeper::{Keeper, Kept, NotKept, Record, State};
use rhythm_etcd::{Change, Compare, Entry, EtcdError, Transaction};
use rhythm_net::Time;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LEASE: i64 = 7;

/// How a transaction goes; otherwise it is done, and answered.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is done, and nobody says so.
    Unanswered,
    /// It is done later.
    Late,
    Full,
}

#[derive(Debug, Default)]
struct Members {
    keys: BTreeMap<String, String>,
    fates: VecDeque<Fate>,
    late: Vec<Transaction>,
    now: Time,
}

impl Members {
    fn done(&mut self, transaction: &Transaction) -> bool {
        let holds = transaction.compares.iter().all(|compare| match compare {
            Compare::Absent(key) => !self.keys.contains_key(key),
            Compare::Under(_, lease) => *lease == LEASE,
            Compare::Is(key, value) => self.keys.get(key) == Some(value),
        });
        for change in transaction.changes.iter().filter(|_| holds) {
            match change {
                Change::Put { key, value, .. } => {
                    drop(self.keys.insert(key.clone(), value.clone()))
                }
                Change::Delete(key) => drop(self.keys.remove(key)),
            }
        }
        holds
    }
}

#[derive(Clone, Debug, Default)]
struct Client(Arc<Mutex<Members>>);

impl Client {
    fn with<T>(&self, what: impl FnOnce(&mut Members) -> T) -> T {
        what(&mut self.0.lock().expect("one thread"))
    }

    fn fates(&self, fates: &[Fate]) {
        self.with(|members| members.fates.extend(fates));
    }

    fn loans(&self) -> usize {
        self.with(|members| {
            members
                .keys
                .keys()
                .filter(|key| key.starts_with(LOANS))
                .count()
        })
    }

    /// The keeper of a term that begins with nothing, and the term.
    fn keeping(&self) -> (Keeping<Client>, Arc<Term>) {
        let lasts = Duration::from_secs(3);
        let term = Arc::new(Term::new(LEASE, lasts, Time::NEVER, Time::ZERO));
        let (head, text) = Default::default();
        let begun = (State::default(), Loaded { head, text });
        let client = self.clone();
        let clock = Box::new(move || client.with(|members| members.now));
        let keeping = Keeping::new(self.clone(), Arc::clone(&term), begun, clock);
        (keeping, term)
    }
}

impl Store for Client {
    fn grant(&mut self, _: u64) -> Result<i64, EtcdError> {
        Ok(LEASE)
    }

    fn keep_alive(&mut self, _: i64) -> Result<bool, EtcdError> {
        Ok(true)
    }

    fn revoke(&mut self, _: i64) -> Result<(), EtcdError> {
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, i64), EtcdError> {
        let value = match key {
            LEADER => Some(String::new()),
            key => self.with(|members| members.keys.get(key).cloned()),
        };
        let (key, lease) = (key.to_owned(), LEASE);
        Ok((value.map(|value| Entry { key, value, lease }), 1))
    }

    fn page(
        &mut self,
        _: &str,
        _: Option<&str>,
        _: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError> {
        Ok((Vec::new(), false))
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        self.with(|members| {
            members.now += Duration::from_secs(1);
            let at = "etcd".to_owned();
            match members.fates.pop_front() {
                None => return Ok(members.done(transaction)),
                Some(Fate::Full) => {
                    let said = "database space exceeded".to_owned();
                    return Err(EtcdError::NoSpace { at, said });
                }
                Some(Fate::Unanswered) => drop(members.done(transaction)),
                Some(Fate::Late) => members.late.push(transaction.clone()),
            }
            let error = ErrorKind::TimedOut.into();
            Err(EtcdError::Silent { at, error })
        })
    }

    fn rest(&mut self) {}
}

fn begun(loan: u64) -> Record {
    Record::Begun(Kept {
        loan: LoanId(loan),
        lender: "a".parse().expect("a name"),
        borrower: "b".parse().expect("a name"),
        bytes: 1,
        since: 0,
        stands: false,
    })
}

#[test]
fn a_leader_leads_on_where_there_is_no_room() {
    let client = Client::default();
    let (mut keeping, term) = client.keeping();
    client.fates(&[Fate::Full]);
    let refused = keeping.keep(&[begun(1)]).expect("it leads");
    assert_eq!((refused, client.loans()), (vec![LoanId(1)], 0));
    assert!(!keeping.has_room() && keeping.leads() && term.stands(Time::ZERO));
    client.with(|members| members.now += Duration::from_secs(5));
    assert!(keeping.has_room());
    assert_eq!(keeping.keep(&[begun(2)]).expect("it leads"), []);
    assert_eq!(client.loans(), 1);
}

#[test]
fn what_was_done_before_a_member_had_no_room_is_kept() {
    let client = Client::default();
    let (mut keeping, _) = client.keeping();
    client.fates(&[Fate::Unanswered, Fate::Full]);
    assert_eq!(keeping.keep(&[begun(1)]).expect("it leads"), []);
    assert_eq!(keeping.keep(&[begun(2)]).expect("it leads"), []);
    assert_eq!(client.loans(), 2);
}

#[test]
fn what_is_done_later_than_it_was_refused_passes_for_nothing_else() {
    let client = Client::default();
    let (mut keeping, term) = client.keeping();
    assert_eq!(keeping.keep(&[begun(1)]).expect("it leads"), []);
    client.fates(&[Fate::Late, Fate::Full]);
    let refused = keeping.keep(&[Record::Stands(LoanId(1))]);
    assert_eq!(refused.expect("it leads"), [LoanId(1)]);
    client.with(|members| {
        let late = members.late.pop().expect("it was asked");
        assert!(members.done(&late));
    });
    // Nothing of this is there.
    let kept = keeping.keep(&[Record::Gone(LoanId(1))]);
    assert!(matches!(kept, Err(NotKept::Deposed(_))), "{kept:?}");
    assert_eq!(client.loans(), 1);
    assert!(!term.stands(Time::ZERO));
    assert!(client.with(|members| members.keys.contains_key(HEAD)));
}

#[test]
fn who_waits_for_one_answer_after_the_other_does_not_hang() {
    let client = Client::default();
    let (mut keeping, term) = client.keeping();
    let records: Vec<Record> = (1..=1200).map(begun).collect();
    assert_eq!(keeping.keep(&records).expect("it leads"), []);
    let now = client.with(|members| members.now);
    assert_eq!(now, Time::ZERO + Duration::from_secs(12));
    assert_eq!(term.looked_at(), now);
}
