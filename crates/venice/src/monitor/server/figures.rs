//! What a monitor counts of its tables, and has counted: for `/metrics` and the dashboard.

use super::super::keeper::Keeper;
use super::super::rat::{Loan, Standing};
use super::super::{Figures, Monitor};
use crate::resource::{Kind, SHARES};
use rhythm_observe::{Sample, Writer};
use std::collections::BTreeMap;
use std::fmt;

/// All of it, at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) leads: bool,
    pub(super) nodes: usize,
    pub(super) connected: usize,
    /// Granting, live, ending.
    pub(super) loans: [u64; 3],
    /// By kind: the most that is lent, what of that is idle, and what loans have.
    pub(super) amounts: BTreeMap<Kind, [u64; 3]>,
    pub(super) links: usize,
    pub(super) figures: Figures,
}

/// How a loan stands: which of [`Numbers::loans`] it counts for, and a word.
pub(super) fn standing(loan: &Loan) -> (usize, &'static str) {
    match loan.standing {
        Standing::Granting(_) => (0, "granting"),
        Standing::Live { reclaim_at: None } => (1, "live"),
        Standing::Live {
            reclaim_at: Some(_),
        } => (1, "reclaiming"),
        Standing::Ending(_) => (2, "ending"),
    }
}

impl Numbers {
    /// What there is now.
    pub(super) fn of<K: Keeper>(monitor: &Monitor<K>) -> Numbers {
        let mut numbers = Numbers {
            leads: true,
            nodes: monitor.nodes().count(),
            links: monitor.tst().rows().count(),
            figures: monitor.figures().clone(),
            ..Numbers::default()
        };
        let nodes = monitor.nodes().rows();
        numbers.connected = nodes.filter(|(_, node)| node.is_connected()).count();
        let mut add = |kind: Kind, more: [u64; 3]| {
            let sums = numbers.amounts.entry(kind).or_default();
            sums.iter_mut()
                .zip(more)
                .for_each(|(sum, more)| *sum = sum.saturating_add(more));
        };
        for (_, kind, resource) in monitor.rrt().rows() {
            add(kind, [resource.size, resource.free(), 0]);
        }
        for (_, loan) in monitor.rat().rows() {
            add(loan.share.kind, [0, 0, loan.share.amount]);
            numbers.loans[standing(loan).0] += 1;
        }
        numbers
    }
}

/// Writes the figures.
pub(super) fn encode(numbers: &Numbers, to: &mut Writer<'_>) -> fmt::Result {
    let mut gauge = |name: &str, help: &str, value: u64| to.gauge(name, help, value as f64);
    let help = "Whether this monitor leads: of several that share their state, one does";
    gauge("leads", help, u64::from(numbers.leads))?;
    gauge("nodes", "Nodes that are known", numbers.nodes as u64)?;
    gauge(
        "nodes_connected",
        "Nodes that are connected",
        numbers.connected as u64,
    )?;
    let [size, free, lent] = numbers
        .amounts
        .get(&Kind::Memory)
        .copied()
        .unwrap_or_default();
    gauge("memory_bytes", "What nodes lend at most", size)?;
    gauge("idle_bytes", "What of that is idle", free)?;
    gauge("lent_bytes", "Bytes of all loans of memory", lent)?;
    gauge(
        "links",
        "Links that are tested, each way",
        numbers.links as u64,
    )?;
    let of_kinds = |which: usize| -> Vec<Sample<f64>> {
        let amounts = numbers.amounts.iter();
        let others = amounts.filter(|(kind, _)| **kind != Kind::Memory);
        let sample = |(kind, amounts): (&Kind, &[u64; 3])| -> Sample<f64> {
            let accelerators = amounts[which] as f64 / SHARES as f64;
            (vec![("kind", kind.name().to_owned())], accelerators)
        };
        others.map(sample).collect()
    };
    let help = "Accelerators that nodes lend at most, by kind";
    to.gauges("accelerators", help, of_kinds(0))?;
    let help = "What of them is idle: one that is shared in part";
    to.gauges("accelerators_idle", help, of_kinds(1))?;
    let help = "What of them loans have";
    to.gauges("accelerators_lent", help, of_kinds(2))?;
    let standings = ["granting", "live", "ending"]
        .into_iter()
        .zip(numbers.loans);
    let samples = standings.map(|(standing, count)| -> Sample<f64> {
        (vec![("standing", standing.to_owned())], count as f64)
    });
    to.gauges("loans", "Loans, by how they stand", samples.collect())?;
    let figures = &numbers.figures;
    let help = "Loans that donors granted";
    to.counter("granted", help, figures.granted)?;
    let help = "Donors that had less than they had said";
    to.counter("stale_records", help, figures.stale)?;
    let help = "Requests that nobody granted";
    to.counter("not_lent", help, figures.not_lent)?;
    let help = "Nodes that were taken for dead";
    to.counter("nodes_died", help, figures.died)?;
    let help = "Greetings without the shared secret";
    to.counter("strangers", help, figures.strangers)?;
    let ended = figures
        .ended
        .iter()
        .map(|(why, count)| -> Sample<u64> { (vec![("why", (*why).to_owned())], *count) });
    to.counters("loans_ended", "Loans that ended, by why", ended.collect())
}
