//! The figures of a node: written by its thread, read by whoever asks.

use super::member::Member;
use crate::consensus::journal::SyncTimes;
use crate::consensus::node::Status;
use rhythm_observe::{Count, HistogramSum, NANOSECOND, Sample, Writer};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A turn that takes so long waits for a disk that does not come back soon.
const HANGS: Duration = Duration::from_secs(2);

/// How one of the keyspace's nodes is, as this one sees it.
#[derive(Debug)]
pub(super) struct NodeFigures {
    pub(super) name: String,
    /// Where clients reach it, and where nodes do.
    pub(super) places: [String; 2],
    pub(super) is_me: bool,
    pub(super) is_reached: Count,
    /// Up to which place of the log it has it; known to who leads.
    pub(super) has_up_to: Count,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// As they stand in the file.
    pub(super) nodes: Vec<NodeFigures>,
    pub(super) leads: Count,
    /// Who leads, from 1; 0: nobody that is known.
    pub(super) leader: Count,
    pub(super) term: Count,
    pub(super) committed: Count,
    pub(super) applied: Count,
    pub(super) executed: Count,
    pub(super) is_full: Count,
    pub(super) items: Count,
    pub(super) item_bytes: Count,
    pub(super) leases: Count,
    pub(super) clients: Count,
    pub(super) watches: Count,
    pub(super) turned_away: Count,
    pub(super) gave_way: Count,
    /// Of frames to other nodes.
    pub(super) sent_bytes: Count,
    /// By what was said instead.
    pub(super) nothing_done: Count,
    pub(super) perhaps_done: Count,
    pub(super) disk_full: Count,
    /// It was told to end.
    pub(super) leaves: Count,
    /// Why nobody leads, as far as is known: who was told something else, or is not reached.
    why_unled: Mutex<Option<String>>,
}

impl NodeFigures {
    /// How many entries of what is agreed on it has yet to be sent, where this node leads.
    pub(super) fn behind(&self, figures: &Figures) -> Option<u64> {
        let behind = figures.committed.get().saturating_sub(self.has_up_to.get());
        (figures.leads.get() > 0).then_some(behind)
    }
}

impl Figures {
    /// Of a keyspace of these nodes, of which this one is `me`.
    pub(super) fn of(members: &[Member], me: usize) -> Figures {
        let nodes = members
            .iter()
            .enumerate()
            .map(|(node, member)| NodeFigures {
                name: member.name.clone(),
                places: [member.client.to_string(), member.place.clone()],
                is_me: node == me,
                is_reached: Count::default(),
                has_up_to: Count::default(),
            });
        Figures {
            nodes: nodes.collect(),
            ..Figures::default()
        }
    }

    pub(super) fn set_status(&self, status: &Status) {
        self.leads.set(u64::from(status.leads));
        self.leader.set(status.leader);
        self.term.set(status.term);
        self.committed.set(status.committed);
        self.applied.set(status.applied);
        self.executed.set(status.executed);
        self.is_full.set(u64::from(status.is_full));
    }

    pub(super) fn set_why_unled(&self, why: Option<&String>) {
        let mut said = self
            .why_unled
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if said.as_ref() != why {
            *said = why.cloned();
        }
    }

    /// Why clients had better ask another node, if so. It has been at the turn at hand for so
    /// long, in which all else stays as it was.
    pub(super) fn ailment(&self, turn: Duration) -> Option<String> {
        let ailment = if turn >= HANGS {
            let seconds = turn.as_secs();
            return Some(format!("the node has waited for its disk for {seconds} s"));
        } else if self.leaves.get() > 0 {
            "ending"
        } else if self.leader.get() == 0 {
            let why = self.why_unled.lock();
            if let Some(why) = &*why.unwrap_or_else(PoisonError::into_inner) {
                return Some(format!("no node leads; {why}"));
            }
            "no node leads"
        } else if self.is_full.get() > 0 {
            "the disk is full"
        } else {
            return None;
        };
        Some(ailment.to_owned())
    }
}

/// Writes them; the thread has been at the turn at hand for so long.
pub(super) fn encode(
    figures: &Figures,
    syncs: &SyncTimes,
    turn: Duration,
    to: &mut Writer<'_>,
) -> fmt::Result {
    to.gauge(
        "turn_seconds",
        "For how long the node has been at the turn at hand, in which it waits for its disk; the \
         other gauges are of before",
        turn.as_secs_f64(),
    )?;
    let mut gauge =
        |name: &str, help: &str, figure: &Count| to.gauge(name, help, figure.get() as f64);
    gauge("leads", "Whether this node leads", &figures.leads)?;
    gauge(
        "leader",
        "Which node leads, as it stands in the file, from 1; 0: none that is known",
        &figures.leader,
    )?;
    gauge("term", "The how-manieth leader's time it is", &figures.term)?;
    gauge(
        "committed_index",
        "Up to which place of the log all is agreed on",
        &figures.committed,
    )?;
    gauge(
        "applied_index",
        "Up to which place of the log it is executed",
        &figures.applied,
    )?;
    gauge(
        "disk_full",
        "Whether clients' changes are refused, as there is no room on the disk",
        &figures.is_full,
    )?;
    gauge("items", "Items", &figures.items)?;
    gauge(
        "item_bytes",
        "Bytes of keys and values",
        &figures.item_bytes,
    )?;
    gauge("leases", "Leases", &figures.leases)?;
    gauge("clients", "Clients connected", &figures.clients)?;
    gauge("watches", "Prefixes that clients watch", &figures.watches)?;
    let each = |figure: &dyn Fn(&NodeFigures) -> Option<u64>| -> Vec<Sample<f64>> {
        let others = figures.nodes.iter().filter(|node| !node.is_me);
        let sample = |node: &NodeFigures| {
            let labels = vec![("node", node.name.clone())];
            Some((labels, figure(node)? as f64))
        };
        others.filter_map(sample).collect()
    };
    to.gauges(
        "node_reached",
        "Whether there is a connection to another node",
        each(&|node| Some(node.is_reached.get())),
    )?;
    to.gauges(
        "node_behind_entries",
        "Entries of the log that are agreed on and that another node lacks, where this one leads",
        each(&|node| node.behind(figures)),
    )?;
    to.counter(
        "entries_executed",
        "Entries of the log that were executed",
        figures.executed.get(),
    )?;
    to.counter(
        "clients_turned_away",
        "Clients that found no place",
        figures.turned_away.get(),
    )?;
    to.counter(
        "clients_dropped",
        "Clients that were dropped: all held too much, or another found no place, and they had not \
         moved for longest; or they were too far behind with what they watch",
        figures.gave_way.get(),
    )?;
    to.counter(
        "sent_bytes",
        "Bytes of frames that other nodes were sent",
        figures.sent_bytes.get(),
    )?;
    let refused = [
        ("nothing_done", &figures.nothing_done),
        ("perhaps_done", &figures.perhaps_done),
        ("disk_full", &figures.disk_full),
    ];
    let labeled = |(reason, count): (&str, &Count)| -> Sample<u64> {
        (vec![("reason", reason.to_owned())], count.get())
    };
    to.counters(
        "refused",
        "Commands that were not executed, or perhaps not, by what was said",
        refused.map(labeled).into(),
    )?;
    let mut sum = HistogramSum::default();
    sum.add(syncs, NANOSECOND);
    to.histograms(
        "sync_seconds",
        "How long the disk took to have what was written to the journal",
        vec![(Vec::new(), sum)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_its_disk_is_not_ready_whatever_was_so_before() {
        let figures = Figures::default();
        assert_eq!(
            figures.ailment(Duration::ZERO).as_deref(),
            Some("no node leads")
        );
        figures.leader.set(1);
        assert_eq!(figures.ailment(HANGS - Duration::from_millis(1)), None);
        assert_eq!(
            figures.ailment(Duration::from_secs(3)).as_deref(),
            Some("the node has waited for its disk for 3 s")
        );
    }
}
