//! Connections: each brings messages in order and once, until it is cut. What is under way then is
//! lost from somewhere on, and each end learns of it sooner or later, or not at all.

use rhythm_net::Time;
use std::collections::BTreeMap;

/// A connection from a node to the monitor.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) monitor: usize,
    pub(crate) node: usize,
    /// Whether the ends have it still.
    pub(crate) agent_has: bool,
    pub(crate) monitor_has: bool,
    /// When the last message arrives, each way.
    pub(crate) to_monitor: Time,
    pub(crate) to_agent: Time,
    /// From when on nothing arrives, each way.
    pub(crate) cut: [Time; 2],
    /// Messages that are under way.
    pub(crate) under_way: usize,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) connections: BTreeMap<u64, Connection>,
    count: u64,
}

impl Network {
    /// A node begins a connection.
    pub(crate) fn begin(&mut self, node: usize, monitor: usize, now: Time) -> u64 {
        self.count += 1;
        let connection = Connection {
            monitor,
            node,
            agent_has: true,
            monitor_has: false,
            to_monitor: now,
            to_agent: now,
            cut: [Time::NEVER; 2],
            under_way: 0,
        };
        self.connections.insert(self.count, connection);
        self.count
    }

    /// The connection that a node has now.
    pub(crate) fn of(&self, node: usize) -> Option<u64> {
        let mut all = self.connections.iter();
        let found = all.find(|(_, connection)| connection.node == node && connection.agent_has);
        found.map(|(id, _)| *id)
    }

    /// Forgets connections that nobody has.
    pub(crate) fn forget(&mut self) {
        let has = |connection: &Connection| connection.agent_has || connection.monitor_has;
        self.connections
            .retain(|_, connection| has(connection) || connection.under_way > 0);
    }
}
