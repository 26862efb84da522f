//! The figures of a node of a ring: how far the others are behind, who is there, who serves what.

use crate::ring::{NodeStatus, RangeStatus, Status, View};
use rhythm_net::clock;
use rhythm_observe::{Sample, Writer};
use std::fmt;

/// Appends them.
pub(super) fn tell(view: &View, to: &mut Writer<'_>) -> fmt::Result {
    let (status, members, me) = (view.status(), view.members(), view.me());
    to.gauge("ring_members", "Nodes of the ring", members.len() as f64)?;
    let others = members.iter().filter(|(node, _)| **node != me);
    let others: Vec<(&str, NodeStatus)> = others
        .map(|(node, member)| {
            let of = status.nodes.get(*node).copied().unwrap_or_default();
            (member.name.as_str(), of)
        })
        .collect();
    let each = |figure: &dyn Fn(&NodeStatus) -> f64| -> Vec<Sample<f64>> {
        let labeled = |(name, of): &(&str, NodeStatus)| (label("node", name), figure(of));
        others.iter().map(labeled).collect()
    };
    to.gauges(
        "ring_node_alive",
        "Whether another node is there",
        each(&|of| f64::from(u8::from(of.is_alive))),
    )?;
    to.gauges(
        "ring_unacknowledged_bytes",
        "Bytes that another node was sent, or is to be, and has not acknowledged",
        each(&|of| of.unacknowledged as f64),
    )?;
    to.gauges(
        "ring_lag_seconds",
        "How long the oldest of them that were sent are under way",
        each(&|of| of.lag.as_secs_f64()),
    )?;
    let total = |figure: &dyn Fn(&NodeStatus) -> u64| -> Vec<Sample<u64>> {
        let labeled = |(name, of): &(&str, NodeStatus)| (label("node", name), figure(of));
        others.iter().map(labeled).collect()
    };
    to.counters(
        "ring_resent_frames",
        "Frames that were sent to another node again",
        total(&|of| of.resent),
    )?;
    to.counters(
        "ring_sent_bytes",
        "Bytes of frames that another node was sent",
        total(&|of| of.sent_bytes),
    )?;
    let states = states(&status, me);
    to.gauges(
        "ring_ranges",
        "Ranges of keys: served here, copied here, being sent here; and of nobody, as far as known",
        states
            .map(|(state, count)| (label("state", state), count))
            .into(),
    )?;
    to.gauge(
        "ring_copies_missing",
        "Copies of ranges served here that are not complete yet",
        copies_missing(&status, me),
    )?;
    to.counter(
        "ring_caught_up_bytes",
        "Bytes of ranges that were sent whole to nodes that did not have them",
        status.caught_up,
    )?;
    let may_write = view.may_write(clock::monotonic());
    to.gauge(
        "ring_may_write",
        "Whether this node takes writes: it has its lease, or needs none",
        f64::from(u8::from(may_write)),
    )
}

fn is_claimed(range: &RangeStatus) -> bool {
    range.claim.epoch > 0
}

fn is_of(range: &RangeStatus, me: usize) -> bool {
    is_claimed(range) && usize::from(range.claim.node) == me
}

/// How many ranges this node serves, copies and is sent, and how many are nobody's.
pub(super) fn states(status: &Status, me: usize) -> [(&'static str, f64); 4] {
    let count = |is: &dyn Fn(&RangeStatus) -> bool| {
        let ranges = status.ranges.iter();
        ranges.filter(|range| is(range)).count() as f64
    };
    [
        ("served", count(&|range| is_of(range, me))),
        (
            "copied",
            count(&|range| range.is_complete && !is_of(range, me)),
        ),
        ("coming", count(&|range| range.is_coming)),
        ("claimed_by_nobody", count(&|range| !is_claimed(range))),
    ]
}

/// Copies of what this node serves that others have not complete.
pub(super) fn copies_missing(status: &Status, me: usize) -> f64 {
    let mine = status.ranges.iter().filter(|range| is_of(range, me));
    let missing = mine.map(|range| (range.targets & !range.copies).count_ones());
    f64::from(missing.sum::<u32>())
}

fn label(name: &'static str, value: &str) -> Vec<(&'static str, String)> {
    vec![(name, value.to_owned())]
}
