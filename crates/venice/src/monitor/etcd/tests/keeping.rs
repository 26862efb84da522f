//! The keeper where some member of etcd does not answer, or has no room.

use super::super::keeping::Keeping;
use super::super::loading::Loaded;
use super::super::rows::{HEAD, LEADER, LOANS};
use super::super::term::Term;
use crate::loan::LoanId;
use crate::monitor::keeper::{Keeper, Kept, NotKept, Record, State};
use rhythm_etcd::Store;
use rhythm_etcd::testing::{Fate, Memory};
use rhythm_net::Time;
use std::sync::Arc;
use std::time::Duration;

/// The keeper of a term that begins with nothing, and the term.
fn keeping(memory: &Memory) -> (Keeping<Memory>, Arc<Term>) {
    let lease = memory.with(|model| model.grant(1000, Duration::ZERO));
    let mut store = memory.clone();
    store.put(LEADER, "", lease).expect("it answers");
    let lasts = Duration::from_secs(3);
    let term = Arc::new(Term::new(lease, lasts, Time::NEVER, Time::ZERO));
    let (head, text) = Default::default();
    let begun = (State::default(), Loaded { head, text });
    let of = memory.clone();
    let clock = Box::new(move || of.now());
    (Keeping::new(store, Arc::clone(&term), begun, clock), term)
}

fn loans(memory: &Memory) -> usize {
    memory.with(|model| {
        let keys = model.keys().keys();
        keys.filter(|key| key.starts_with(LOANS)).count()
    })
}

fn begun(loan: u64) -> Record {
    Record::Begun(Kept {
        loan: LoanId(loan),
        lender: "a".parse().expect("a name"),
        borrower: "b".parse().expect("a name"),
        share: crate::resource::Share::memory(1),
        since: 0,
        stands: false,
    })
}

#[test]
fn a_leader_leads_on_where_there_is_no_room() {
    let memory = Memory::default();
    let (mut keeping, term) = keeping(&memory);
    memory.fates(&[Fate::Full]);
    let refused = keeping.keep(&[begun(1)]).expect("it leads");
    assert_eq!((refused, loans(&memory)), (vec![LoanId(1)], 0));
    assert!(!keeping.has_room() && keeping.leads() && term.stands(Time::ZERO));
    memory.pass(Duration::from_secs(5));
    assert!(keeping.has_room());
    assert_eq!(keeping.keep(&[begun(2)]).expect("it leads"), []);
    assert_eq!(loans(&memory), 1);
}

#[test]
fn what_was_done_before_a_member_had_no_room_is_kept() {
    let memory = Memory::default();
    let (mut keeping, _) = keeping(&memory);
    memory.fates(&[Fate::Unanswered, Fate::Full]);
    assert_eq!(keeping.keep(&[begun(1)]).expect("it leads"), []);
    assert_eq!(keeping.keep(&[begun(2)]).expect("it leads"), []);
    assert_eq!(loans(&memory), 2);
}

#[test]
fn what_is_done_later_than_it_was_refused_passes_for_nothing_else() {
    let memory = Memory::default();
    let (mut keeping, term) = keeping(&memory);
    assert_eq!(keeping.keep(&[begun(1)]).expect("it leads"), []);
    memory.fates(&[Fate::Late, Fate::Full]);
    let refused = keeping.keep(&[Record::Stands(LoanId(1))]);
    assert_eq!(refused.expect("it leads"), [LoanId(1)]);
    assert_eq!(memory.arrive(), 1, "it was asked");
    // Nothing of this is there.
    let kept = keeping.keep(&[Record::Gone(LoanId(1))]);
    assert!(matches!(kept, Err(NotKept::Deposed(_))), "{kept:?}");
    assert_eq!(loans(&memory), 1);
    assert!(!term.stands(Time::ZERO));
    assert!(memory.with(|model| model.keys().contains_key(HEAD)));
}

#[test]
fn who_waits_for_one_answer_after_the_other_does_not_hang() {
    let memory = Memory::default();
    let (mut keeping, term) = keeping(&memory);
    memory.take(Duration::from_secs(1));
    let records: Vec<Record> = (1..=1200).map(begun).collect();
    assert_eq!(keeping.keep(&records).expect("it leads"), []);
    assert_eq!(memory.now(), Time::ZERO + Duration::from_secs(12));
    assert_eq!(term.looked_at(), memory.now());
}
