//! What an agent does to the world.

use crate::wire::{Local, Message};
use std::net::SocketAddr;

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A connection to the monitor of this place in the list is to be begun.
    Connect(usize),
    /// That connection is to be dropped; the agent is not told of its end.
    Disconnect,
    /// To be sent to the monitor.
    Say(Message),
    /// To be sent to a borrower of this machine.
    Tell(u64, Local),
    /// A borrower is to be disconnected; the agent is not told of its end.
    Drop(u64),
    /// A datagram to another agent.
    Probe(SocketAddr, Vec<u8>),
}
