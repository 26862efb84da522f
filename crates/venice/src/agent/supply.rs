//! Donors of a program by the agent of its machine, who asks the monitor.

use super::client::{Asker, Borrowed, Client, Event};
use crate::identity::{Identity, Sealing};
use crate::loan::LoanId;
use crate::memory::supply::{Held, Names, Notice, Notices, Offer, Supply};
use crate::resource::Share;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Borrows by an agent; what it hears of loans it tells the program's pager.
#[derive(Debug)]
pub struct ByAgent {
    /// Until there is somebody who listens.
    client: Mutex<Option<Client>>,
    asker: Asker,
    patience: Duration,
    /// Who the borrower is; else as the agent is.
    party: Option<Arc<Identity>>,
    /// Whether donors may have pages that are not encrypted: without a party it is as the agents
    /// have it.
    may_be_plain: bool,
}

impl ByAgent {
    /// By this connection; a loan is waited for at most so long.
    pub fn new(client: Client, patience: Duration) -> Self {
        Self {
            asker: client.asker(),
            client: Mutex::new(Some(client)),
            patience,
            party: None,
            may_be_plain: true,
        }
    }

    /// To donors the borrower is this party, not the agent's, and in TLS alone unless they may be
    /// plain.
    #[must_use]
    pub fn as_party(self, identity: Arc<Identity>, may_be_plain: bool) -> Self {
        Self {
            party: Some(identity),
            may_be_plain,
            ..self
        }
    }

    /// How the donor of a loan is spoken with, by the node's name that the agent tells.
    fn sealing(&self, borrowed: &Borrowed) -> Result<Option<Sealing>, String> {
        let Some(by) = &borrowed.sealed else {
            let donor = borrowed.donor;
            return match self.may_be_plain {
                true => Ok(None),
                false => Err(format!(
                    "the donor at {donor} lends without TLS (--plain-network there); on a network \
                     of which all machines are trusted, say --plain-network here, too"
                )),
            };
        };
        let identity = match &self.party {
            Some(identity) => Arc::clone(identity),
            // Anew for each loan: it may have joined again since the last.
            None => Identity::open(Path::new(&by.identity))
                .map(Arc::new)
                .map_err(|error| format!("the identity of this machine's agent: {error}"))?,
        };
        let donor = by.node.clone();
        Ok(Some(Sealing { identity, donor }))
    }
}

impl Supply for ByAgent {
    fn find(&self, bytes: u64, apart: &[Names]) -> Result<Offer, String> {
        let apart: Vec<LoanId> = apart.iter().map(|(_, loan)| *loan).collect();
        let borrowed = (self.asker).borrow(Share::memory(bytes), &apart, self.patience);
        let borrowed = borrowed.map_err(|error| error.to_string())?;
        let (loan, donor) = (borrowed.loan, borrowed.donor);
        let sealing = self.sealing(&borrowed)?;
        let encrypted = sealing.is_some();
        tracing::info!(%loan, %donor, bytes, encrypted, "memory is borrowed");
        Ok(Offer {
            donor,
            sealing,
            loan,
            key: borrowed.key.clone(),
            held: Held::by(borrowed),
        })
    }

    fn listen(&mut self, notices: Notices) {
        let client = self.client.get_mut();
        let Some(client) = client.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        // The loans are the agent's for as long as this thread has the connection.
        let tell = move || {
            client
                .events()
                .iter()
                .for_each(|event| tell(event, &notices))
        };
        let name = "venice-events".to_owned();
        if let Err(error) = std::thread::Builder::new().name(name).spawn(tell) {
            tracing::warn!("nothing is heard of loans: {error}");
        }
    }
}

fn tell(event: Event, notices: &Notices) {
    match event {
        Event::Broken { loan, why } => {
            let why = why.to_string();
            notices.tell(Notice::Broken { loan, why });
        }
        Event::ReclaimWanted { loan, within } => notices.tell(Notice::Wanted { loan, within }),
        Event::AgentGone => {
            tracing::warn!("the agent of this machine is gone: its loans end");
            let why = "the agent of this machine is gone, and what it had borrowed with it";
            let why = why.to_owned();
            notices.tell(Notice::AllOver { why });
        }
    }
}
