//! Device nodes that venice's monitor finds: a thread borrows them of the agent of this machine,
//! and others where the loans of those are over.
//!
//! ```text
//!   thread --- Unix socket ---> agent ---> monitor        (a loan has a key, and says where)
//!      |
//!      +--> Places --> each worker's link
//! ```

use crate::places::{Place, Places};
use rhythm_net::Peer;
use rhythm_venice::agent::client::{Asker, BorrowError, Borrowed, Client, Event};
use rhythm_venice::loan::LoanId;
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::secret::Secret;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// How long a loan is waited for: somewhat longer than an agent does unless it is told otherwise.
const PATIENCE: Duration = Duration::from_secs(12);
/// How often what nobody lent is asked for again, and an agent that is gone looked for.
const AGAIN: Duration = Duration::from_secs(2);

/// Whose nodes, and how.
#[derive(Clone, Debug)]
pub struct BorrowOptions {
    /// The socket of this machine's agent.
    pub agent: PathBuf,
    /// Whether each is to be nobody else's meanwhile.
    pub is_alone: bool,
}

/// Has these places be nodes that are borrowed, as long as there is somebody who uses them.
///
/// # Errors
/// The system has no thread.
pub fn borrow_nodes(options: BorrowOptions, places: &Arc<Places>) -> io::Result<()> {
    let places = Arc::downgrade(places);
    let name = "device-loans".to_owned();
    let run = move || {
        while let Some(there) = places.upgrade() {
            match Client::connect(&options.agent) {
                Ok(client) => {
                    let held = (0..there.count()).map(|_| None).collect();
                    drop(there);
                    let share = Share::of_one(Kind::Device, options.is_alone);
                    Holder {
                        asker: client.asker(),
                        share,
                        held,
                    }
                    .hold(&client, &places);
                }
                Err(error) => complain(&there, &error),
            }
            thread::sleep(AGAIN);
        }
    };
    thread::Builder::new().name(name).spawn(run).map(drop)
}

fn complain(places: &Places, error: &BorrowError) {
    let why = error.to_string();
    if places.say(Some(&why)) {
        tracing::warn!(why, "no device node is borrowed: cohorts are run here");
    }
}

/// What is borrowed by one connection to the agent.
struct Holder {
    asker: Asker,
    share: Share,
    /// By place.
    held: Vec<Option<Borrowed>>,
}

impl Holder {
    /// Has a node at each place as far as there are any, until the agent is gone, or the places.
    fn hold(mut self, client: &Client, places: &Weak<Places>) {
        while let Some(there) = places.upgrade() {
            for index in 0..self.held.len() {
                if self.held[index].is_none()
                    && let Err(error) = self.fill(index, &there, PATIENCE)
                {
                    complain(&there, &error);
                    // The others would be told the same.
                    break;
                }
            }
            drop(there);
            let event = client.events().recv_timeout(AGAIN);
            let Some(there) = places.upgrade() else {
                return;
            };
            match event {
                Ok(Event::Broken { loan, why }) => {
                    tracing::warn!(%loan, %why, "the loan of a device node is over");
                    self.vacate(loan, &there);
                }
                Ok(Event::ReclaimWanted { loan, within }) => {
                    tracing::info!(%loan, "the donor of a device node wants it back");
                    self.replace(loan, within, &there);
                }
                Ok(Event::AgentGone) | Err(RecvTimeoutError::Disconnected) => {
                    complain(&there, &BorrowError::Gone);
                    (0..self.held.len()).for_each(|index| there.set(index, None));
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn place_of(&self, loan: LoanId) -> Option<usize> {
        let is_it = |held: &Option<Borrowed>| held.as_ref().is_some_and(|held| held.loan == loan);
        self.held.iter().position(is_it)
    }

    /// Borrows a node of another machine than those that lend already, for this place.
    fn fill(
        &mut self,
        index: usize,
        places: &Places,
        patience: Duration,
    ) -> Result<(), BorrowError> {
        let held = self.held.iter().flatten();
        let apart: Vec<LoanId> = held.map(|held| held.loan).collect();
        let borrowed = self.asker.borrow(self.share, &apart, patience)?;
        let (loan, donor) = (borrowed.loan, borrowed.donor);
        tracing::info!(%loan, %donor, alone = self.share.is_alone(), "a device node is borrowed");
        let place = Place {
            peer: Peer::tcp(donor.ip().to_string(), donor),
            key: Some(Secret::of(&borrowed.key.0)),
        };
        places.say(None);
        places.set(index, Some(place));
        // What was there before is given back, once nobody is sent to it any more.
        self.held[index] = Some(borrowed);
        Ok(())
    }

    fn vacate(&mut self, loan: LoanId, places: &Places) {
        if let Some(index) = self.place_of(loan) {
            places.set(index, None);
            self.held[index] = None;
        }
    }

    /// Another one in place of what is wanted back, if there is one soon.
    fn replace(&mut self, loan: LoanId, within: Duration, places: &Places) {
        if let Some(index) = self.place_of(loan)
            && let Err(error) = self.fill(index, places, within / 2)
        {
            complain(places, &error);
            self.vacate(loan, places);
        }
    }
}
