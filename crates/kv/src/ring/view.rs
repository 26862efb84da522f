//! What workers see of the ring: who serves a key now, whether a copy of it may be read here, and
//! whether there is room for writes; and how the ring is, for those who ask.

use super::ticket::Ticket;
use super::wire::Claim;
use super::written::Written;
use super::{Member, Placement};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes of what workers wrote that the node may not have taken before writes wait: the node is
/// not to be kept for long by what comes at once.
const UNTAKEN_MAX: usize = 1 << 20;
/// What a turn's writes cost on their way, beside their keys.
const TURN_COST: usize = 128;

/// No node: commands wait in front of the range until it is known who serves it.
const NOBODY: u8 = u8::MAX;

/// How the ring is, as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Each node, by its number.
    pub nodes: Vec<NodeStatus>,
    /// Each range.
    pub ranges: Vec<RangeStatus>,
    /// Bytes of ranges that were sent whole to nodes that did not have them.
    pub caught_up: u64,
    /// The nodes, by their numbers, that speak, and are refused or refuse this one; and why.
    pub refused: BTreeMap<usize, String>,
    /// This node does not begin to serve: who was told something else, and what.
    pub is_kept_by: Option<String>,
}

/// How another node is, as one sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// It is there.
    pub is_alive: bool,
    /// Bytes that it has not acknowledged.
    pub unacknowledged: usize,
    /// How long the oldest of them are under way.
    pub lag: Duration,
    /// Frames that were sent to it again.
    pub resent: u64,
    /// Bytes of all frames that it was sent.
    pub sent_bytes: u64,
}

/// How a range is, as one node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeStatus {
    /// Who claims it.
    pub claim: Claim,
    /// Who is to serve it, of the nodes that are there.
    pub first: Option<u8>,
    /// The nodes, a bit each, that are sent it; known to who serves it.
    pub targets: u64,
    /// Of these, those that have it complete.
    pub copies: u64,
    /// This node has it complete.
    pub is_complete: bool,
    /// This node is sent it.
    pub is_coming: bool,
}

/// Shared by a node, which writes it, and the workers.
#[derive(Debug)]
pub struct View {
    placement: Placement,
    me: u8,
    routes: Box<[AtomicU8]>,
    /// Of each range that another node serves, until when its copy here may be read, in
    /// nanoseconds.
    reads_until: Box<[AtomicU64]>,
    /// Bytes of what workers handed over, and the node has not taken.
    untaken: AtomicUsize,
    /// A bit for each range, as well as the next.
    full: AtomicU64,
    crowded: AtomicU64,
    /// In nanoseconds, as well as the next.
    may_write_until: AtomicU64,
    /// Until when nobody else can serve what this node does.
    serves_until: AtomicU64,
    /// Of each worker, the number of the last ticket under which it wrote.
    wrote: Box<[AtomicU64]>,
    status: Mutex<Status>,
    members: Mutex<BTreeMap<usize, Member>>,
    /// What nodes were called that were in the ring, or are, by their numbers.
    names: Mutex<BTreeMap<usize, String>>,
}

impl View {
    /// For this node of the ring. Nobody serves anything yet.
    pub fn new(placement: Placement, me: usize) -> View {
        View {
            routes: (0..placement.ranges())
                .map(|_| AtomicU8::new(NOBODY))
                .collect(),
            reads_until: (0..placement.ranges()).map(|_| AtomicU64::new(0)).collect(),
            placement,
            me: me as u8,
            untaken: AtomicUsize::new(0),
            full: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            may_write_until: AtomicU64::new(u64::MAX),
            serves_until: AtomicU64::new(u64::MAX),
            wrote: Box::default(),
            status: Mutex::default(),
            members: Mutex::default(),
            names: Mutex::default(),
        }
    }

    /// With so many workers, who may write.
    pub fn with_workers(self, workers: usize) -> View {
        View {
            wrote: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            ..self
        }
    }

    /// A worker is about to write: others see it from now on, and the node is told of it when the
    /// worker's turn has ended.
    #[inline]
    pub fn writes(&self, Ticket { worker, number }: Ticket) {
        if let Some(of) = self.wrote.get(worker) {
            of.store(number, Ordering::Relaxed);
        }
        // Who sees something of what is written behind this, and tells the node that it did, has it
        // see this.
        fence(Ordering::Release);
    }

    /// Whether a worker said that it writes under this ticket, its last one.
    pub(crate) fn wrote_under(&self, Ticket { worker, number }: Ticket) -> bool {
        let of = self.wrote.get(worker);
        of.is_some_and(|of| of.load(Ordering::Relaxed) == number)
    }

    /// Of each worker, the last ticket under which it wrote, or is about to; of those at least who
    /// wrote what has been seen. Tickets that are handed over later may be among them.
    pub(crate) fn wrote(&self) -> impl Iterator<Item = Ticket> {
        // Pairs with `writes`.
        fence(Ordering::Acquire);
        let numbers = self.wrote.iter().map(|of| of.load(Ordering::Relaxed));
        let tickets = numbers.enumerate();
        tickets.map(|(worker, number)| Ticket { worker, number })
    }

    /// Who owns what.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// This node.
    pub fn me(&self) -> usize {
        self.me.into()
    }

    /// Whether another node serves a range, or none as yet, or maybe another by now: commands go
    /// there, or wait in front of it, reads as well. The time is asked for where it matters.
    #[inline]
    pub fn is_elsewhere(&self, range: usize, now: impl FnOnce() -> Time) -> bool {
        // Pairs with `set_route`: who sees that a range came here sees its items.
        let is_here = self.routes[range].load(Ordering::Acquire) == self.me;
        let until = self.serves_until.load(Ordering::Acquire);
        !is_here || until != u64::MAX && now().as_nanos() >= until
    }

    /// Who serves a range.
    pub(super) fn route(&self, range: usize) -> Option<usize> {
        let node = self.routes[range].load(Ordering::Relaxed);
        (node != NOBODY).then_some(node.into())
    }

    pub(crate) fn set_route(&self, range: usize, node: Option<usize>) {
        let node = node.map_or(NOBODY, |node| node as u8);
        self.routes[range].store(node, Ordering::Release);
    }

    /// Whether this node's copy of a range may be read.
    #[inline]
    pub fn may_read_copy(&self, range: usize, now: Time) -> bool {
        now.as_nanos() < self.reads_until[range].load(Ordering::Acquire)
    }

    pub(super) fn set_reads_until(&self, range: usize, until: Time) {
        self.reads_until[range].store(until.as_nanos(), Ordering::Release);
    }

    /// The ranges, a bit each, whose writes are to wait: neighbors take less of them than is
    /// written; or this node does, and then they are all.
    #[inline]
    pub fn full(&self) -> u64 {
        match self.untaken.load(Ordering::Relaxed) > UNTAKEN_MAX {
            true => u64::MAX,
            false => self.full_of_copies(),
        }
    }

    /// Those of which neighbors do.
    #[inline]
    pub(super) fn full_of_copies(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// A worker hands over what it wrote in a turn.
    pub(crate) fn hands_over(&self, written: &Written) {
        let cost = written.bytes() + TURN_COST;
        self.untaken.fetch_add(cost, Ordering::Relaxed);
    }

    /// The node takes that.
    pub(crate) fn takes(&self, written: &Written) {
        let cost = written.bytes() + TURN_COST;
        self.untaken.fetch_sub(cost, Ordering::Relaxed);
    }

    pub(crate) fn set_full(&self, ranges: u64) {
        self.full.store(ranges, Ordering::Relaxed);
    }

    /// The ranges, a bit each, whose commands are to wait with their clients: many wait here until
    /// it is known who serves their keys, or until he takes them, and those of these ranges would.
    #[inline]
    pub fn crowded(&self) -> u64 {
        self.crowded.load(Ordering::Relaxed)
    }

    pub(crate) fn set_crowded(&self, ranges: u64) {
        self.crowded.store(ranges, Ordering::Relaxed);
    }

    /// Whether this node may write: it has its lease, or needs none.
    #[inline]
    pub fn may_write(&self, now: Time) -> bool {
        now.as_nanos() < self.may_write_until.load(Ordering::Acquire)
    }

    pub(super) fn set_may_write_until(&self, until: Time) {
        self.may_write_until
            .store(until.as_nanos(), Ordering::Release);
    }

    pub(super) fn set_serves_until(&self, until: Time) {
        self.serves_until.store(until.as_nanos(), Ordering::Release);
    }

    /// Why this node is not what it is to be yet, if it is not.
    pub fn ailment(&self, now: Time) -> Option<String> {
        let status = self.status();
        if status.ranges.is_empty() {
            return Some("joining the ring".to_owned());
        }
        if let Some(said) = status.is_kept_by {
            return Some(format!("it does not begin to serve: {said}"));
        }
        let mine = (status.ranges.iter()).filter(|range| range.first == Some(self.me));
        let (mut count, mut away) = (0, BTreeMap::new());
        for Claim { epoch, node } in mine.map(|range| range.claim) {
            count += 1;
            if epoch == 0 || node != self.me {
                let by = (epoch > 0).then(|| self.name(node.into()));
                *away.entry(by.unwrap_or("nobody".to_owned())).or_insert(0) += 1;
            }
        }
        if !away.is_empty() {
            let by = away.iter().map(|(by, count)| format!("{count} by {by}"));
            let by = by.collect::<Vec<_>>().join(", ");
            return Some(format!(
                "catching up: of its {count} ranges are served {by}"
            ));
        }
        (!self.may_write(now)).then(|| "without a lease".to_owned())
    }

    /// How the ring is.
    pub fn status(&self) -> Status {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.clone()
    }

    /// The nodes that are in the ring, by their numbers.
    pub fn members(&self) -> BTreeMap<usize, Member> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.clone()
    }

    /// What a node is called; its number, where that is not known.
    pub(super) fn name(&self, node: usize) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(&node).cloned();
        name.unwrap_or_else(|| node.to_string())
    }

    pub(crate) fn set_members(&self, members: BTreeMap<usize, Member>) {
        let named = members.iter();
        let named = named.map(|(number, member)| (*number, member.name.clone()));
        (self.names.lock().unwrap_or_else(PoisonError::into_inner)).extend(named);
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    pub(crate) fn set_status(&self, status: Status) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}
