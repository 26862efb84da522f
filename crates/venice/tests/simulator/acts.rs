//! What the monitor and the agents do to the world: messages on their way, and their ends.

use super::events::Event;
use super::shelf::Shelf;
use super::world::World;
use rhythm_net::Time;
use rhythm_venice::agent::{self, Agent};
use rhythm_venice::monitor;
use std::time::Duration;

const NANOSECOND: Duration = Duration::from_nanos(1);

impl World {
    /// What a monitor does.
    pub(crate) fn act(&mut self, effects: Vec<monitor::Effect>) {
        for effect in effects {
            match effect {
                monitor::Effect::Send(connection, message) => {
                    let delay = self.delay();
                    let of = self.network.connections.get_mut(&connection);
                    if let Some(of) = of.filter(|of| of.monitor_has) {
                        of.under_way += 1;
                        of.to_agent = (self.now + delay).max(of.to_agent + NANOSECOND);
                        let at = of.to_agent;
                        self.events.at(
                            at,
                            Event::ToAgent {
                                connection,
                                message,
                            },
                        );
                    }
                }
                monitor::Effect::Close(connection) => {
                    if let Some(of) = self.network.connections.get_mut(&connection) {
                        of.monitor_has = false;
                        let at = of.to_agent + Duration::from_millis(1);
                        self.events
                            .at(at.max(self.now), Event::AgentHears { connection });
                    }
                }
            }
        }
    }

    /// Mostly short.
    pub(crate) fn delay(&mut self) -> Duration {
        let most = if self.random.u8(..20) == 0 {
            500_000
        } else {
            1000
        };
        Duration::from_micros(self.random.u64(50..50 + most))
    }

    /// Something happens to an agent, and what it does then.
    pub(crate) fn with_agent(&mut self, node: usize, what: impl FnOnce(&mut Agent<Shelf>, Time)) {
        let Some(agent) = &mut self.nodes[node].agent else {
            return;
        };
        what(agent, self.now);
        self.touched.push(node);
        for effect in agent.flush() {
            match effect {
                agent::Effect::Connect(monitor) => {
                    let connection = self.network.begin(node, monitor, self.now);
                    let at = self.now + self.delay();
                    self.events.at(at, Event::Open { connection });
                }
                agent::Effect::Disconnect => {
                    if let Some(connection) = self.network.of(node) {
                        let delay = self.delay();
                        let of = self.network.connections.get_mut(&connection);
                        let of = of.expect("it is known");
                        of.agent_has = false;
                        let at = of.to_monitor.max(self.now) + delay;
                        self.events.at(at, Event::MonitorHears { connection });
                    }
                }
                agent::Effect::Say(message) => {
                    let delay = self.delay();
                    let connection = self.network.of(node).expect("agents say it on one");
                    let of = self.network.connections.get_mut(&connection);
                    let of = of.expect("it is known");
                    of.under_way += 1;
                    of.to_monitor = (self.now + delay).max(of.to_monitor + NANOSECOND);
                    let at = of.to_monitor;
                    self.events.at(
                        at,
                        Event::ToMonitor {
                            connection,
                            message,
                        },
                    );
                }
                agent::Effect::Tell(client, local) => self.told(node, client, local),
                agent::Effect::Drop(client) => {
                    panic!("borrower {client} is dropped, though it did nothing wrong")
                }
                agent::Effect::Probe(to, bytes) => {
                    if self.random.u8(..20) < self.heard {
                        let at = self.now + self.delay();
                        let from = self.nodes[node].at;
                        self.events.at(at, Event::Datagram { to, from, bytes });
                    }
                }
            }
        }
    }
}
