//! The connection to the monitor: greeting, heartbeats, and what is said again on a new one.

use super::lender::Lender;
use super::line::Stage;
use super::{Agent, Effect, millis};
use crate::secret::Prover;
use crate::wire::{Message, Register, TurnedAway, VERSION};
use rhythm_net::Time;
use std::time::Duration;

/// How long connecting and greeting may take, and where another monitor may be the one that leads.
const GREET_WITHIN: Duration = Duration::from_secs(5);
const GREET_WITHIN_IF_OTHERS: Duration = Duration::from_secs(2);
/// A monitor that answers so many heartbeats not, and nothing for so long, hangs: another may lead.
const UNHEARD: u32 = 3;
const SILENT: Duration = Duration::from_secs(2);
/// How long after a connection ended the next is begun, and after the monitor turned it away.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_IF_TURNED_AWAY: Duration = Duration::from_secs(2);
/// Heartbeats are no more frequent than that.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);

impl<L: Lender> Agent<L> {
    /// The connection that [`Effect::Connect`] asked for stands.
    pub fn connected(&mut self, now: Time) {
        if let Stage::Connecting { until } = self.line.stage {
            let nonce = (self.random)();
            self.line.stage = Stage::Greeting { until, nonce };
            let version = VERSION;
            self.effects
                .push(Effect::Say(Message::Hello { version, nonce }));
            // TLS brings nothing there before both have shown their certificates.
            if self.identity.is_some() {
                self.say_who(until, now);
            }
        }
    }

    /// Says who it is to a monitor that is one.
    fn say_who(&mut self, until: Time, now: Time) {
        let register = Message::Register(self.registration());
        self.effects.push(Effect::Say(register));
        self.line.stage = Stage::Registering { until };
        self.say_again(now);
    }

    /// The connection is no good, and why.
    pub(super) fn refused(&mut self, why: String, now: Time) {
        self.give_up(why, now, AGAIN_IF_TURNED_AWAY);
    }

    /// It was cut off while TLS began: the monitor may speak none, or have had no place for it at
    /// that moment. A pause would have who was there before taken for dead.
    pub(super) fn cut_off(&mut self, why: String, now: Time) {
        self.give_up(why, now, AGAIN);
    }

    /// The connection to the monitor ended, or could not be begun.
    pub fn disconnected(&mut self, now: Time) {
        if self.line.is_registered() {
            tracing::warn!("the monitor is gone; what is lent and borrowed stays so");
        }
        self.line.go_on(now, AGAIN);
    }

    /// The monitor says something.
    pub fn received(&mut self, message: Message, now: Time) {
        self.line.heard(now);
        match (self.line.stage.clone(), message) {
            // Of a connection that is given up.
            (Stage::Down { .. }, _) => {}
            (_, Message::Away(TurnedAway::NotLeading)) => {
                tracing::debug!("the monitor is a spare, or is one now");
                self.effects.push(Effect::Disconnect);
                self.disconnected(now);
            }
            (_, Message::Away(why)) => {
                let secret = "the monitor says that the shared secret is another";
                let why = match why {
                    TurnedAway::Secret => format!("{secret}; compare the files of --key-file"),
                    why => why.to_string(),
                };
                self.refused(why, now);
            }
            (
                Stage::Greeting { until, nonce },
                Message::Challenge {
                    nonce: theirs,
                    proof,
                },
            ) => {
                let parts: &[&[u8]] = &[&nonce, &theirs];
                if !self.secret.is_proven(Prover::Monitor, parts, &proof) {
                    let why = "the monitor does not have the shared secret; compare the files of \
                               --key-file";
                    return self.refused(why.to_owned(), now);
                }
                let proof = self.secret.prove(Prover::Agent, parts);
                self.effects.push(Effect::Say(Message::Proof { proof }));
                self.say_who(until, now);
            }
            (Stage::Registering { .. }, Message::Registered { heartbeat_ms }) => {
                let heartbeat = Duration::from_millis(heartbeat_ms.into()).max(HEARTBEAT_MIN);
                self.line.registered(heartbeat, now);
                tracing::info!("the monitor knows this node");
            }
            (Stage::Registered { .. }, Message::Heard) => {}
            (Stage::Registered { .. }, message) => {
                if !self.told(message, now) {
                    self.refused("the monitor says what none says".to_owned(), now);
                }
            }
            _ => self.refused("the monitor greets as none does".to_owned(), now),
        }
    }

    /// All that this node knows.
    fn registration(&self) -> Register {
        Register {
            name: self.settings.name.clone(),
            incarnation: self.incarnation,
            place: self.settings.place.clone(),
            probe: self.settings.probe,
            offers: self.lending.offers(),
            lent: self.lending.lent(),
            borrowed: self.borrowing.loans().map(|(id, _)| id).collect(),
        }
    }

    /// What is waited for, and wanted back, is said anew to a monitor that has not heard of it.
    fn say_again(&mut self, now: Time) {
        let requests = self.borrowing.requests();
        let requests = requests.map(|(request, wanted)| Message::Borrow {
            request,
            share: wanted.share,
            apart: wanted.apart.clone(),
        });
        let reclaims = self.lending.reclaims(now).into_iter();
        let reclaims = reclaims.map(|(loan, within)| Message::Reclaiming {
            loan,
            within_ms: millis(within),
        });
        let said: Vec<Message> = requests.chain(reclaims).collect();
        self.effects.extend(said.into_iter().map(Effect::Say));
    }

    /// Drops the connection, and tries again after a while.
    fn give_up(&mut self, why: String, now: Time, pause: Duration) {
        if self.line.trouble.as_ref() != Some(&why) {
            tracing::error!("{why}");
        }
        self.line.trouble = Some(why);
        self.effects.push(Effect::Disconnect);
        self.line.go_on(now, pause);
    }

    pub(super) fn tick_line(&mut self, now: Time) {
        if self.line.wake_at() > now {
            return;
        }
        match self.line.stage {
            Stage::Down { .. } => {
                let until = now
                    + match self.line.has_others() {
                        true => GREET_WITHIN_IF_OTHERS,
                        false => GREET_WITHIN,
                    };
                self.line.stage = Stage::Connecting { until };
                self.effects.push(Effect::Connect(self.line.at()));
            }
            // Its machine takes what is sent, also where the process is stopped. One that has no
            // other is waited for: it may have a slow disk.
            Stage::Registered {
                heartbeat,
                heard_at,
                ..
            } if self.line.has_others()
                && now.since(heard_at) > SILENT.max(UNHEARD * heartbeat) =>
            {
                tracing::warn!("the monitor answers no heartbeats; another is tried");
                self.effects.push(Effect::Disconnect);
                self.disconnected(now);
            }
            Stage::Registered {
                heartbeat,
                heard_at,
                ..
            } => {
                self.line.stage = Stage::Registered {
                    heartbeat,
                    next: now + heartbeat,
                    heard_at,
                };
                let mut probes = Vec::new();
                let links = self.links.reports(now);
                self.links.test(now, &mut probes);
                let probes = probes.into_iter();
                self.effects
                    .extend(probes.map(|(to, bytes)| Effect::Probe(to, bytes)));
                let offers = self.lending.offers();
                self.say(Message::Heartbeat { offers, links });
            }
            Stage::Connecting { .. } | Stage::Greeting { .. } | Stage::Registering { .. } => {
                self.effects.push(Effect::Disconnect);
                self.line.go_on(now, AGAIN);
            }
        }
    }
}
