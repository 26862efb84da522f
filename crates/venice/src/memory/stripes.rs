//! Slots over several stores, extent by extent: each store has donors of its own.
//!
//! ```text
//!   slot       0 ..     256 ..    512 ..    768 ..
//!   of three   store 0  store 1   store 2   store 0, its second extent
//! ```

use super::store::{Bytes, Counts, Donor, Event, Gone, Store, Whose};
use super::supply::{News, Notice, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Slots that lie together, a mebibyte: free ones are given back in runs.
const EXTENT: u32 = 256;

/// How many notices are kept of loans that no store has; the last ones.
const EARLY_MAX: usize = 64;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Stripes {
    /// At least one.
    stores: Vec<Store>,
    source: Source,
    /// What was heard, and when, of loans that no store has: of one whose donor is just being
    /// connected to, or that was given back.
    early: VecDeque<(Notice, Instant)>,
}

/// Which store a slot is of, and which slot it is there.
fn place(slot: u32, stores: u32) -> (usize, u32) {
    let extent = slot / EXTENT;
    let within = extent / stores * EXTENT + slot % EXTENT;
    ((extent % stores) as usize, within)
}

/// The inverse of [`place`].
fn slot(store: usize, within: u32, stores: u32) -> u32 {
    (within / EXTENT * stores + store as u32) * EXTENT + within % EXTENT
}

/// How many slots each of so many stores has, of so many in all.
pub(super) fn slots_each(slots: u64, stores: u64) -> u64 {
    let extent = u64::from(EXTENT);
    match stores {
        1 => slots,
        _ => slots.div_ceil(extent).div_ceil(stores) * extent,
    }
}

impl Stripes {
    /// Over these stores, of which there is one at least, and what tells them of donors.
    pub(super) fn new(stores: Vec<Store>, source: Source) -> Self {
        debug_assert!(!stores.is_empty(), "slots are somewhere");
        Self {
            stores,
            source,
            early: VecDeque::new(),
        }
    }

    fn count(&self) -> u32 {
        self.stores.len() as u32
    }

    fn at(&mut self, slot: u32) -> (&mut Store, u32) {
        let (store, within) = place(slot, self.count());
        (&mut self.stores[store], within)
    }

    /// See [`Store::write`].
    pub(super) fn write(&mut self, slot: u32, bytes: &Bytes, now: Instant) {
        let (store, within) = self.at(slot);
        store.write(within, bytes, now);
    }

    /// See [`Store::in_flight`].
    pub(super) fn in_flight(&self, slot: u32) -> Option<Arc<Bytes>> {
        let (store, within) = place(slot, self.count());
        self.stores[store].in_flight(within)
    }

    /// See [`Store::in_flight_count`].
    pub(super) fn in_flight_count(&self) -> usize {
        self.stores.iter().map(Store::in_flight_count).sum()
    }

    /// See [`Store::read`]; no two stores give the same ticket.
    pub(super) fn read(&mut self, slot: u32, whose: Whose, now: Instant) -> u64 {
        let count = self.count();
        let (index, within) = place(slot, count);
        let ticket = self.stores[index].read(within, whose, now);
        ticket * u64::from(count) + index as u64
    }

    /// See [`Store::forget`].
    pub(super) fn forget(&mut self, slot: u32) {
        let (store, within) = self.at(slot);
        store.forget(within);
    }

    /// See [`Store::free`]; the slots lie together.
    pub(super) fn free(&mut self, first: u32, count: usize, now: Instant) {
        let end = first + count as u32;
        let mut next = first;
        while next < end {
            let extent_end = (next / EXTENT + 1) * EXTENT;
            let part = extent_end.min(end) - next;
            let (store, within) = self.at(next);
            store.free(within, part as usize, now);
            next += part;
        }
    }

    /// See [`Store::flush`].
    pub(super) fn flush(&mut self) {
        self.stores.iter_mut().for_each(Store::flush);
    }

    /// See [`Store::is_due`].
    pub(super) fn is_due(&self) -> bool {
        self.stores.iter().any(Store::is_due)
    }

    /// See [`Store::receive`].
    ///
    /// # Errors
    /// [`Gone`].
    pub(super) fn receive(&mut self, now: Instant) -> Result<Vec<Event>, Gone> {
        let count = self.count();
        let mut all = Vec::new();
        for (index, store) in self.stores.iter_mut().enumerate() {
            all.extend(store.receive(now)?.into_iter().map(|event| match event {
                Event::Stored(within) => Event::Stored(slot(index, within, count)),
                Event::Page(ticket, whose, bytes) => {
                    let ticket = ticket * u64::from(count) + index as u64;
                    Event::Page(ticket, whose, bytes)
                }
            }));
        }
        Ok(all)
    }

    /// See [`Store::look`].
    pub(super) fn look(&mut self, now: Instant) {
        self.stores.iter_mut().for_each(|store| store.look(now));
    }

    /// Hears what is new of donors, when [`bell`](Self::bell) can be read.
    pub(super) fn hear(&mut self, now: Instant) {
        for news in self.source.take() {
            match news {
                News::Found(store, found) => {
                    self.stores[store].found(found, now);
                    let early = std::mem::take(&mut self.early).into_iter();
                    let still = early.filter(|(notice, since)| !self.note(notice, *since, now));
                    self.early = still.collect();
                }
                News::Notice(notice) => {
                    if !self.note(&notice, now, now) {
                        self.early.push_back((notice, now));
                        if self.early.len() > EARLY_MAX {
                            self.early.pop_front();
                        }
                    }
                }
            }
        }
    }

    /// Hears for a moment why what is gone is gone: a donor's end may be seen before who looks
    /// after its loan has told of it.
    pub(super) fn hear_why(&self, gone: &mut Gone, patience: Duration) {
        let until = Instant::now() + patience;
        while gone.why.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut polled = [PollFd::from_borrowed_fd(self.bell(), PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            gone.why = self.source.take().into_iter().find_map(|news| match news {
                News::Notice(Notice::AllOver { why }) => Some(why),
                News::Notice(Notice::Broken { loan, why }) => (loan == gone.loan).then_some(why),
                News::Notice(Notice::Wanted { .. }) | News::Found(..) => None,
            });
        }
    }

    /// Something was said of a loan at that time. False: no store has it.
    fn note(&mut self, notice: &Notice, since: Instant, now: Instant) -> bool {
        let mut stores = self.stores.iter_mut();
        match notice {
            Notice::Wanted { loan, within } => {
                stores.any(|store| store.is_wanted(*loan, *within, since))
            }
            Notice::Broken { loan, why } => stores.any(|store| store.is_broken(*loan, why, now)),
            Notice::AllOver { why } => {
                stores.for_each(|store| store.are_over(why));
                true
            }
        }
    }

    /// What is readable when there is something to hear.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// See [`Store::waits`].
    pub(super) fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.stores.iter().flat_map(Store::waits)
    }

    /// See [`Store::is_filling`].
    pub(super) fn is_filling(&self) -> bool {
        self.stores.iter().any(Store::is_filling)
    }

    /// How donors are.
    pub(super) fn donors(&self) -> impl Iterator<Item = Donor> {
        self.stores.iter().flat_map(Store::donors)
    }

    /// Why another is not found, where one is sought.
    pub(super) fn not_found(&self) -> Option<&String> {
        self.stores.iter().find_map(Store::not_found)
    }

    /// What happened to donors.
    pub(super) fn counts(&self) -> Counts {
        let counts = self.stores.iter().map(|store| store.counts);
        counts.fold(Counts::default(), |all, it| Counts {
            lost: all.lost + it.lost,
            moved: all.moved + it.moved,
            copied: all.copied + it.copied,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::{LoanId, LoanKey};
    use crate::memory::borrower::Lost;
    use crate::memory::donor::Donor;
    use crate::memory::store::Keeping;
    use crate::memory::supply::{self, Held, Names, Notices, Offer, Supply};
    use std::sync::atomic::{AtomicU64, Ordering};

    const BYTES: u64 = 1 << 20;
    const KEY: LoanKey = LoanKey([1; 32]);

    /// Lends again and again, by loans that are counted; the donor wants the second back before
    /// anybody has connected to it.
    struct Hasty {
        donor: Donor,
        count: Arc<AtomicU64>,
        notices: Option<Notices>,
    }

    impl Supply for Hasty {
        fn find(&self, bytes: u64, _: &[Names]) -> Result<Offer, String> {
            let loan = LoanId(1 + self.count.fetch_add(1, Ordering::Relaxed));
            let granted = self.donor.grant(loan, bytes, KEY);
            granted.map_err(|error| error.to_string())?;
            if let (LoanId(2), Some(notices)) = (loan, &self.notices) {
                let within = Duration::from_secs(20);
                notices.tell(Notice::Wanted { loan, within });
            }
            Ok(Offer {
                donor: self.donor.addresses()[0],
                sealing: None,
                loan,
                key: KEY,
                held: Held::default(),
            })
        }

        fn listen(&mut self, notices: Notices) {
            self.notices = Some(notices);
        }
    }

    #[test]
    fn what_is_said_of_a_loan_that_is_connected_to_is_heard_then() {
        let mut source = Source::new().expect("a descriptor");
        let count = Arc::new(AtomicU64::new(0));
        let mut supply = Hasty {
            donor: Donor::start(([127, 0, 0, 1], 0).into(), 8 * BYTES).expect("a port"),
            count: Arc::clone(&count),
            notices: None,
        };
        supply.listen(source.notices());
        let first = supply::connect(&supply, BYTES, &[]).expect("a loan");
        let keeping = Keeping {
            copies: 1,
            refill: BYTES,
        };
        let line = source.line(0);
        let store = Store::new(keeping, vec![first], line, Instant::now());
        source.start(Box::new(supply), BYTES).expect("a thread");
        let (loan, within) = (LoanId(1), Duration::from_secs(20));
        source.notices().tell(Notice::Wanted { loan, within });
        let mut stripes = Stripes::new(vec![store], source);
        // Another is sought in place of the first, and, as that is wanted, too, of the second.
        let start = Instant::now();
        while count.load(Ordering::Relaxed) < 3 {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "it was not heard"
            );
            let now = Instant::now();
            stripes.hear(now);
            assert!(stripes.receive(now).is_ok());
            stripes.look(now);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn why_a_loan_ended_is_heard_though_its_donor_was_quicker() {
        let stripes = Stripes {
            stores: Vec::new(),
            source: Source::new().expect("a descriptor"),
            early: VecDeque::new(),
        };
        let notices = stripes.source.notices();
        let mut gone = Gone {
            donor: ([127, 0, 0, 1], 1).into(),
            loan: LoanId(2),
            lost: Lost::Closed,
            why: None,
        };
        stripes.hear_why(&mut gone, Duration::ZERO);
        assert_eq!(gone.why, None, "nobody says why");
        let later = std::thread::spawn(move || {
            let broken = |loan, why: &str| Notice::Broken {
                loan: LoanId(loan),
                why: why.to_owned(),
            };
            notices.tell(broken(1, "another's"));
            std::thread::sleep(Duration::from_millis(20));
            notices.tell(broken(2, "its own"));
        });
        stripes.hear_why(&mut gone, Duration::from_secs(60));
        later.join().expect("it ends");
        assert_eq!(gone.why.as_deref(), Some("its own"));
    }

    #[test]
    fn each_slot_has_a_place_of_its_own() {
        for stores in [1, 2, 3, 8] {
            let slots = 5000;
            let each = slots_each(slots.into(), stores.into());
            let mut places = std::collections::HashSet::new();
            for number in 0..slots {
                let (store, within) = place(number, stores);
                assert!(u64::from(within) < each, "{number} of {stores}");
                assert!(places.insert((store, within)));
                assert_eq!(slot(store, within, stores), number);
            }
            let lies_together = |&number: &u32| {
                let ((a, b), (c, d)) = (place(number, stores), place(number + 1, stores));
                a == c && b + 1 == d
            };
            let borders = (0..slots - 1)
                .filter(|number| !lies_together(number))
                .count();
            assert_eq!(borders, if stores == 1 { 0 } else { 4999 / 256 });
        }
        assert_eq!(
            (slots_each(1, 1), slots_each(1, 2), slots_each(513, 2)),
            (1, 256, 512)
        );
    }
}
