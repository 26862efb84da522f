//! What runs on every machine: the daemon of the paper's section 5.3, which "collects availability
//! information and periodically reports to the MN", tests links, lends, takes back, and serves the
//! borrowers of its machine.
//!
//! ```text
//!   borrowers --- Unix socket ---> Agent <--- TCP ---> monitor
//!                                    |  ^
//!        Lender (serves loans) <-----+  +--- UDP ---> other agents (link tests)
//! ```
//!
//! [`Agent`] does no I/O but what its [`Lender`] does, and reads no clock: it is told of
//! connections, messages, memory and the time, and [`Agent::flush`] gives what is to be done.
//!
//! Loans go on while no monitor is there. What a borrower has ends with its connection here. What a
//! node wants back it takes by itself, whether the monitor is there or not.

mod accelerator;
mod borrowing;
pub mod client;
mod effects;
mod lender;
mod lending;
mod line;
mod links;
mod meminfo;
mod monitor_line;
pub mod server;
pub mod supply;

pub use accelerator::{AcceleratorError, BorrowedAccelerator};
pub use effects::Effect;
pub use lender::{Lender, Lenders, NoRoom};

use crate::loan::LoanId;
use crate::name::NodeName;
use crate::resource::{Offer, Share};
use crate::secret::{Nonce, Secret};
use crate::wire::{LinkReport, Local, Message, NotLent, Reason, SealedBy};
use borrowing::{Borrowed, Borrowing, Request};
use lending::Lending;
use line::Line;
use links::Links;
use rhythm_net::Time;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How an agent is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's name.
    pub name: NodeName,
    /// How many monitors there are, of which one leads: they are tried in turn.
    pub monitors: usize,
    /// Where it stands, from the largest to the smallest (`hall1/rack2`); empty: not known.
    pub place: String,
    /// Where other agents test the link to here.
    pub probe: SocketAddr,
    /// The most that is lent, of each kind once.
    pub lends: Vec<Share>,
    /// Memory that is kept free for the node itself, in bytes.
    pub keep_free: u64,
    /// How long borrowers have to give back what the node needs.
    pub reclaim_within: Duration,
    /// How long a borrower waits for a loan.
    pub borrow_within: Duration,
}

/// What becomes of a loan whose donor does not speak TLS, where this node has an identity: the
/// donor alone says which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainLoans {
    /// It is given back.
    Refused,
    /// It is used: the network is one that is trusted.
    Taken,
}

/// See the head of this file.
pub struct Agent<L> {
    settings: Settings,
    secret: Secret,
    /// Where its certificate is, if it shows one.
    identity: Option<String>,
    plain_loans: PlainLoans,
    /// Numbers that nobody can guess.
    random: Box<dyn FnMut() -> Nonce + Send>,
    /// Tells this start of the agent from the next.
    incarnation: u64,
    line: Line,
    lending: Lending<L>,
    borrowing: Borrowing,
    links: Links,
    effects: Vec<Effect>,
    /// Whether to end.
    leaves: bool,
    /// Borrowers of this machine that are there.
    clients: BTreeSet<u64>,
}

/// What an agent tells of itself.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether the monitor knows it.
    pub is_registered: bool,
    /// Which monitor that is, or is tried, by its place in the list.
    pub monitor: usize,
    /// Why it was turned away last, if it was.
    pub trouble: Option<String>,
    /// The most that it lends of each kind, and what of that is idle.
    pub offers: Vec<Offer>,
    /// What it lends.
    pub lent: Vec<(LoanId, Share)>,
    /// What of that it wants back, and for how long that is waited for.
    pub reclaims: Vec<(LoanId, Duration)>,
    /// What it borrows.
    pub borrowed: Vec<(LoanId, Share)>,
    /// Borrowers of this machine.
    pub clients: usize,
    /// Links to other nodes.
    pub links: Vec<LinkReport>,
}

impl<L: Lender> Agent<L> {
    /// One that is to connect to its monitor. `random` gives numbers that nobody can guess.
    pub fn new(
        settings: Settings,
        secret: Secret,
        lender: L,
        mut random: Box<dyn FnMut() -> Nonce + Send>,
        now: Time,
    ) -> Agent<L> {
        let mut number = || {
            let [a, b, c, d, e, f, g, h, ..] = random();
            u64::from_le_bytes([a, b, c, d, e, f, g, h])
        };
        let (incarnation, sequence) = (number(), number());
        let Settings {
            keep_free,
            reclaim_within,
            ..
        } = settings;
        Agent {
            line: Line::new(settings.monitors, now),
            lending: Lending::new(lender, &settings.lends, keep_free, reclaim_within),
            borrowing: Borrowing::default(),
            links: Links::new(secret.clone(), sequence),
            effects: Vec::new(),
            leaves: false,
            clients: BTreeSet::new(),
            settings,
            secret,
            identity: None,
            plain_loans: PlainLoans::Taken,
            random,
            incarnation,
        }
    }

    /// It shows its monitor a certificate, in TLS, and not the secret; its own programs find that
    /// identity in this folder. The secret is for nothing but link tests then, until the monitor
    /// gives another: it is to be one that nobody has.
    #[must_use]
    pub fn certified(mut self, identity: String, plain_loans: PlainLoans) -> Agent<L> {
        self.identity = Some(identity);
        self.plain_loans = plain_loans;
        self
    }

    /// The system says how much memory is available, in bytes.
    pub fn memory(&mut self, available: u64, now: Time) {
        let wanted = self.lending.read(available, now);
        self.want_back(&wanted);
    }

    /// The system does not say how much is available: nothing more is lent until it does.
    pub(crate) fn memory_unknown(&mut self) {
        self.lending.unread();
    }

    /// The node ends: nothing is lent any more, and what is lent is wanted back.
    pub fn leave(&mut self, now: Time) {
        self.leaves = true;
        let wanted = self.lending.leave(now);
        self.want_back(&wanted);
    }

    /// Says that it ends, when nothing is lent any more: it is not to be taken for dead.
    pub(crate) fn farewell(&mut self) {
        self.say(Message::Leaving);
    }

    /// Whether, after [`Agent::leave`], nothing is lent any more.
    pub fn has_left(&self) -> bool {
        self.lending.has_left()
    }

    fn want_back(&mut self, loans: &[LoanId]) {
        for loan in loans {
            tracing::info!(%loan, "a loan is wanted back");
            let within_ms = millis(self.settings.reclaim_within);
            self.say(Message::Reclaiming {
                loan: *loan,
                within_ms,
            });
        }
    }

    /// Says something to the monitor, if it is there; else it is told on the next connection what
    /// there is then.
    fn say(&mut self, message: Message) {
        if self.line.is_heard() {
            self.effects.push(Effect::Say(message));
        }
    }

    /// The monitor asks for something, or tells it. False: nothing that it says.
    fn told(&mut self, message: Message, now: Time) -> bool {
        match message {
            Message::Grant { loan, share, key } => {
                let said = match self.lending.grant(loan, share, &key) {
                    Ok(address) => Message::Granted {
                        loan,
                        address,
                        is_sealed: self.lending.is_sealed(share.kind),
                    },
                    Err(idle) => Message::NoRoom { loan, idle },
                };
                self.say(said);
            }
            Message::Revoke { loan } => {
                self.lending.give_up(loan, now);
                self.say_undone(now);
            }
            Message::Lent {
                request,
                loan,
                share,
                key,
                donor,
                sealed_by,
            } => {
                let Some(Request { client, number, .. }) = self.borrowing.answered(request) else {
                    // Who wanted it is gone, or waited too long.
                    self.say(Message::GiveBack { loan });
                    return true;
                };
                // Wherever it is: the donor is another node, which says its own address, and one
                // of this machine has somebody else behind it.
                if sealed_by.is_none() && self.plain_loans == PlainLoans::Refused {
                    tracing::warn!(%loan, %donor, "a loan is given back: its donor speaks no TLS");
                    self.say(Message::GiveBack { loan });
                    self.not_lent(client, number, NotLent::Plain);
                    return true;
                }
                self.borrowing.has(loan, Borrowed { client, share });
                let request = number;
                let identity = self.identity.clone();
                let sealed = sealed_by.zip(identity);
                let sealed = sealed.map(|(node, identity)| Box::new(SealedBy { node, identity }));
                let lent = Local::Lent {
                    request,
                    loan,
                    share,
                    key,
                    donor,
                    sealed,
                };
                self.effects.push(Effect::Tell(client, lent));
            }
            Message::NotLent { request, why } => {
                if let Some(Request { client, number, .. }) = self.borrowing.answered(request) {
                    self.not_lent(client, number, why);
                }
            }
            Message::Broken { loan, why } => {
                if let Some(Borrowed { client, .. }) = self.borrowing.ended(loan) {
                    tracing::warn!(%loan, %why, "a loan is broken");
                    self.effects
                        .push(Effect::Tell(client, Local::Broken { loan, why }));
                }
            }
            Message::ReclaimWanted { loan, within_ms } => {
                if let Some(client) = self.borrowing.client_of(loan) {
                    let wanted = Local::ReclaimWanted { loan, within_ms };
                    self.effects.push(Effect::Tell(client, wanted));
                }
            }
            Message::Peers(peers) => {
                let peers = peers.into_iter();
                let others = peers.filter(|peer| peer.name != self.settings.name);
                self.links.set_peers(others.collect());
            }
            Message::ProbeKey { key } if self.identity.is_some() => {
                self.links.prove_by(Secret::of(&key.0));
            }
            _ => return false,
        }
        true
    }

    fn not_lent(&mut self, client: u64, request: u32, why: NotLent) {
        let not_lent = Local::NotLent { request, why };
        self.effects.push(Effect::Tell(client, not_lent));
    }

    /// A borrower of this machine connected; no two that are there at a time have the same number.
    pub fn client_opened(&mut self, client: u64) {
        match self.clients.len() < borrowing::CLIENTS_MAX {
            true => {
                self.clients.insert(client);
            }
            false => self.effects.push(Effect::Drop(client)),
        }
    }

    /// A borrower said something.
    pub fn client_said(&mut self, client: u64, said: Local, now: Time) {
        // One that is dropped may have said more.
        if !self.clients.contains(&client) {
            return;
        }
        match said {
            Local::Borrow {
                request: number,
                share,
                apart,
            } => {
                let until = now + self.settings.borrow_within;
                let request = Request {
                    client,
                    number,
                    share,
                    apart: apart.clone(),
                    until,
                };
                if self.leaves {
                    return self.not_lent(client, number, NotLent::AgentEnds);
                }
                match self.borrowing.want(request) {
                    Some(request) => self.say(Message::Borrow {
                        request,
                        share,
                        apart,
                    }),
                    None => self.not_lent(client, number, NotLent::TooMany),
                }
            }
            Local::Renew { loan } => {
                let stands = self.borrowing.client_of(loan) == Some(client);
                self.effects
                    .push(Effect::Tell(client, Local::Stands { loan, stands }));
            }
            Local::GiveBack { loan } => {
                if self.borrowing.client_of(loan) == Some(client) {
                    self.borrowing.ended(loan);
                    self.say(Message::GiveBack { loan });
                }
            }
            // Nothing that a borrower says.
            _ => {
                self.effects.push(Effect::Drop(client));
                self.client_closed(client);
            }
        }
    }

    /// A borrower is gone: what it had is given back.
    pub fn client_closed(&mut self, client: u64) {
        self.clients.remove(&client);
        for loan in self.borrowing.gone(client) {
            self.say(Message::GiveBack { loan });
        }
    }

    /// A datagram came from there.
    pub fn probed(&mut self, from: SocketAddr, bytes: &[u8], now: Time) {
        if let Some(answer) = self.links.received(from, bytes, now) {
            self.effects.push(Effect::Probe(from, answer));
        }
    }

    /// The time that [`Agent::wake_at`] named has come, or any other.
    pub fn tick(&mut self, now: Time) {
        for loan in self.lending.take_late(now) {
            tracing::warn!(%loan, "a loan was not given back in time, and is taken");
            self.say(Message::Revoked {
                loan,
                why: Reason::DonorNeedsIt,
            });
        }
        self.say_undone(now);
        for Request { client, number, .. } in self.borrowing.take_late(now) {
            self.not_lent(client, number, NotLent::NoMonitor);
        }
        self.tick_line(now);
    }

    /// Says of loans that are over that nothing of them is left here: it may be lent anew.
    fn say_undone(&mut self, now: Time) {
        for loan in self.lending.take_undone(now) {
            self.say(Message::Revoked {
                loan,
                why: Reason::GivenBack,
            });
        }
    }

    /// When [`Agent::tick`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let line = Some(self.line.wake_at());
        let all = [line, self.lending.wake_at(), self.borrowing.wake_at()];
        all.into_iter().flatten().min()
    }

    /// What is to be done, in this order.
    pub fn flush(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// How it is.
    pub fn status(&self, now: Time) -> Status {
        Status {
            is_registered: self.line.is_registered(),
            monitor: self.line.at(),
            trouble: self.line.trouble(),
            offers: self.lending.offers(),
            lent: self.lending.lent(),
            reclaims: self.lending.reclaims(now),
            borrowed: self.borrowing.loans().collect(),
            clients: self.clients.len(),
            links: self.links.reports(now),
        }
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
