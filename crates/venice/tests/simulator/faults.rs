//! What goes wrong.

use super::events::Event;
use super::world::{Mode, World};
use std::time::Duration;

impl World {
    pub(crate) fn fault(&mut self) {
        let at = self.soon(2000);
        self.events.at(at, Event::Fault);
        if !self.has_faults {
            return;
        }
        let node = self.random.usize(..self.nodes.len());
        let monitor = self.random.usize(..self.monitors.len());
        match self.random.u8(..14) {
            2 => self.kill_monitor(monitor),
            10 if self.mode != Mode::Folder => self.stop_monitor(monitor),
            11 if self.mode != Mode::Folder => {
                let until = self.soon(8000);
                self.etcd.lock().expect("one thread").down_until = until;
            }
            12 if self.mode != Mode::Folder => {
                let until = self.soon(8000);
                self.etcd.lock().expect("one thread").full_until = until;
            }
            13 if self.mode != Mode::Folder => {
                let until = self.soon(8000);
                self.etcd.lock().expect("one thread").elect(until);
            }
            _ if self.mode == Mode::OnlyMonitors => {}
            0..=1 => self.kill_node(node),
            3..=5 => {
                if let Some(connection) = self.network.of(node) {
                    self.counts.cuts += 1;
                    self.cut(connection, 3000);
                }
            }
            6 => {
                if let Some(connection) = self.network.of(node) {
                    self.counts.silent += 1;
                    self.cut(connection, 15_000);
                }
            }
            _ => self.nodes[node].memory.lock().expect("one thread").refusals += 1,
        }
    }

    /// From now on all goes well: no donor refuses what it still would have.
    pub(crate) fn end_faults(&mut self) {
        self.has_faults = false;
        self.etcd.lock().expect("one thread").has_faults = false;
        for node in &self.nodes {
            node.memory.lock().expect("one thread").refusals = 0;
        }
    }

    /// Nothing comes through any more, from some moment on, and the ends learn of it.
    pub(crate) fn cut(&mut self, connection: u64, monitor_within: u64) {
        let cuts = [self.soon(20), self.soon(20)];
        let (agent, monitor) = (self.soon(3000), self.soon(monitor_within));
        if let Some(of) = self.network.connections.get_mut(&connection) {
            of.cut = [of.cut[0].min(cuts[0]), of.cut[1].min(cuts[1])];
            let later = Duration::from_millis(20);
            self.events
                .at(agent + later, Event::AgentHears { connection });
            self.events
                .at(monitor + later, Event::MonitorHears { connection });
        }
    }

    pub(crate) fn kill_node(&mut self, node: usize) {
        if self.nodes[node].agent.take().is_none() {
            return;
        }
        self.counts.node_deaths += 1;
        self.nodes[node].clients.clear();
        let mut memory = self.nodes[node].memory.lock().expect("one thread");
        memory.loans.clear();
        self.counts.refused_by_donor += std::mem::take(&mut memory.refused);
        drop(memory);
        if let Some(connection) = self.network.of(node) {
            // Of a machine that lost its power nobody hears.
            let within = if self.random.bool() { 10 } else { 15_000 };
            self.cut(connection, within);
            let of = self.network.connections.get_mut(&connection);
            of.expect("it is known").agent_has = false;
        }
        let again = if self.random.bool() { 500 } else { 10_000 };
        let at = self.soon(again);
        self.events.at(at, Event::NodeBegins { node });
    }
}
