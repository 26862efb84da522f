//! etcd, as far as a ring sees it: leases that end, and who has one.

use rhythm_kv::ring::Roster;

/// How long etcd may take to see that a lease is over, and to answer, in microseconds.
const SLOW: u64 = 200_000;

/// The leases of all nodes.
pub(crate) struct Leases {
    /// How long one lasts, in microseconds.
    pub(crate) lasts: u64,
    names: Vec<String>,
    /// Of each node: its lease's number, and when that ends.
    held: Vec<Option<(i64, u64)>>,
    last: i64,
    /// How often somebody came or went, before each node's lease was given and until now.
    given: Vec<i64>,
    revision: i64,
}

impl Leases {
    pub(crate) fn new(lasts: u64, names: &[String]) -> Leases {
        Leases {
            lasts,
            names: names.to_vec(),
            held: vec![None; names.len()],
            last: 0,
            given: vec![0; names.len()],
            revision: 1,
        }
    }

    /// How long a node may wait for etcd.
    pub(crate) fn slow(&self) -> u64 {
        SLOW.min(self.lasts / 8)
    }

    /// A node renews its lease, or gets another where it has none. Its number, and whether it is
    /// another.
    pub(crate) fn renew(&mut self, node: usize, now: u64) -> (i64, bool) {
        let is_new = self.held[node].is_none();
        if is_new {
            self.last += 1;
            self.revision += 1;
            self.given[node] = self.revision;
        }
        let number = self.held[node].map_or(self.last, |(number, _)| number);
        self.held[node] = Some((number, now + self.lasts));
        (number, is_new)
    }

    /// When the lease of a node ends, if it has one.
    pub(crate) fn ends(&self, node: usize) -> Option<u64> {
        self.held[node].map(|(_, until)| until)
    }

    /// The revision when a node got its lease.
    pub(crate) fn given(&self, node: usize) -> i64 {
        self.given[node]
    }

    /// A node ends its lease, or somebody removes its key. Which lease it was.
    pub(crate) fn revoke(&mut self, node: usize) -> Option<i64> {
        self.revision += 1;
        self.held[node].take().map(|(number, _)| number)
    }

    /// Leases end that are over. Whether one did.
    pub(crate) fn expire(&mut self, now: u64) -> bool {
        let before = self.members();
        for held in &mut self.held {
            *held = held.filter(|(_, until)| *until > now);
        }
        let is_changed = self.members() != before;
        self.revision += i64::from(is_changed);
        is_changed
    }

    /// The nodes that have one, a bit each.
    pub(crate) fn members(&self) -> u64 {
        let held = self.held.iter().enumerate();
        held.fold(0, |set, (node, held)| {
            set | u64::from(held.is_some()) << node
        })
    }

    /// Who is to serve what, when these nodes are there.
    pub(crate) fn roster(&self, members: u64, ranges: usize) -> Roster {
        let names = self.names.iter().enumerate();
        let there = names.filter(|(node, _)| members & 1 << node != 0);
        Roster::ranked(there.map(|(node, name)| (node, name.as_str())), ranges)
    }
}
