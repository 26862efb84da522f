//! What front ends say to a node, and what comes of it.

use super::connection::{Compiles, Queued};
use super::services::{Found, Tell};
use super::works::{Command, NodeWorker};
use crate::bundle::Compiled;
use crate::wire::bytes::Wrong;
use crate::wire::frame::{Broken, PROTOCOL};
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message, SMALL_MAX, SOURCES_MAX};
use crate::wire::message::{VERSION, other_version};
use rhythm_net::{ConnectionId, Port, Time};
use rhythm_venice::secret::{Prover, Secret};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// How long one may be silent: each asks more often whether the node is there.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// How long one that is to go may take for the reason why.
const ENDING_MAX: Duration = Duration::from_secs(5);

impl NodeWorker {
    /// Takes all messages that have come whole.
    pub(super) fn take_messages(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        while let Some(connection) = self.connections.get(id) {
            if connection.is_ending {
                return;
            }
            let most = match connection.nonce {
                Some(_) => SMALL_MAX,
                None => MESSAGE_MAX,
            };
            let outcome = match message::next(&mut input, most) {
                Ok(None) => break,
                Ok(Some(message)) => self
                    .take_message(port, id, message, now)
                    .map_err(Broken::Wrong),
                Err(broken) => Err(broken),
            };
            match outcome {
                Ok(()) => {}
                // It is told, so that it does not take it for the node's fault.
                Err(broken @ Broken::Checksum) => {
                    return self.end_with(port, id, Message::Corrupt, &broken.to_string(), now);
                }
                Err(Broken::Wrong(Wrong(why))) => {
                    self.refuse(why, now);
                    return self.end(port, id);
                }
            }
        }
        input.tidy();
        if let Some(connection) = self.connections.get_mut(id) {
            connection.input = input;
        }
    }

    /// Ends a connection once it was said why.
    fn end_with(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        message: Message<'_>,
        why: &str,
        now: Time,
    ) {
        self.refuse(why, now);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.begin_ending(now + ENDING_MAX);
        }
        self.say(port, id, message);
    }

    fn take_message(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        message: Message<'_>,
        now: Time,
    ) -> Result<(), Wrong> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        if let Some(nonce) = connection.nonce {
            return self.take_hello(port, id, nonce, message, now);
        }
        connection.deadline = now + SILENT_MAX;
        if connection.is_greedy() {
            return Err(Wrong("a front end asks for more than it takes"));
        }
        match message {
            Message::Ping => self.say(port, id, Message::Pong),
            Message::Offer { digest } => {
                connection.asked += 1;
                self.offered(port, id, digest, now);
            }
            Message::Sources { bytes } if bytes.len() <= SOURCES_MAX => {
                connection.asked += 1;
                self.take_sources(port, id, bytes, now);
            }
            Message::Work {
                token,
                digest,
                cohort,
            } => return self.take_work(port, id, token, digest, cohort, now),
            _ => return Err(Wrong("a front end says what only a node says")),
        }
        Ok(())
    }

    /// A service is offered that this front end has asked about.
    fn offered(&mut self, port: &mut dyn Port, id: ConnectionId, digest: Digest, now: Time) {
        let tell = self.tell(id, digest);
        match self.services.find(&digest, tell) {
            Found::Known(compiled) => self.compiled(port, id, digest, compiled, now),
            Found::Pending => {}
            Found::Unknown => {
                let compiles = self.compiles(id);
                let Some(connection) = self.connections.get_mut(id) else {
                    return;
                };
                match compiles {
                    true if connection.want(digest) => {}
                    true => self.full(port, id, digest, now),
                    false => {
                        connection.compiles = Some(Compiles::Asked);
                        self.settled(id);
                        self.say(port, id, Message::Send { digest });
                    }
                }
            }
        }
    }

    /// The sources of one came. Of each front end one waits to be compiled, so that nobody keeps
    /// others waiting for long.
    fn take_sources(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        let digest: Digest = Sha256::digest(bytes).into();
        let may_compile = match self.connections.get(id).and_then(|it| it.compiles) {
            Some(Compiles::Asked) => true,
            Some(Compiles::Given(_)) => false,
            None => !self.compiles(id),
        };
        let tell = self.tell(id, digest);
        let taken = may_compile && self.services.compile(digest, bytes.to_vec(), tell);
        if let Some(connection) = self.connections.get_mut(id)
            && may_compile
        {
            connection.compiles = taken.then_some(Compiles::Given(digest));
        }
        if !taken {
            self.full(port, id, digest, now);
            self.ask_for_sources(port, now);
        }
    }

    /// A service finds no room among those that wait to be compiled.
    fn full(&mut self, port: &mut dyn Port, id: ConnectionId, digest: Digest, now: Time) {
        self.settled(id);
        let why = "too many services wait to be compiled there";
        self.later(port, id, digest, why, now);
    }

    /// Whether something is compiled for who has this connection.
    fn compiles(&self, id: ConnectionId) -> bool {
        let of = self.front_end(id);
        let mut all = self.connections.iter();
        all.any(|(other, it)| it.compiles.is_some() && self.front_end(other) == of)
    }

    /// Asks those who have nothing compiled for what they have offered.
    pub(super) fn ask_for_sources(&mut self, port: &mut dyn Port, now: Time) {
        let waiting = self
            .connections
            .iter()
            .filter(|(_, it)| !it.wanted.is_empty());
        let waiting: Vec<ConnectionId> = waiting.map(|(id, _)| id).collect();
        for id in waiting {
            while !self.compiles(id)
                && let Some(connection) = self.connections.get_mut(id)
                && let Some(digest) = connection.wanted.pop_front()
            {
                self.offered(port, id, digest, now);
            }
        }
    }

    fn take_hello(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        nonce: [u8; 32],
        message: Message<'_>,
        now: Time,
    ) -> Result<(), Wrong> {
        let checked = match message {
            Message::Hello {
                version,
                nonce: theirs,
                proof,
            } if version == VERSION => {
                let is_proven =
                    |key: &Secret| key.is_proven(Prover::FrontEnd, &[&nonce, &theirs], &proof);
                let admitted = self.guard.admit(is_proven).map_err(str::to_owned);
                admitted.map(|admitted| (theirs, admitted))
            }
            Message::Hello { version, .. } => Err(other_version(PROTOCOL, version)),
            Message::Foreign { protocol, version } => Err(other_version(protocol, version)),
            _ => return Err(Wrong("a front end does not say hello")),
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        match checked {
            Ok((theirs, admitted)) => {
                connection.nonce = None;
                connection.loan = admitted.loan;
                connection.deadline = now + SILENT_MAX;
                let proof = match &admitted.key {
                    Some(key) => key.prove(Prover::Device, &[&theirs, &nonce]),
                    None => [0; 32],
                };
                self.say(port, id, Message::Welcome { proof });
            }
            Err(why) => self.end_with(port, id, Message::Refused { why: &why }, &why, now),
        }
        Ok(())
    }

    /// What tells this thread what has become of a service.
    fn tell(&self, id: ConnectionId, digest: Digest) -> Tell {
        let inbox = self.inbox.clone();
        Box::new(move |compiled| inbox.send(Command::Compiled(id, digest, compiled)))
    }

    /// Tells a front end what has become of its service.
    pub(super) fn compiled(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        digest: Digest,
        compiled: Result<Compiled, String>,
        now: Time,
    ) {
        self.settled(id);
        let of = self.front_end(id);
        match compiled {
            Ok(compiled) => match self.executor(of, &compiled) {
                Ok(_) => {
                    let programs = compiled.programs;
                    self.say(port, id, Message::Ready { digest, programs });
                }
                Err(why) => self.later(port, id, digest, &why, now),
            },
            Err(why) => {
                self.refuse(&why, now);
                self.say(port, id, Message::Unfit { digest, why: &why });
            }
        }
    }

    /// Tells a front end that its service may be taken another time.
    fn later(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        digest: Digest,
        why: &str,
        now: Time,
    ) {
        self.refuse(why, now);
        self.say(port, id, Message::Later { digest, why });
    }

    fn take_work(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        token: u64,
        digest: Digest,
        cohort: &[u8],
        now: Time,
    ) -> Result<(), Wrong> {
        let has_room = self.has_room_for(port, cohort.len(), now);
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(());
        };
        if connection.under_way >= self.limits.in_flight {
            return Err(Wrong(
                "a front end sends more cohorts at a time than it may",
            ));
        }
        if !has_room {
            let is_unknown = false;
            self.say(port, id, Message::Declined { token, is_unknown });
            return Ok(());
        }
        connection.under_way += 1;
        let is_first = connection.queue.is_empty();
        let bytes = cohort.to_vec();
        let queued = Queued {
            token,
            digest,
            bytes,
        };
        connection.queue.push_back(queued);
        if is_first {
            self.again_in_turn(id);
        }
        self.has_more = true;
        Ok(())
    }
}
