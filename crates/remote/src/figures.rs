//! What becomes of a front end's cohorts, over all of its workers; and what its log says of nodes,
//! once for all of them.

use rhythm_net::Time;
use rhythm_net::sparse::Sparse;
use rhythm_observe::Writer;
use rhythm_server::DeviceFigures;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is counted of a node.
#[derive(Debug, Default)]
pub(crate) struct OfNode {
    /// Workers that have a connection on which it takes work.
    connections: AtomicU64,
    done: AtomicU64,
    lost: AtomicU64,
    declined: AtomicU64,
    /// Messages that came otherwise than they went, at either end.
    corrupt: AtomicU64,
    corrupt_lines: Mutex<Sparse>,
    /// Why it is not used, as was said last; `None`: it is, or nothing was said yet.
    said: Mutex<Option<String>>,
}

/// See the module's text.
#[derive(Debug)]
pub struct Figures {
    /// By the addresses of the nodes, or by what a place for one is called.
    nodes: Vec<(String, OfNode)>,
    here: AtomicU64,
}

impl Figures {
    /// Of nodes that are called so.
    pub fn new(names: Vec<String>) -> Figures {
        let nodes = names.into_iter();
        let nodes = nodes.map(|name| (name, OfNode::default()));
        Figures {
            nodes: nodes.collect(),
            here: AtomicU64::new(0),
        }
    }

    /// Stages that nodes have run.
    pub fn done(&self) -> u64 {
        self.nodes
            .iter()
            .map(|(_, node)| node.done.load(Relaxed))
            .sum()
    }

    /// Stages that this machine has run itself.
    pub fn here(&self) -> u64 {
        self.here.load(Relaxed)
    }

    /// Stages that were lost on their way, and run again.
    pub fn lost(&self) -> u64 {
        self.nodes
            .iter()
            .map(|(_, node)| node.lost.load(Relaxed))
            .sum()
    }

    /// Messages between this machine and nodes that came otherwise than they went.
    pub fn corrupt(&self) -> u64 {
        self.nodes
            .iter()
            .map(|(_, node)| node.corrupt.load(Relaxed))
            .sum()
    }

    /// Why each node is not used that is not, as far as that was said.
    pub fn said(&self) -> Vec<String> {
        let said = self.nodes.iter().filter_map(|(address, node)| {
            let said = node.said.lock().unwrap_or_else(PoisonError::into_inner);
            said.as_deref().map(|why| format!("{address}: {why}"))
        });
        said.collect()
    }

    /// Whether that was said of all.
    pub(crate) fn has_none(&self) -> bool {
        self.said().len() == self.nodes.len()
    }

    pub(crate) fn count_here(&self) {
        self.here.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_done(&self, node: usize) {
        self.nodes[node].1.done.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_declined(&self, node: usize) {
        self.nodes[node].1.declined.fetch_add(1, Relaxed);
    }

    /// A message to or from a node came otherwise than it went. Each of several workers loses its
    /// own connection over that, so it is told here: a line a second at most.
    pub(crate) fn count_corrupt(&self, node: usize, why: &str, now: Time) {
        let (address, of_node) = &self.nodes[node];
        of_node.corrupt.fetch_add(1, Relaxed);
        let lines = of_node.corrupt_lines.lock();
        let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = lines.line(now) {
            tracing::error!(
                node = address,
                why,
                left_out,
                "bytes are changed between this machine and a device node: nothing that came so is \
                 used, and what was under way is run again"
            );
        }
    }

    /// A worker has a connection on which the node takes works, so many at a time.
    pub(crate) fn used(&self, node: usize, in_flight: usize) {
        let (address, of_node) = &self.nodes[node];
        if of_node.connections.fetch_add(1, Relaxed) == 0 {
            *of_node.said.lock().unwrap_or_else(PoisonError::into_inner) = None;
            tracing::info!(node = address, in_flight, "cohorts go to a device node");
        }
    }

    /// It has one no more, or cannot have one; so many works were under way.
    pub(crate) fn unused(&self, node: usize, was_used: bool, lost: usize, why: &str) {
        let (address, of_node) = &self.nodes[node];
        of_node.lost.fetch_add(lost as u64, Relaxed);
        if was_used {
            of_node.connections.fetch_sub(1, Relaxed);
        }
        if of_node.connections.load(Relaxed) > 0 {
            return;
        }
        let mut said = of_node.said.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several workers, and of many tries, one line.
        if said.as_deref() != Some(why) {
            tracing::warn!(
                node = address,
                why,
                "a device node is not used: its cohorts go to others, or are run here"
            );
            *said = Some(why.to_owned());
        }
    }

    /// A worker that had a connection to a node is gone, with all that it had.
    pub(crate) fn gone(&self, node: usize) {
        self.nodes[node].1.connections.fetch_sub(1, Relaxed);
    }

    /// A node does not take a service now. It is asked again and again: one line tells of that.
    pub(crate) fn later(&self, node: usize, service: &str, why: &str) {
        let (node, of_node) = &self.nodes[node];
        let mut said = of_node.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.as_deref() != Some(why) {
            tracing::warn!(
                node,
                service,
                why,
                "a device node does not take the pages of a service yet: until it does they are \
                 rendered here"
            );
            *said = Some(why.to_owned());
        }
    }

    /// A node does not take a service.
    pub(crate) fn unfit(&self, node: usize, service: &str, why: &str) {
        let (node, of_node) = &self.nodes[node];
        *of_node.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        tracing::error!(
            node,
            service,
            why,
            "a device node does not take the pages of a service: they are rendered here"
        );
    }
}

impl DeviceFigures for Figures {
    fn tell(&self, to: &mut Writer<'_>) -> fmt::Result {
        let of_nodes = |of: fn(&OfNode) -> &AtomicU64| {
            let samples = self.nodes.iter().map(|(address, node)| {
                let labels = vec![("node", address.clone())];
                (labels, of(node).load(Relaxed))
            });
            samples.collect::<Vec<_>>()
        };
        let connections = of_nodes(|node| &node.connections).into_iter();
        to.gauges(
            "device_node_connections",
            "Workers of which a device node takes cohorts",
            connections
                .map(|(labels, count)| (labels, count as f64))
                .collect(),
        )?;
        to.counters(
            "device_node_stages",
            "Stages of cohorts that a device node has run",
            of_nodes(|node| &node.done),
        )?;
        to.counters(
            "device_node_lost",
            "Stages that were under way at a device node when it was lost; they are run again",
            of_nodes(|node| &node.lost),
        )?;
        to.counters(
            "device_node_declined",
            "Stages that a device node had no room for; they are run elsewhere",
            of_nodes(|node| &node.declined),
        )?;
        to.counters(
            "device_node_corrupt",
            "Messages to or from a device node whose checksums were wrong: they are not used, and \
             their connections end",
            of_nodes(|node| &node.corrupt),
        )?;
        to.counter(
            "device_here_stages",
            "Stages of cohorts that were run here for want of a device node",
            self.here(),
        )
    }
}

/// What a time-out is called in words.
pub(crate) fn silent_for(timeout: Duration) -> String {
    format!("it has not answered for {timeout:?}")
}
