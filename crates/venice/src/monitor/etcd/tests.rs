mod keeping;

use super::election::{Election, Standing};
use super::loading::LoadError;
use super::rows::{LEADER, Place};
use rhythm_etcd::testing::Memory;
use rhythm_etcd::{At, Change, Entry, EtcdError, Renewed, Store, Transaction};
use rhythm_net::Time;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Seconds that a lease lasts.
const LEASE: u64 = 3;

/// An etcd that has many pages of loans, and takes its time for each.
#[derive(Debug)]
struct Slow {
    now: Time,
    page: Duration,
    pages: usize,
    /// Of the one lease that there is.
    until: Time,
    leader: Option<Entry>,
    revoked: usize,
}

#[derive(Clone, Debug)]
struct Client(Arc<Mutex<Slow>>);

impl Client {
    fn new(page: Duration, pages: usize) -> Client {
        Client(Arc::new(Mutex::new(Slow {
            now: Time::ZERO,
            page,
            pages,
            until: Time::ZERO,
            leader: None,
            revoked: 0,
        })))
    }

    fn with<T>(&self, what: impl FnOnce(&mut Slow) -> T) -> T {
        what(&mut self.0.lock().expect("one thread"))
    }

    fn clock(&self) -> impl Fn() -> Time + use<> {
        let slow = Arc::clone(&self.0);
        move || slow.lock().expect("one thread").now
    }

    fn pass(&self, time: Duration) {
        self.with(|slow| slow.now += time);
    }
}

impl Store for Client {
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        self.with(|slow| slow.until = slow.now + Duration::from_secs(seconds));
        Ok(7)
    }

    fn keep_alive(&mut self, _: i64) -> Result<Option<Renewed>, EtcdError> {
        Ok(self.with(|slow| {
            if slow.now >= slow.until {
                return None;
            }
            slow.until = slow.now + Duration::from_secs(LEASE);
            Some(Renewed {
                seconds: LEASE,
                term: 0,
            })
        }))
    }

    fn revoke(&mut self, _: i64) -> Result<(), EtcdError> {
        self.with(|slow| {
            slow.revoked += 1;
            slow.leader = None;
        });
        Ok(())
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, At), EtcdError> {
        let found = self.with(|slow| slow.leader.clone().filter(|_| slow.now < slow.until));
        Ok((found.filter(|_| key == LEADER), At::default()))
    }

    fn entries(&mut self) -> Result<(Vec<Entry>, At), EtcdError> {
        unreachable!("nobody asks for all of it")
    }

    fn page(
        &mut self,
        _: &str,
        _: Option<&str>,
        _: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError> {
        let kept = super::rows::row(&crate::monitor::keeper::Kept {
            loan: crate::loan::LoanId(0),
            lender: "a".parse().expect("a name"),
            borrower: "b".parse().expect("a name"),
            share: crate::resource::Share::memory(1),
            since: 0,
            stands: true,
        });
        self.with(|slow| {
            slow.now += slow.page;
            slow.pages = slow.pages.saturating_sub(1);
            let entry = Entry {
                key: super::rows::key(crate::loan::LoanId(0)),
                value: kept,
                lease: 0,
            };
            Ok((vec![entry], slow.pages > 0))
        })
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        for change in &transaction.changes {
            if let Change::Put { key, value, lease } = change {
                let (key, value, lease) = (key.clone(), value.clone(), *lease);
                let entry = Entry { key, value, lease };
                self.with(|slow| slow.leader = Some(entry));
            }
        }
        Ok(true)
    }

    fn rest(&mut self) {}
}

fn election(client: &Client) -> Election<Client> {
    let agents = ([10, 0, 0, 1], 7200).into();
    let me = Place {
        agents,
        admin: None,
        trusted: None,
    };
    Election::new(client.clone(), me, LEASE)
}

#[test]
fn a_lease_is_renewed_while_much_is_read() {
    let client = Client::new(Duration::from_millis(1500), 9);
    let clock = client.clock();
    let begun = election(&client).step(&clock).expect("etcd answers");
    let Standing::Begins(term, _) = begun else {
        panic!("{begun:?}");
    };
    let left = term.until().since(clock());
    assert!(left > Duration::from_millis(1000), "{left:?}");
    let until = client.with(|slow| slow.until);
    assert!(term.until() < until, "it ends before etcd's lease does");
}

#[test]
fn who_reads_for_longer_than_its_lease_does_not_lead() {
    let client = Client::new(Duration::from_secs(4), 2);
    let clock = client.clock();
    let mut election = election(&client);
    let begun = election.step(&clock);
    assert!(matches!(begun, Err(LoadError::Late)), "{begun:?}");
    assert!(!election.leads());
}

#[test]
fn a_leader_whose_thread_hangs_gives_up_its_lease_until_it_goes_on() {
    for hangs in [false, true] {
        let client = Client::new(Duration::ZERO, 1);
        let clock = client.clock();
        let mut election = election(&client);
        let Ok(Standing::Begins(term, _)) = election.step(&clock) else {
            panic!("it leads");
        };
        for _ in 0..12 {
            client.pass(Duration::from_secs(1));
            assert!(hangs || term.look(clock()), "it leads");
            election.step(&clock).expect("etcd answers");
        }
        assert_eq!(client.with(|slow| slow.revoked > 0), hangs);
        assert_eq!(term.stands(clock()), !hangs);
        if hangs {
            for _ in 0..12 {
                client.pass(Duration::from_secs(1));
                let standing = election.step(&clock).expect("etcd answers");
                assert!(matches!(standing, Standing::Vacant), "{standing:?}");
            }
            assert!(!term.look(clock()), "it is over");
            let standing = election.step(&clock).expect("etcd answers");
            assert!(matches!(standing, Standing::Begins(..)), "{standing:?}");
        }
    }
}

/// A leader of etcd that was deposed and does not know it renews leases: its successor ends them,
/// and another monitor leads.
#[test]
fn who_is_told_by_a_deposed_leader_of_etcd_that_it_leads_knows_better() {
    let memory = Memory::default();
    let of = memory.clone();
    let clock = move || of.now();
    let [mut first, mut second] = [1, 2].map(|host| {
        let agents = ([10, 0, 0, host], 7200).into();
        let me = Place {
            agents,
            admin: None,
            trusted: None,
        };
        Election::new(memory.clone(), me, LEASE)
    });
    let Ok(Standing::Begins(term, _)) = first.step(&clock) else {
        panic!("it leads");
    };
    memory.elect();
    let mut leads = 0;
    let other = loop {
        memory.pass(Duration::from_millis(100));
        term.look(clock());
        match second.step(&clock).expect("etcd answers") {
            Standing::Begins(other, _) => break other,
            standing => assert!(matches!(standing, Standing::Follows(..)), "{standing:?}"),
        }
        let standing = first.step(&clock).expect("etcd answers");
        leads += u32::from(matches!(standing, Standing::Leads));
    };
    assert!(leads > 10, "it was told so");
    assert!(other.stands(clock()) && !term.stands(clock()));
}
