//! Where donors of a program come from.
//!
//! Connecting to one takes time, and so does asking for one: threads do both, one for each store,
//! and the pager hears of it.

use super::borrower::{Borrower, Lost};
use crate::identity::Sealing;
use crate::loan::{LoanId, LoanKey};
use rustix::event::{EventfdFlags, eventfd};
use std::any::Any;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A donor, and a loan of it.
pub type Names = (SocketAddr, LoanId);

/// What a program may borrow by.
pub struct Offer {
    /// Who lends.
    pub donor: SocketAddr,
    /// Who it must be, where it speaks TLS.
    pub sealing: Option<Sealing>,
    /// Which loan; 0 for a share of what is offered to all who have the key.
    pub loan: LoanId,
    /// The loan's secret.
    pub key: LoanKey,
    /// What gives the loan back when it is dropped.
    pub held: Held,
}

/// Gives a loan back when it is dropped; not kept where nothing does.
#[derive(Default)]
pub struct Held(Option<Box<dyn Any + Send>>);

impl Held {
    /// By what is dropped with it.
    pub fn by(held: impl Any + Send) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.0.as_ref().map_or("nothing", |_| "something");
        f.debug_tuple("Held").field(&by).finish()
    }
}

/// What is heard of loans that a program has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The donor wants a loan back, and takes it after a while.
    Wanted {
        /// Which.
        loan: LoanId,
        /// How long there is.
        within: Duration,
    },
    /// A loan is over.
    Broken {
        /// Which.
        loan: LoanId,
        /// Why, as a sentence.
        why: String,
    },
    /// Who looks after all loans is gone: they are over soon.
    AllOver {
        /// Why, as a sentence.
        why: String,
    },
}

/// Who finds donors.
pub trait Supply: Send + Sync {
    /// A loan of so many bytes, of none of these donors. It may take a while, in which others are
    /// sought, too.
    ///
    /// # Errors
    /// Nobody lends so much, as a sentence that says why.
    fn find(&self, bytes: u64, apart: &[Names]) -> Result<Offer, String>;

    /// Is called once, before anything is found: where notices go from then on.
    fn listen(&mut self, _notices: Notices) {}
}

/// Donors that somebody names, all of whom have the same key and an offer. Who was found last is
/// found again after all others.
#[derive(Debug)]
pub struct Named {
    donors: Vec<(SocketAddr, Option<Sealing>)>,
    key: LoanKey,
    next: AtomicUsize,
}

impl Named {
    /// These, and who each must be where it speaks TLS.
    pub fn new(donors: Vec<(SocketAddr, Option<Sealing>)>, key: LoanKey) -> Self {
        let next = AtomicUsize::new(0);
        Self { donors, key, next }
    }
}

impl Supply for Named {
    fn find(&self, _: u64, apart: &[Names]) -> Result<Offer, String> {
        // Drawn once, so that all are looked at, whoever else seeks meanwhile.
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        for next in (start..).take(self.donors.len()) {
            let (donor, sealing) = &self.donors[next % self.donors.len()];
            if apart.iter().all(|(other, _)| other != donor) {
                self.next.fetch_max(next + 1, Ordering::Relaxed);
                return Ok(Offer {
                    donor: *donor,
                    sealing: sealing.clone(),
                    loan: LoanId(0),
                    key: self.key.clone(),
                    held: Held::default(),
                });
            }
        }
        Err("all donors that were named are in use: name another".to_owned())
    }
}

/// A connection to a donor, and what gives back its loan.
pub(super) type Found = Result<(Borrower, Held), String>;

/// What a pager hears.
#[derive(Debug)]
pub(super) enum News {
    /// Of what a store sought.
    Found(usize, Found),
    Notice(Notice),
}

/// Where notices go to.
#[derive(Clone, Debug)]
pub struct Notices {
    to: Sender<News>,
    bell: Arc<OwnedFd>,
}

impl Notices {
    /// Tells of a loan.
    pub fn tell(&self, notice: Notice) {
        self.post(News::Notice(notice));
    }

    fn post(&self, news: News) {
        // Who does not listen any more need not know; a bell that is full has rung.
        let _ = self.to.send(news);
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// Why there is no donor.
#[derive(Debug)]
pub(super) enum NoDonor {
    /// Nobody lends.
    NotLent(String),
    /// This one is not reached, or refuses.
    Lost(SocketAddr, Lost),
}

/// Finds one, and connects.
pub(super) fn connect(
    supply: &dyn Supply,
    bytes: u64,
    apart: &[Names],
) -> Result<(Borrower, Held), NoDonor> {
    let offer = supply.find(bytes, apart).map_err(NoDonor::NotLent)?;
    let donor = offer.donor;
    let borrower = Borrower::connect(donor, offer.sealing.as_ref(), offer.loan, offer.key, bytes);
    match borrower {
        Ok(borrower) => Ok((borrower, offer.held)),
        Err(lost) => Err(NoDonor::Lost(donor, lost)),
    }
}

/// By which a store has donors sought: such that are none of these.
#[derive(Debug)]
pub(super) struct Line {
    wanted: Sender<Vec<Names>>,
}

/// What is heard of donors, of all stores.
#[derive(Debug)]
pub(super) struct Source {
    news: Receiver<News>,
    notices: Notices,
    /// What stores want, by their numbers, until there is somebody who finds donors.
    orders: Vec<(usize, Receiver<Vec<Names>>)>,
}

impl Source {
    /// # Errors
    /// There is no descriptor for it.
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let bell = Arc::new(bell);
        let (to, news) = channel();
        Ok(Self {
            news,
            notices: Notices { to, bell },
            orders: Vec::new(),
        })
    }

    /// For a store, by its number.
    pub(super) fn line(&mut self, store: usize) -> Line {
        let (wanted, orders) = channel();
        self.orders.push((store, orders));
        Line { wanted }
    }

    /// Where notices go.
    pub(super) fn notices(&self) -> Notices {
        self.notices.clone()
    }

    /// Has threads find donors of so many bytes each, when they are wanted: no store waits for a
    /// donor that is sought for another.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn start(&mut self, supply: Box<dyn Supply>, bytes: u64) -> io::Result<()> {
        let supply: Arc<dyn Supply> = Arc::from(supply);
        for (store, orders) in self.orders.drain(..) {
            let (supply, notices) = (Arc::clone(&supply), self.notices.clone());
            let find = move || {
                for apart in orders {
                    let found = connect(&*supply, bytes, &apart).map_err(|why| match why {
                        NoDonor::NotLent(why) => why,
                        NoDonor::Lost(donor, lost) => format!("donor {donor}: {lost}"),
                    });
                    notices.post(News::Found(store, found));
                }
            };
            let name = "venice-supply".to_owned();
            std::thread::Builder::new().name(name).spawn(find)?;
        }
        Ok(())
    }

    /// What is new, all of it: to be asked for when the descriptor can be read.
    pub(super) fn take(&self) -> Vec<News> {
        // First: what is posted after it rings again.
        let _ = rustix::io::read(&self.notices.bell, &mut [0; 8]);
        self.news.try_iter().collect()
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notices.bell.as_fd()
    }
}

impl Line {
    /// Has a donor sought that is none of these. False: there is nobody who would.
    pub(super) fn seek(&self, apart: Vec<Names>) -> bool {
        self.wanted.send(apart).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::time::Instant;

    #[test]
    fn named_donors_take_turns_but_those_in_use() {
        let donors: Vec<SocketAddr> = (1..=3).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let all = donors.iter().map(|donor| (*donor, None)).collect();
        let named = Named::new(all, LoanKey([1; 32]));
        let find = |used: &[SocketAddr]| {
            let used: Vec<Names> = used.iter().map(|donor| (*donor, LoanId(1))).collect();
            named.find(1, &used).map(|offer| offer.donor)
        };
        assert_eq!(find(&[]), Ok(donors[0]));
        assert_eq!(find(&donors[..1]), Ok(donors[1]));
        // The first is lost: the third is next, and then the first again.
        assert_eq!(find(&donors[1..2]), Ok(donors[2]));
        assert_eq!(find(&donors[1..2]), Ok(donors[0]));
        assert!(find(&donors).is_err_and(|why| why.contains("in use")));
    }

    #[test]
    fn a_donor_that_is_free_is_found_by_all_who_seek_at_once() {
        let donors: Vec<SocketAddr> = (1..=3).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let all = donors.iter().map(|donor| (*donor, None)).collect();
        let named = Named::new(all, LoanKey([1; 32]));
        let used: Vec<Names> = donors[1..]
            .iter()
            .map(|donor| (*donor, LoanId(1)))
            .collect();
        let all = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    all.wait();
                    for _ in 0..200_000 {
                        let found = named.find(1, &used).map(|offer| offer.donor);
                        assert_eq!(found, Ok(donors[0]));
                    }
                });
            }
        });
    }

    #[test]
    fn the_bell_rings_until_all_is_heard() {
        let mut source = Source::new().expect("a descriptor");
        let notices = source.notices();
        assert!(source.take().is_empty());
        let loan = LoanId(3);
        let within = Duration::from_secs(1);
        for _ in 0..2 {
            notices.tell(Notice::Wanted { loan, within });
        }
        assert_eq!((source.take().len(), source.take().len()), (2, 0));
        notices.tell(Notice::Wanted { loan, within });
        let mut bell = [0; 8];
        assert!(rustix::io::read(&source, &mut bell).is_ok());
        assert_eq!(source.take().len(), 1);
        assert!(
            rustix::io::read(&source, &mut bell).is_err(),
            "it is silent"
        );
        let supply = Box::new(Named::new(Vec::new(), LoanKey([1; 32])));
        let line = source.line(7);
        source.start(supply, 1).expect("a thread");
        assert!(line.seek(Vec::new()), "there is somebody");
        let news = loop {
            if let Some(news) = source.take().pop() {
                break news;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(matches!(news, News::Found(7, Err(_))), "{news:?}");
    }

    /// Finds nobody before two are sought.
    struct Together(Barrier);

    impl Supply for Together {
        fn find(&self, _: u64, _: &[Names]) -> Result<Offer, String> {
            self.0.wait();
            Err("nobody lends".to_owned())
        }
    }

    #[test]
    fn no_store_waits_for_a_donor_of_another() {
        let mut source = Source::new().expect("a descriptor");
        let lines = [0, 1].map(|store| source.line(store));
        let supply = Together(Barrier::new(lines.len()));
        source.start(Box::new(supply), 1).expect("threads");
        assert!(lines.iter().all(|line| line.seek(Vec::new())));
        let (start, mut found) = (Instant::now(), 0);
        while found < lines.len() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "one is waited for"
            );
            found += source.take().len();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
