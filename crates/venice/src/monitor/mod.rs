//! The Monitor Node of the paper's section 5.3: who has what, and lends it to whom.
//!
//! ```text
//!   bytes --- server/ ---> messages ---> Monitor ---> records ---> Keeper (a journal, synced)
//!                                       |       |                    |
//!                                  RRT, RAT, TST, nodes              v
//!   bytes <--- server/ <---------------------------------- messages, connections that end
//! ```
//!
//! Of several monitors that share a state in [`etcd`], one leads; the others are [`Spare`]s.
//!
//! [`Monitor`] does no I/O but what its [`Keeper`] does, and reads no clock: it is told of
//! connections, messages and the time, and [`Monitor::flush`] gives what is to be done, when that
//! is kept. So nobody is told of what a monitor may have forgotten after it died.
//!
//! A loan is a row of the [`rat`]; it goes from donor asked to live to ending (`lend.rs`,
//! `end.rs`). On every new connection an agent tells all that it knows (`register.rs`): what was
//! lost with the last one, or while no monitor was there, is made up for then.

mod connection;
mod deadline;
mod effects;
mod end;
pub mod etcd;
mod folder;
mod greet;
mod journal;
pub mod keeper;
mod lend;
pub mod nodes;
pub mod policy;
pub mod rat;
mod register;
pub mod rrt;
pub mod server;
mod spare;
mod tst;
mod wanted;

pub use effects::Effect;
pub use folder::{Folder, FolderError};
pub use spare::Spare;

use crate::loan::LoanId;
use crate::name::NodeName;
use crate::resource::Offer;
use crate::secret::{Nonce, ProbeKey, Secret};
use crate::wire::{MESSAGE_MAX, Message, NODES_MAX, Reason, SMALL_MAX};
use connection::Connection;
use deadline::Deadline;
use effects::Effects;
use keeper::{Keeper, NotKept, State};
use nodes::{Node, Nodes};
use policy::Policy;
use rat::{Loan, Rat, Standing};
use rhythm_net::Time;
use rrt::Rrt;
use std::collections::BTreeMap;
use std::time::Duration;
use tst::Tst;
use wanted::{Asking, Waiting};

/// How long nodes have at least to come to a monitor that begins: they have to find out that the
/// one before hangs, and may try it again before they come.
const COME_WITHIN: Duration = Duration::from_secs(8);

/// Who could not be heard has so much time more at least: to come again, it needs two answers.
const EXCUSED_FOR: Duration = Duration::from_secs(2);

/// For how long nothing is refused for want of donors by a monitor that begins: they are on their
/// way.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// How a monitor judges.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How often nodes are to be heard of.
    pub heartbeat: Duration,
    /// A node that is silent for so long is dead.
    pub dead_after: Duration,
    /// A node whose connection ended, and that does not come again within this, is dead.
    pub gone_after: Duration,
    /// A donor that does not answer within this is not waited for.
    pub grant_within: Duration,
    /// Most loans at a time.
    pub loans_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat: Duration::from_secs(1),
            dead_after: Duration::from_secs(5),
            gone_after: Duration::from_secs(2),
            grant_within: Duration::from_secs(2),
            loans_max: 65_536,
        }
    }
}

/// The time of an event.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// By which everything is measured.
    pub at: Time,
    /// For people: seconds since 1970-01-01T00:00:00Z.
    pub unix_seconds: u64,
}

/// What happened since the start.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Loans that donors granted.
    pub granted: u64,
    /// Donors that had less than they had said.
    pub stale: u64,
    /// Requests that nobody could grant.
    pub not_lent: u64,
    /// Loans that ended, by why.
    pub ended: BTreeMap<&'static str, u64>,
    /// Nodes that were taken for dead.
    pub died: u64,
    /// Greetings without the secret.
    pub strangers: u64,
}

/// See the head of this file.
pub struct Monitor<K> {
    settings: Settings,
    secret: Secret,
    /// What nodes with certificates prove link tests by.
    probe_key: Option<ProbeKey>,
    keeper: K,
    policy: Box<dyn Policy>,
    /// Numbers that nobody can guess.
    random: Box<dyn FnMut() -> Nonce + Send>,
    connections: BTreeMap<u64, Connection>,
    nodes: Nodes,
    rrt: Rrt,
    rat: Rat,
    tst: Tst,
    /// The number of the last loan.
    last: u64,
    /// What nobody could lend while donors may be on their way.
    waiting: Waiting,
    /// It is being asked for again.
    asking: Option<Asking>,
    /// When [`SETTLED_AFTER`] is over; none: it is.
    settled_at: Option<Time>,
    /// When nodes are told of each other next, if they are to be.
    peers_at: Option<Time>,
    effects: Effects,
    figures: Figures,
}

impl<K: Keeper> Monitor<K> {
    /// One that knows what was kept. `random` gives numbers that nobody can guess: keys of loans
    /// are such.
    pub fn new(
        settings: Settings,
        secret: Secret,
        policy: Box<dyn Policy>,
        (keeper, state): (K, &State),
        random: Box<dyn FnMut() -> Nonce + Send>,
        now: Time,
    ) -> Monitor<K> {
        let (mut nodes, mut rat) = (Nodes::default(), Rat::default());
        let come_within = settings.dead_after.max(COME_WITHIN);
        for kept in state.loans.values() {
            for name in [&kept.lender, &kept.borrower] {
                nodes.insert(name.clone(), Node::expected(now, now + come_within));
            }
            let standing = match kept.stands {
                true => Standing::Live { reclaim_at: None },
                // Nobody was told of it but perhaps its donor.
                false => Standing::Ending(Reason::NotKnown),
            };
            let loan = Loan {
                lender: kept.lender.clone(),
                borrower: kept.borrower.clone(),
                share: kept.share,
                since: kept.since,
                standing,
            };
            rat.insert(kept.loan, loan);
        }
        Monitor {
            settings,
            secret,
            probe_key: None,
            keeper,
            policy,
            random,
            connections: BTreeMap::new(),
            nodes,
            rrt: Rrt::default(),
            rat,
            tst: Tst::default(),
            last: state.last,
            waiting: Waiting::default(),
            asking: None,
            settled_at: Some(now + SETTLED_AFTER),
            peers_at: None,
            effects: Effects::default(),
            figures: Figures::default(),
        }
    }

    /// Nodes that show certificates are told this for their link tests.
    #[must_use]
    pub(crate) fn gives_probe_key(mut self, key: Option<ProbeKey>) -> Monitor<K> {
        self.probe_key = key;
        self
    }

    /// Most bytes of a message on a connection now.
    pub fn message_max(&self, connection: u64) -> usize {
        match self.connections.get(&connection) {
            Some(Connection::Proven { .. } | Connection::Node(_)) => MESSAGE_MAX,
            _ => SMALL_MAX,
        }
    }

    /// Whether a connection is a node's.
    pub(crate) fn is_node(&self, connection: u64) -> bool {
        matches!(self.connections.get(&connection), Some(Connection::Node(_)))
    }

    /// Somebody opened a connection; no two that are open at a time have the same number.
    pub fn opened(&mut self, connection: u64, now: Now) {
        self.connections
            .insert(connection, Connection::begin(now.at));
    }

    /// A message came.
    pub fn received(&mut self, connection: u64, message: Message, now: Now) {
        let node = match self.connections.get(&connection) {
            Some(Connection::Node(node)) => node.clone(),
            Some(_) => return self.greet(connection, message, now),
            // It was closed meanwhile.
            None => return,
        };
        if let Some(row) = self.nodes.get_mut(&node) {
            row.heard_at = now.at;
            row.dead_at = Deadline::new(now.at + self.settings.dead_after);
        }
        match message {
            Message::Heartbeat { offers, links } => {
                for Offer { kind, idle, .. } in offers {
                    let asked = self.rat.asked_of(&node, kind);
                    self.rrt.set_idle(&node, kind, idle, asked);
                }
                self.tst.report(&node, links, now.at);
                self.effects.send(connection, Message::Heard);
            }
            Message::Borrow {
                request,
                share,
                apart,
            } => self.borrow(&node, (request, share), &apart, now),
            Message::Granted {
                loan,
                address,
                is_sealed,
            } => self.granted(&node, loan, (address, is_sealed)),
            Message::NoRoom { loan, idle } => self.no_room(&node, loan, idle, now),
            Message::GiveBack { loan } => self.given_back(&node, loan),
            Message::Leaving => self.left(&node, now),
            Message::Revoked { loan, why } => self.revoked(&node, loan, why, now),
            Message::Reclaiming { loan, within_ms } => {
                self.reclaiming(&node, loan, Duration::from_millis(within_ms.into()), now);
            }
            _ => {
                tracing::warn!(%node, "a node says what none says; it is disconnected");
                self.close(connection, now);
            }
        }
    }

    /// A connection ended.
    pub fn closed(&mut self, connection: u64, now: Now) {
        if let Some(Connection::Node(node)) = self.connections.remove(&connection) {
            self.lost(&node, now);
        }
    }

    /// Ends a connection.
    fn close(&mut self, connection: u64, now: Now) {
        self.effects.effects.push(Effect::Close(connection));
        self.closed(connection, now);
    }

    /// The time that [`Monitor::wake_at`] named has come, or any other.
    pub fn tick(&mut self, now: Now) {
        let late = |connection: &Connection| connection.until().is_some_and(|at| at <= now.at);
        let late: Vec<u64> = (self.connections.iter())
            .filter(|(_, connection)| late(connection))
            .map(|(id, _)| *id)
            .collect();
        late.into_iter().for_each(|id| self.close(id, now));
        for node in self.nodes.dead(now.at) {
            self.dead(&node, now);
        }
        let late = self.rat.granting().filter(|(_, loan)| {
            loan.granting()
                .is_some_and(|granting| granting.until.is_over(now.at))
        });
        let late: Vec<LoanId> = late.map(|(id, _)| id).collect();
        late.into_iter().for_each(|id| self.not_answered(id, now));
        if self.peers_at.is_some_and(|at| at <= now.at) {
            self.peers_at = None;
            self.tell_peers();
        }
        if self.settled_at.is_some_and(|at| at <= now.at) {
            self.settled_at = None;
            self.ask_again(now);
        }
        self.ask_on(now);
        self.wait_no_more(now);
    }

    /// When [`Monitor::tick`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        let connections = self.connections.values().filter_map(Connection::until);
        let nodes = self.nodes.rows().map(|(_, node)| node.dead_at.at());
        let granting = self.rat.granting().filter_map(|(_, loan)| loan.granting());
        let granting = granting.map(|granting| granting.until.at());
        let all = connections.chain(nodes).chain(granting);
        let leads_until = Some(self.keeper.leads_until());
        let leads_until = leads_until.filter(|until| *until != Time::NEVER);
        let waiting = self.waiting.until();
        let asking = self.asking.as_ref().map(|asking| asking.since);
        let more = [self.peers_at, leads_until, self.settled_at, waiting, asking];
        all.chain(more.into_iter().flatten()).min()
    }

    /// Keeps what there is to keep, and gives what is to be done then.
    ///
    /// # Errors
    /// It cannot be kept, or it is another monitor that lends now: this one may not go on, and
    /// nobody may be told anything.
    pub fn flush(&mut self) -> Result<Vec<Effect>, NotKept> {
        if !self.effects.records.is_empty() {
            let refused = self.keeper.keep(&self.effects.records)?;
            self.effects.records.clear();
            self.not_kept(&refused);
        }
        // What is kept was kept by who leads, whatever the time. What is told without being kept
        // (that a loan is over, by one end's word or silence) needs a clock: who is stopped between
        // this and the telling tells those alone who have not gone to another monitor yet.
        if !self.keeper.leads() {
            return Err(NotKept::Deposed("its lease is over".to_owned()));
        }
        Ok(std::mem::take(&mut self.effects.effects))
    }

    /// For so long, until now, the monitor waited to have something kept, and heard nobody: who
    /// came meanwhile is not to be taken for dead before it is heard. Short waits are no silence of
    /// the monitor's, and a donor has half its time to answer in any case.
    pub fn waited(&mut self, time: Duration, now: Time) {
        let Settings {
            heartbeat,
            gone_after,
            grant_within,
            ..
        } = self.settings;
        // Donors were asked behind it.
        if time > grant_within / 4 {
            let later = (Duration::ZERO, grant_within);
            (self.rat).excuse(now + grant_within / 2, now, later);
        }
        if time > heartbeat / 4 {
            // With spares, who is gone has longer: that is no reason to wait longer for each.
            let least = heartbeat.max(gone_after.min(EXCUSED_FOR));
            self.nodes.excuse(now + heartbeat, now, (time, least));
        }
    }

    /// Sends a message to a node that is there.
    fn tell(&mut self, node: &NodeName, message: Message) {
        if let Some(connection) = self.nodes.connection(node) {
            self.effects.send(connection, message);
        }
    }

    /// Who is there has changed: all are told, once in a heartbeat at most.
    fn peers_changed(&mut self, now: Now) {
        self.peers_at
            .get_or_insert(now.at + self.settings.heartbeat);
    }

    fn tell_peers(&mut self) {
        let peers = self.nodes.peers();
        let connections: Vec<(NodeName, u64)> = (self.nodes.rows())
            .filter_map(|(name, node)| Some((name.clone(), node.connection?)))
            .collect();
        for (name, connection) in connections {
            let others = peers.iter().filter(|peer| peer.name != name);
            let others = others.take(NODES_MAX).cloned().collect();
            self.effects.send(connection, Message::Peers(others));
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The Resource Registration Table.
    pub fn rrt(&self) -> &Rrt {
        &self.rrt
    }

    /// The Resource Allocation Table.
    pub fn rat(&self) -> &Rat {
        &self.rat
    }

    /// The Topology Status Table.
    pub(crate) fn tst(&self) -> &Tst {
        &self.tst
    }

    /// What happened since the start.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

#[cfg(test)]
mod tests;
