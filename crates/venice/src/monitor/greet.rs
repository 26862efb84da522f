//! How a connection becomes a node's: both sides show that they have the secret, then the node says
//! who it is. Until then little is read, and not for long.

use super::Monitor;
use super::Now;
use super::connection::Connection;
use super::effects::Effect;
use super::keeper::Keeper;
use crate::name::NodeName;
use crate::secret::Prover;
use crate::wire::{Message, TurnedAway, VERSION};

impl<K: Keeper> Monitor<K> {
    /// A message of somebody who is no node yet.
    pub(super) fn greet(&mut self, id: u64, message: Message, now: Now) {
        let Some(connection) = self.connections.get(&id).cloned() else {
            return;
        };
        match (connection, message) {
            (
                Connection::New { until },
                Message::Hello {
                    version,
                    nonce: theirs,
                },
            ) => {
                if version != VERSION {
                    return self.turn_away(id, TurnedAway::Version);
                }
                let ours = (self.random)();
                let proof = self.secret.prove(Prover::Monitor, &[&theirs, &ours]);
                self.effects
                    .send(id, Message::Challenge { nonce: ours, proof });
                let asked = Connection::Asked {
                    until,
                    theirs,
                    ours,
                };
                self.connections.insert(id, asked);
            }
            (
                Connection::Asked {
                    until,
                    theirs,
                    ours,
                },
                Message::Proof { proof },
            ) => {
                let parts: &[&[u8]] = &[&theirs, &ours];
                if self.secret.is_proven(Prover::Agent, parts, &proof) {
                    let name = None;
                    self.connections
                        .insert(id, Connection::Proven { until, name });
                } else {
                    self.figures.strangers += 1;
                    self.turn_away(id, TurnedAway::Secret);
                }
            }
            (Connection::Certified { until, name }, Message::Hello { version, .. }) => {
                if version != VERSION {
                    return self.turn_away(id, TurnedAway::Version);
                }
                let name = Some(name);
                self.connections
                    .insert(id, Connection::Proven { until, name });
            }
            (Connection::Proven { name, .. }, Message::Register(register)) => {
                if name.is_some_and(|name| name != register.name) {
                    self.figures.strangers += 1;
                    return self.turn_away(id, TurnedAway::Name);
                }
                self.register(id, register, now);
                if let (Some(Connection::Node(_)), Some(key)) =
                    (self.connections.get(&id), self.probe_key)
                {
                    self.effects.send(id, Message::ProbeKey { key });
                }
            }
            _ => {
                self.figures.strangers += 1;
                self.close(id, now);
            }
        }
    }

    /// Who has just connected has shown a certificate of this node.
    pub(crate) fn certified(&mut self, id: u64, name: NodeName) {
        if let Some(Connection::New { until }) = self.connections.get(&id) {
            let until = *until;
            self.connections
                .insert(id, Connection::Certified { until, name });
        }
    }

    /// A connection had nothing to do here.
    pub(crate) fn is_stranger(&mut self) {
        self.figures.strangers += 1;
    }

    /// Ends a connection that is no node's, and says why.
    pub(super) fn turn_away(&mut self, id: u64, why: TurnedAway) {
        self.effects.send(id, Message::Away(why));
        self.effects.effects.push(Effect::Close(id));
        self.connections.remove(&id);
    }
}
