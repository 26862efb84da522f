//! What is to happen, in the order of time.

use rhythm_net::Time;
use rhythm_venice::wire::Message;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One thing.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A connection begun by a node is there, or is refused.
    Open {
        connection: u64,
    },
    /// A monitor that was stopped learns of a connection.
    Opened {
        connection: u64,
    },
    /// A message arrives.
    ToMonitor {
        connection: u64,
        message: Message,
    },
    ToAgent {
        connection: u64,
        message: Message,
    },
    /// An end learns that a connection is over.
    MonitorHears {
        connection: u64,
    },
    AgentHears {
        connection: u64,
    },
    /// A datagram arrives.
    Datagram {
        to: SocketAddr,
        from: SocketAddr,
        bytes: Vec<u8>,
    },
    /// A node reads what memory it has.
    Reading {
        node: usize,
    },
    /// A borrower does something.
    Client {
        node: usize,
    },
    /// Something bad happens.
    Fault,
    /// A node, or a monitor, begins.
    NodeBegins {
        node: usize,
    },
    MonitorBegins {
        monitor: usize,
    },
    /// A monitor, in one of its lives, stands for election.
    Elect {
        monitor: usize,
        life: u64,
    },
    /// It has read what is kept, and leads.
    Lead {
        monitor: usize,
        life: u64,
    },
    /// A monitor that was stopped goes on.
    Resume {
        monitor: usize,
        life: u64,
    },
}

/// All that is to happen.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
}

impl Events {
    pub(crate) fn at(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// When the next one is.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.events.pop_first().map(|(_, event)| event)
    }
}
