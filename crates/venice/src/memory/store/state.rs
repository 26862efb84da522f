//! What a store knows.

use super::budget::Budget;
use super::places::Places;
use super::replica::{Asked, Bytes, Replica};
use crate::loan::LoanId;
use crate::memory::borrower::Lost;
use crate::memory::supply::Line;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Memory that a program cannot do without is gone.
#[derive(Debug, Error)]
#[error("loan {loan} of donor {donor}: {lost}{}", Behind(.why))]
pub struct Gone {
    /// Who had it, at last.
    pub donor: SocketAddr,
    /// By which loan.
    pub loan: LoanId,
    /// How that ended.
    pub lost: Lost,
    /// What was known of it before.
    pub why: Option<String>,
}

struct Behind<'a>(&'a Option<String>);

impl fmt::Display for Behind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(why) => write!(f, " ({why})"),
            None => Ok(()),
        }
    }
}

/// Which page of which process.
pub(in crate::memory) type Whose = (u32, u32);

/// What became of what was asked.
#[derive(Debug)]
pub(in crate::memory) enum Event {
    /// What was written into a slot is there.
    Stored(u32),
    /// A page that was asked for, and by which ticket.
    Page(u64, Whose, Box<Bytes>),
}

/// Who has said nothing for so long, and owes answers, is told to be silent.
const SILENT: Duration = Duration::from_secs(2);

/// What happened to donors.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::memory) struct Counts {
    /// Donors that were lost while others had all that they had.
    pub(in crate::memory) lost: u64,
    /// Loans that were given back to donors that wanted them, after all was elsewhere.
    pub(in crate::memory) moved: u64,
    /// Pages that were copied from one donor to another.
    pub(in crate::memory) copied: u64,
}

/// How a donor of a store is.
#[derive(Clone, Debug)]
pub(in crate::memory) struct Donor {
    pub(in crate::memory) donor: SocketAddr,
    pub(in crate::memory) loan: LoanId,
    /// In a few words; and whether it is as it should be.
    pub(in crate::memory) state: &'static str,
    pub(in crate::memory) is_well: bool,
    /// Requests that it has not answered, and for how long it has said nothing, if there are some.
    pub(in crate::memory) waiting: usize,
    pub(in crate::memory) silence: Option<Duration>,
}

/// How a store keeps what it has.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Keeping {
    /// At so many donors.
    pub(in crate::memory) copies: usize,
    /// With so many bytes a second, at most, another donor is filled where there is time.
    pub(in crate::memory) refill: u64,
}

/// How far another donor is sought.
#[derive(Debug)]
pub(super) struct Seeking {
    pub(super) line: Line,
    /// Somebody looks.
    pub(super) is_asked: bool,
    pub(super) again_at: Instant,
    /// Why nobody was found last.
    pub(super) not_found: Option<String>,
}

/// A page that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) slot: u32,
    pub(super) version: u32,
    pub(super) sum: u32,
    pub(super) whose: Whose,
}

/// See the module above.
#[derive(Debug)]
pub(in crate::memory) struct Store {
    pub(super) keeping: Keeping,
    pub(super) replicas: Vec<Replica>,
    pub(super) places: Places,
    /// Pages that are sent and not everywhere yet, by slot.
    pub(super) in_flight: HashMap<u32, Arc<Bytes>>,
    pub(super) reads: HashMap<u64, Read>,
    /// The last ticket, and the number of the last replica.
    pub(super) last_ticket: u64,
    pub(super) last_replica: u64,
    pub(super) events: Vec<Event>,
    pub(super) seeking: Seeking,
    pub(super) budget: Budget,
    pub(in crate::memory) counts: Counts,
}

impl Store {
    /// How its donors are.
    pub(in crate::memory) fn donors(&self) -> impl Iterator<Item = Donor> {
        self.replicas.iter().map(|replica| {
            let (donor, loan) = replica.borrower.names();
            let waiting = replica.borrower.waiting();
            let silence = (waiting > 0).then(|| replica.borrower.silence());
            let is_silent = silence.is_some_and(|silence| silence >= SILENT);
            let (state, is_well) = match replica {
                Replica {
                    broken: Some(_), ..
                } => ("its loan is over", false),
                Replica {
                    leaves: Some(_), ..
                } => ("wants its memory back", false),
                _ if is_silent => ("does not answer", false),
                Replica { fill: Some(_), .. } => ("is being filled", true),
                _ => ("has all", true),
            };
            Donor {
                donor,
                loan,
                state,
                is_well,
                waiting,
                silence,
            }
        })
    }

    /// The bits of all replicas.
    pub(super) fn all(&self) -> u8 {
        self.replicas.iter().fold(0, |all, it| all | it.bit)
    }

    /// Asks a replica that has it for the page of a slot, by a ticket that is known.
    pub(super) fn ask_for(&mut self, ticket: u64, slot: u32, now: Instant) {
        let has = self.places.get(slot).has;
        if let Some(index) = self.least_busy(has) {
            self.replicas[index].read(slot, Asked::Read(ticket), now);
        }
    }

    /// Of these replicas the one with the least to answer; the first of several, and one that
    /// wants its memory back only where there is no other. Where none has the page, which cannot
    /// be, what the first gives is found out by its checksum.
    pub(super) fn least_busy(&self, has: u8) -> Option<usize> {
        let all = self.replicas.iter().enumerate();
        let best = all
            .filter(|(_, replica)| replica.bit & has != 0)
            .min_by_key(|(_, replica)| (replica.leaves.is_some(), replica.borrower.waiting()));
        let first = (!self.replicas.is_empty()).then_some(0);
        best.map(|(index, _)| index).or(first)
    }
}
