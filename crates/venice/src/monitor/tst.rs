//! The Topology Status Table: how the links between nodes are.
//!
//! Paper, section 5.3: "the daemon tests and reports the status of the Venice fabric links on every
//! heartbeat". A link is told of by the node that tests it, so each direction has its own row.

use crate::name::NodeName;
use crate::wire::LinkReport;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How a link is, by its last test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// There and back, smoothed; none: not known.
    pub(crate) latency: Option<Duration>,
    /// Bytes a second that a short burst got through; none: not known. A lower bound.
    pub(crate) bandwidth: Option<u64>,
    /// Tests without an answer, of 1000.
    pub(crate) loss_permille: u16,
    /// When the last answer came, if one did.
    pub(crate) seen: Option<Time>,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Tst {
    /// By who tests, and whom.
    rows: BTreeMap<NodeName, BTreeMap<NodeName, Link>>,
}

impl Tst {
    /// A node has tested its links.
    pub(super) fn report(&mut self, from: &NodeName, links: Vec<LinkReport>, now: Time) {
        let known = |value: u64| (value > 0).then_some(value);
        let link = |report: LinkReport| {
            let silent = Duration::from_millis(report.silent_ms.into()).as_nanos() as u64;
            let seen = Time::from_nanos(now.as_nanos().saturating_sub(silent));
            let link = Link {
                latency: known(report.latency_ns).map(Duration::from_nanos),
                bandwidth: known(report.bandwidth),
                loss_permille: report.loss_permille,
                seen: known(report.latency_ns).map(|_| seen),
            };
            (report.to, link)
        };
        let links = links.into_iter().map(link).collect();
        self.rows.insert(from.clone(), links);
    }

    /// A node is gone.
    pub(super) fn remove(&mut self, node: &NodeName) {
        self.rows.remove(node);
        self.rows.values_mut().for_each(|links| {
            links.remove(node);
        });
    }

    /// The link between two nodes, as one of them saw it, the first rather.
    pub(crate) fn between(&self, one: &NodeName, other: &NodeName) -> Option<&Link> {
        let seen_by = |from: &NodeName, to: &NodeName| self.rows.get(from)?.get(to);
        seen_by(one, other).or_else(|| seen_by(other, one))
    }

    /// All rows: who tested, whom, and what came of it.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&NodeName, &NodeName, &Link)> {
        let rows = self.rows.iter();
        rows.flat_map(|(from, links)| links.iter().map(move |(to, link)| (from, to, link)))
    }
}
