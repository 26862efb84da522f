//! What the thread is: the monitor that leads, or a spare.

use super::super::etcd::Place;
use super::super::keeper::{Keeper, NotKept, State};
use super::super::policy::Policy;
use super::super::{Effect, Monitor, Now, Settings, Spare};
use crate::name::NodeName;
use crate::random;
use crate::secret::{ProbeKey, Secret};
use crate::wire::{Message, SMALL_MAX};
use rhythm_net::{Time, clock};
use std::fmt;
use std::sync::Arc;

/// What every monitor of the process is made of.
pub(super) struct Recipe {
    pub(super) settings: Settings,
    pub(super) secret: Secret,
    /// What nodes with certificates prove link tests by: of the authority, so that it is the same
    /// whoever leads.
    pub(super) probe_key: Option<ProbeKey>,
    pub(super) policy: Arc<dyn Policy>,
}

impl Recipe {
    /// A monitor that leads, and knows what was kept.
    pub(super) fn leads(&self, keeper: Box<dyn Keeper>, state: &State, now: Time) -> Role {
        let monitor = Monitor::new(
            self.settings,
            self.secret.clone(),
            Box::new(Arc::clone(&self.policy)),
            (keeper, state),
            Box::new(random::numbers),
            now,
        );
        Role::Leads(Box::new(monitor.gives_probe_key(self.probe_key)))
    }
}

/// What a spare knows of who leads.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) leader: Option<Place>,
    /// Why that is not known.
    pub(super) trouble: Option<String>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this monitor is a spare: ")?;
        match (&self.leader, &self.trouble) {
            (Some(Place { agents, admin, .. }), _) => {
                write!(f, "the one at {agents} leads")?;
                match admin {
                    Some(admin) => write!(f, ", and tells of itself at {admin}"),
                    None => Ok(()),
                }
            }
            (None, Some(trouble)) => f.write_str(trouble),
            (None, None) => f.write_str("none leads yet"),
        }
    }
}

/// See the head of this file. Events go to what it is.
pub(super) enum Role {
    Leads(Box<Monitor<Box<dyn Keeper>>>),
    Waits(Spare),
}

impl Role {
    pub(super) fn waits() -> Role {
        Role::Waits(Spare::default())
    }

    pub(super) fn message_max(&self, connection: u64) -> usize {
        match self {
            Role::Leads(monitor) => monitor.message_max(connection),
            Role::Waits(_) => SMALL_MAX,
        }
    }

    /// Whether more of a connection is to be read.
    pub(super) fn listens(&self, connection: u64) -> bool {
        match self {
            Role::Leads(_) => true,
            Role::Waits(spare) => spare.listens(connection),
        }
    }

    /// Whether a connection is a node's.
    pub(super) fn is_node(&self, connection: u64) -> bool {
        match self {
            Role::Leads(monitor) => monitor.is_node(connection),
            Role::Waits(_) => false,
        }
    }

    /// Who has just connected has shown a certificate of this node.
    pub(super) fn certified(&mut self, connection: u64, name: NodeName) {
        match self {
            Role::Leads(monitor) => monitor.certified(connection, name),
            // Who leads compares it.
            Role::Waits(_) => {}
        }
    }

    /// A connection had nothing to do here.
    pub(super) fn is_stranger(&mut self) {
        match self {
            Role::Leads(monitor) => monitor.is_stranger(),
            // Its log has it.
            Role::Waits(_) => {}
        }
    }

    pub(super) fn opened(&mut self, connection: u64, now: Now) {
        match self {
            Role::Leads(monitor) => monitor.opened(connection, now),
            Role::Waits(spare) => spare.opened(connection, now),
        }
    }

    pub(super) fn received(&mut self, connection: u64, message: Message, now: Now) {
        match self {
            Role::Leads(monitor) => monitor.received(connection, message, now),
            Role::Waits(spare) => spare.received(connection, &message),
        }
    }

    pub(super) fn closed(&mut self, connection: u64, now: Now) {
        match self {
            Role::Leads(monitor) => monitor.closed(connection, now),
            Role::Waits(spare) => spare.closed(connection),
        }
    }

    pub(super) fn tick(&mut self, now: Now) {
        match self {
            Role::Leads(monitor) => monitor.tick(now),
            Role::Waits(spare) => spare.tick(now),
        }
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        match self {
            Role::Leads(monitor) => monitor.wake_at(),
            Role::Waits(spare) => spare.wake_at(),
        }
    }

    pub(super) fn flush(&mut self) -> Result<Vec<Effect>, NotKept> {
        match self {
            Role::Leads(monitor) => {
                let begun = clock::monotonic();
                let flushed = monitor.flush();
                let now = clock::monotonic();
                monitor.waited(now.since(begun), now);
                flushed
            }
            Role::Waits(spare) => Ok(spare.flush()),
        }
    }
}
