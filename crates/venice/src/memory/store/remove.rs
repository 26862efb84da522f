//! Donors that are gone, or are given their memory back.

use super::replica::{Asked, Replica};
use super::state::{Event, Gone, Store};
use crate::memory::borrower::Lost;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// A donor that is silent for so long is left out where others answer, and have what it has.
const PATIENCE: Duration = Duration::from_secs(5);

impl Store {
    /// A donor is lost. Where others have all that it had, they go on without it.
    pub(super) fn died(&mut self, number: u64, lost: Lost, now: Instant) -> Result<(), Gone> {
        let Some(index) = self.replicas.iter().position(|it| it.number == number) else {
            return Ok(());
        };
        let (dead, pages) = self.remove(index, now);
        let (donor, loan) = (dead.borrower.donor(), dead.borrower.loan());
        if pages > 0 || self.replicas.is_empty() {
            let why = self.why(&dead);
            return Err(Gone {
                donor,
                loan,
                lost,
                why,
            });
        }
        self.counts.lost += 1;
        let others = self.replicas.len();
        warn!(%donor, %loan, others, "a donor is lost, and nothing with it: {lost}");
        Ok(())
    }

    /// What is known of a donor whose memory is lost.
    fn why(&self, dead: &Replica) -> Option<String> {
        let wanted = dead.leaves.map(|leaves| {
            let other = match &self.seeking.not_found {
                Some(why) => format!("no other donor was found: {why}"),
                None => "not all was elsewhere by then".to_owned(),
            };
            let within = leaves.within.as_secs_f64();
            format!("the donor wanted its memory back within {within:.1} s, and {other}")
        });
        let of_filling = || {
            let filling = self.replicas.first()?.borrower.donor();
            Some(format!("donor {filling} did not have all of it yet"))
        };
        dead.broken.clone().or(wanted).or_else(of_filling)
    }

    /// Leaves out who is silent while others answer.
    pub(super) fn leave_out_silent(&mut self, now: Instant) -> Result<(), Gone> {
        let silent = |it: &Replica| it.borrower.silence() > PATIENCE;
        let late = self.replicas.iter().find(|it| silent(it));
        let Some(number) = late.map(|it| it.number) else {
            return Ok(());
        };
        let mut others = self.replicas.iter().filter(|it| it.number != number);
        match others.any(|it| it.fill.is_none() && !silent(it)) {
            true => self.died(number, Lost::Silent(PATIENCE), now),
            false => Ok(()),
        }
    }

    /// Gives back what donors want back, once it is elsewhere.
    pub(super) fn give_back(&mut self, now: Instant) {
        let sound = self.replicas.iter().filter(|it| it.is_sound()).count();
        if sound < self.keeping.copies {
            return;
        }
        while let Some(index) = self.replicas.iter().position(|it| it.leaves.is_some()) {
            let (left, _) = self.remove(index, now);
            let took = left.leaves.map(|it| now.duration_since(it.since));
            info!(
                donor = %left.borrower.donor(),
                loan = %left.borrower.loan(),
                took = ?took.unwrap_or_default(),
                "a donor has its memory back: all that it had is elsewhere"
            );
            self.counts.moved += 1;
        }
    }

    /// Leaves out a replica: what it was asked, others are asked. With how many pages only it had.
    pub(super) fn remove(&mut self, index: usize, now: Instant) -> (Replica, usize) {
        let gone = self.replicas.remove(index);
        let in_flight = &self.in_flight;
        let lost = self
            .places
            .lose(gone.bit, |slot| in_flight.contains_key(&slot));
        // Of what was on its way, some is where it is to be: it lacked but this one's word.
        let all = self.all();
        let (places, events) = (&self.places, &mut self.events);
        self.in_flight.retain(|slot, _| {
            let is_there = all != 0 && places.get(*slot).has == all;
            if is_there {
                events.push(Event::Stored(*slot));
            }
            !is_there
        });
        for fill in self.replicas.iter_mut().filter_map(|it| it.fill.as_mut()) {
            // What was asked of it did not come.
            fill.next = 0;
        }
        for asked in &gone.asked {
            match asked {
                Asked::Read(ticket) => self.ask_again(*ticket, now),
                Asked::Copy(copy) => {
                    let mut replicas = self.replicas.iter_mut();
                    let to = replicas.find(|it| it.number == copy.to);
                    if let Some(fill) = to.and_then(|it| it.fill.as_mut()) {
                        fill.outstanding -= 1;
                    }
                }
                Asked::Write { .. } | Asked::Free | Asked::Copied { .. } => {}
            }
        }
        (gone, lost)
    }

    /// A page is wanted of another than who was asked. Where something else was written there
    /// since, nobody waits for it any more.
    fn ask_again(&mut self, ticket: u64, now: Instant) {
        let Some(read) = self.reads.get(&ticket).copied() else {
            return;
        };
        if self.places.get(read.slot).version == read.version {
            self.ask_for(ticket, read.slot, now);
        } else {
            self.reads.remove(&ticket);
        }
    }
}
