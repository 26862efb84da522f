//! A worker: a pipeline that obeys commands from other threads. The threads themselves are
//! [`rhythm_net`]'s.

use crate::drain::Drain;
use crate::pipeline::Pipeline;
use crate::site::Sites;
use crate::site::names::Relocated;
use rhythm_net::{Port, Time, Token};
use std::sync::Arc;

/// The waker of the device.
pub(crate) const DEVICE: Token = Token(1);

/// The waker of the hosts.
pub(crate) const HOSTS: Token = Token(2);

/// What other threads ask of a worker.
#[derive(Clone, Debug)]
pub enum Command {
    /// Serve these sites from now on.
    Reload(Arc<Sites>),
    /// The names of backends lead to other addresses.
    Relocate(Arc<[Relocated]>),
    /// Finish what is under way, and end.
    Drain(Drain),
}

impl rhythm_net::Worker for Pipeline {
    type Command = Command;

    fn obey(&mut self, port: &mut dyn Port, command: Command, now: Time) {
        match command {
            Command::Reload(sites) => self.reload(sites),
            Command::Relocate(relocated) => self.relocate(&relocated),
            Command::Drain(drain) => self.drain(port, now, drain),
        }
    }
}
