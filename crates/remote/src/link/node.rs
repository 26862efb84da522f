//! A front end's connection to a node: how the two greet, which services it has, and what is to be
//! sent. What is under way on it is the link's (mod.rs).
//!
//! ```text
//!     Away --connect--> Greeted? --Greeting, Hello--> Proven? --Welcome--> Used
//!       ^                                                                   |
//!       +---- lost, silent, wrong; a wait that doubles while that goes on --+
//! ```

use super::options::LinkOptions;
use crate::bundle::Bundle;
use crate::figures::silent_for;
use crate::places::Slot;
use crate::wire::bytes::Wrong;
use crate::wire::frame::{Incoming, PROTOCOL};
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message, SMALL_MAX};
use crate::wire::message::{VERSION, other_version};
use rhythm_net::{ConnectionId, Flushed, Outgoing, Port, Time};
use rhythm_venice::random;
use rhythm_venice::secret::{Nonce, Prover, Secret};
use std::collections::HashMap;
use std::time::Duration;

/// How long is waited before a node is tried again: at first, and at most.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);
/// One that works again is forgiven after so long.
const STEADY_AFTER: Duration = Duration::from_secs(10);
/// A connection on which nothing is said for so long is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(5);
/// A place without a node is looked at again after so long.
const VACANT: Duration = Duration::from_millis(500);
/// A service that a node may take another time is offered again after so long.
pub(super) const LATER_AFTER: Duration = Duration::from_secs(5);

/// How far the two have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is no connection; one is begun then.
    Away { until: Time },
    /// Its greeting is waited for.
    Greeted,
    /// Its proof is, over these numbers, and then so many works at a time are taken.
    Proven {
        numbers: [Nonce; 2],
        in_flight: usize,
    },
    /// It takes works.
    Used { in_flight: usize },
}

/// What a node makes of a service.
#[derive(Clone, Debug)]
pub(super) enum Fit {
    /// It was offered, and these are its sources.
    Offered(Bundle),
    /// They were sent.
    Sent,
    Ready,
    Unfit,
    /// It may take it another time: it is offered again then.
    Later(Time),
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) slot: Slot,
    pub(super) phase: Phase,
    pub(super) connection: Option<ConnectionId>,
    output: Outgoing,
    input: Incoming,
    /// Works under way.
    pub(super) under_way: usize,
    pub(super) services: HashMap<Digest, Fit>,
    wait: Duration,
    /// When it was lost last.
    left: Time,
    /// When something is to have come.
    deadline: Time,
    /// When it was last heard of.
    heard: Time,
}

impl Node {
    pub(super) fn new(slot: Slot) -> Node {
        Node {
            slot,
            phase: Phase::Away { until: Time::ZERO },
            connection: None,
            output: Outgoing::new(),
            input: Incoming::default(),
            under_way: 0,
            services: HashMap::new(),
            wait: WAIT_FIRST,
            left: Time::ZERO,
            deadline: Time::NEVER,
            heard: Time::ZERO,
        }
    }

    /// Whether it takes another work of this service now.
    pub(super) fn takes(&self, digest: &Digest) -> bool {
        self.has(digest) && self.has_room()
    }

    /// Whether it would, if less were under way.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        matches!(self.phase, Phase::Used { .. })
            && matches!(self.services.get(digest), Some(Fit::Ready))
    }

    /// Whether a service is to be offered to it: it was not yet, or it said later.
    pub(super) fn lacks(&self, digest: &Digest, now: Time) -> bool {
        let is_due = match self.services.get(digest) {
            None => true,
            Some(Fit::Later(at)) => *at <= now,
            Some(_) => false,
        };
        is_due && matches!(self.phase, Phase::Used { .. })
    }

    /// Whether there is a service that it may take yet, or another time.
    pub(super) fn may_take(&self) -> bool {
        let mut fits = self.services.values();
        let may = |fit: &Fit| matches!(fit, Fit::Offered(_) | Fit::Sent | Fit::Later(_));
        matches!(self.phase, Phase::Used { .. }) && fits.any(may)
    }

    fn has_room(&self) -> bool {
        let has_place =
            matches!(self.phase, Phase::Used { in_flight } if self.under_way < in_flight);
        has_place && self.output.unsent() < MESSAGE_MAX
    }

    /// Another node is at its place, or none; there is no connection.
    pub(super) fn move_to(&mut self, slot: Slot, now: Time) {
        self.slot = slot;
        self.wait = WAIT_FIRST;
        self.phase = Phase::Away { until: now };
    }

    /// Begins a connection, if there is a node.
    ///
    /// # Errors
    /// Why there can be none.
    pub(super) fn connect(
        &mut self,
        port: &mut dyn Port,
        options: &LinkOptions,
        now: Time,
    ) -> Result<(), String> {
        let Some(place) = &self.slot.place else {
            let until = now + VACANT;
            self.phase = Phase::Away { until };
            return Ok(());
        };
        let id = port
            .connect(&place.peer)
            .map_err(|error| error.to_string())?;
        self.connection = Some(id);
        self.phase = Phase::Greeted;
        self.deadline = now + options.timeout;
        self.heard = now;
        Ok(())
    }

    /// Gives the connection up and waits, for long if it does what it must not.
    pub(super) fn leave(&mut self, port: &mut dyn Port, is_wrong: bool, now: Time) {
        if let Some(id) = self.connection.take() {
            port.abort(id);
        }
        self.output = Outgoing::new();
        self.input = Incoming::default();
        self.under_way = 0;
        self.services.clear();
        self.deadline = Time::NEVER;
        self.left = now;
        if is_wrong {
            self.wait = WAIT_MAX;
        }
        self.phase = Phase::Away {
            until: now + self.wait,
        };
        self.wait = (self.wait * 2).min(WAIT_MAX);
    }

    /// It has done something: if it was not lost for a while, it is tried again soon when it is. Of
    /// one that is lost again and again, what it does between does not count.
    pub(super) fn did_well(&mut self, now: Time) {
        if self.left + STEADY_AFTER <= now {
            self.wait = WAIT_FIRST;
        }
    }

    /// Appends a message.
    pub(super) fn say(&mut self, message: Message<'_>) {
        self.output.write(|out| message::put(message, out));
    }

    /// Appends a whole one as it is.
    pub(super) fn say_bytes(&mut self, bytes: Vec<u8>) {
        self.output.push_own(bytes);
    }

    /// Sends what the socket takes. False: the connection is gone.
    pub(super) fn flush(&mut self, port: &mut dyn Port) -> bool {
        match self.connection {
            Some(id) => self.output.flush(port, id) != Flushed::Gone,
            None => true,
        }
    }

    /// The socket takes bytes. False: the connection is gone.
    pub(super) fn writable(&mut self, port: &mut dyn Port) -> bool {
        match self.connection {
            Some(id) => self.output.writable(port, id) != Flushed::Gone,
            None => true,
        }
    }

    /// Takes what came.
    pub(super) fn received(&mut self, bytes: &[u8], now: Time) {
        self.heard = now;
        self.input.extend(bytes);
    }

    /// What came and is not taken yet.
    pub(super) fn take_input(&mut self) -> Incoming {
        std::mem::take(&mut self.input)
    }

    /// The rest of it.
    pub(super) fn give_input_back(&mut self, mut input: Incoming) {
        input.tidy();
        self.input = input;
    }

    /// Most bytes of its next message.
    pub(super) fn message_max(&self) -> usize {
        match self.phase {
            Phase::Used { .. } => MESSAGE_MAX,
            _ => SMALL_MAX,
        }
    }

    /// What it is to have in common with this end.
    fn key(&self) -> Option<Secret> {
        self.slot.place.as_ref()?.key.clone()
    }

    /// Its greeting came: shows what this end is, and that it has the key.
    ///
    /// # Errors
    /// Why the two do not work together.
    pub(super) fn greeted(
        &mut self,
        message: Message<'_>,
        options: &LinkOptions,
    ) -> Result<(), String> {
        let (nonce, has_key, in_flight) = match message {
            Message::Greeting {
                version,
                nonce,
                has_key,
                in_flight,
            } if version == VERSION => (nonce, has_key, in_flight),
            Message::Greeting { version, .. } => return Err(other_version(PROTOCOL, version)),
            Message::Foreign { protocol, version } => return Err(other_version(protocol, version)),
            _ => return Err("it does not greet: is it a `rhythm device`?".to_owned()),
        };
        let key = self.key();
        match (has_key, &key) {
            (true, None) => {
                return Err("it wants a key: give its file by --device-key".to_owned());
            }
            (false, Some(_)) => {
                return Err(
                    "it has no key, and this end is to see that it has: start it with --key"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let own = random::numbers();
        let proof = match &key {
            Some(key) => key.prove(Prover::FrontEnd, &[&nonce, &own]),
            None => [0; 32],
        };
        self.say(Message::Hello {
            version: VERSION,
            nonce: own,
            proof,
        });
        self.phase = Phase::Proven {
            numbers: [nonce, own],
            in_flight: usize::from(in_flight).clamp(1, options.in_flight_max),
        };
        Ok(())
    }

    /// Its proof came. How many works it takes at a time.
    ///
    /// # Errors
    /// Why the two do not work together.
    pub(super) fn proven(
        &mut self,
        message: Message<'_>,
        numbers: [Nonce; 2],
        in_flight: usize,
    ) -> Result<(), String> {
        let proof = match message {
            Message::Welcome { proof } => proof,
            Message::Refused { why } => return Err(format!("it refuses: {why}")),
            _ => return Err(Wrong("it says something else than welcome").to_string()),
        };
        let [theirs, own] = &numbers;
        if let Some(key) = self.key()
            && !key.is_proven(Prover::Device, &[own, theirs], &proof)
        {
            return Err("it does not have the key of --device-key, or of its loan".to_owned());
        }
        self.phase = Phase::Used { in_flight };
        self.deadline = Time::NEVER;
        Ok(())
    }

    /// It does not take a service that it was offered.
    ///
    /// # Errors
    /// It was not.
    pub(super) fn refuses(&mut self, digest: &Digest, fit: Fit) -> Result<(), String> {
        match self.services.get_mut(digest) {
            Some(offered @ (Fit::Offered(_) | Fit::Sent)) => {
                *offered = fit;
                Ok(())
            }
            _ => Err("it refuses what it was not offered".to_owned()),
        }
    }

    /// It has answered to what `tick` asked.
    pub(super) fn answered(&mut self) {
        self.deadline = Time::NEVER;
    }

    /// When it is to be looked at.
    pub(super) fn wake_at(&self) -> Time {
        match self.phase {
            Phase::Away { until } => until,
            Phase::Used { .. } if self.deadline == Time::NEVER => self.heard + PING_AFTER,
            _ => self.deadline,
        }
    }

    /// Looks whether it is silent, and asks it if it might be gone.
    ///
    /// # Errors
    /// It is gone.
    pub(super) fn look(
        &mut self,
        port: &mut dyn Port,
        options: &LinkOptions,
        now: Time,
    ) -> Result<(), String> {
        if self.deadline <= now {
            return Err(silent_for(options.timeout));
        }
        let is_used = matches!(self.phase, Phase::Used { .. });
        if is_used && self.deadline == Time::NEVER && self.heard + PING_AFTER <= now {
            self.say(Message::Ping);
            self.deadline = now + options.timeout;
            if !self.flush(port) {
                return Err("its connection is gone".to_owned());
            }
        }
        Ok(())
    }
}
