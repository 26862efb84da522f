//! How a connection becomes a node's: both sides show that they have the secret, then the node says
//! who it is. Until then little is read, and not for long.

use super::Monitor;
use super::Now;
use super::connection::Connection;
use super::effects::Effect;
use super::keeper::Keeper;
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
                    self.connections.insert(id, Connection::Proven { until });
                } else {
                    self.figures.strangers += 1;
                    self.turn_away(id, TurnedAway::Secret);
                }
            }
            (Connection::Proven { .. }, Message::Register(register)) => {
                self.register(id, register, now);
            }
            _ => {
                self.figures.strangers += 1;
                self.close(id, now);
            }
        }
    }

    /// Ends a connection that is no node's, and says why.
    pub(super) fn turn_away(&mut self, id: u64, why: TurnedAway) {
        self.effects.send(id, Message::Away(why));
        self.effects.effects.push(Effect::Close(id));
        self.connections.remove(&id);
    }
}
