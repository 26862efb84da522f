//! Reading: a connection's input, request by request, into lanes of cohorts (lanes.rs) or to the
//! host path.
//!
//! While requests become lanes their connection stays at hand. Where somebody is answered, its
//! input is set aside meanwhile. What has to wait, be it for a context, for its turn or for room,
//! is put back and shown again.

use super::Pipeline;
use super::lanes::{Lanes, Taken};
use crate::answer::refusals::{TooMuch, Why};
use rhythm_http::{Clients, Next, Owed, Reader, Reading};
use rhythm_net::{Port, Time};
use rhythm_protocol::http::request::{Framing, Method};

impl Pipeline {
    /// Takes all requests that a connection's input has, if it `begins` to be read. Whether it
    /// does.
    #[inline]
    pub(super) fn read<'a>(
        &mut self,
        port: &mut dyn Port,
        now: Time,
        begins: impl FnOnce(&mut Clients) -> Option<Reader<'_, 'a>>,
    ) -> bool {
        let Some(mut reader) = begins(&mut self.clients) else {
            return false;
        };
        let left = loop {
            let (reading, goes_on) = match reader.next(port, self.epochs.limits(), now) {
                Next::Nothing => break reader.leave(port, now),
                Next::Request => {
                    let mut lanes = Lanes {
                        epochs: &self.epochs,
                        cohorts: &mut self.cohorts,
                        responder: &mut self.responder,
                        heavy: &self.heavy,
                        is_heavy: false,
                        gives_up: self.former.gives_up(now),
                    };
                    let taken = self.intake.take(&mut reader, &mut lanes, now);
                    let is_heavy = lanes.is_heavy;
                    match taken {
                        Taken::Lane => {
                            reader.reading.taken();
                            self.former.taken();
                            continue;
                        }
                        Taken::Not(stall) => {
                            // It is shown again later.
                            if reader.put_back(port, stall, now) {
                                let id = reader.reading.connection();
                                let lent = self.cohorts.lent();
                                let waits = self.former.wait(id, stall, is_heavy, lent, now);
                                self.metrics.stalls.add(u64::from(waits));
                            }
                            break reader.leave(port, now);
                        }
                        elsewhere => {
                            self.former.taken();
                            let mut reading = reader.pause();
                            self.answer_elsewhere(port, &reading, elsewhere, now);
                            reading.taken();
                            (reading, true)
                        }
                    }
                }
                part => {
                    let mut reading = reader.pause();
                    let goes_on = self.take_part(port, &mut reading, part, now);
                    (reading, goes_on)
                }
            };
            reader = match self.clients.go_on(reading) {
                Ok(reader) if goes_on => reader,
                Ok(reader) => break reader.leave(port, now),
                Err(left) => break left,
            };
        };
        self.clients.read_done(port, left);
        true
    }

    /// Has a whole request answered that is no lane.
    fn answer_elsewhere(
        &mut self,
        port: &mut dyn Port,
        reading: &Reading<'_>,
        taken: Taken,
        now: Time,
    ) {
        match taken {
            Taken::ByHost(..) | Taken::ByProxy(..) | Taken::Challenge => {
                let Owed {
                    slot, role, peer, ..
                } = reading.owed();
                let Some(host) = self.host_of(&taken, (role, peer), reading.request()) else {
                    return;
                };
                self.responder.add_id(&mut self.clients, slot);
                self.ask_host(port, now, false, |hosts, event| {
                    hosts.take(host, event, reading);
                    Some(reading.owed())
                });
            }
            Taken::BySite(site, answer) => {
                let (clients, epoch) = (&mut self.clients, &self.epochs.all()[site]);
                let asked = (reading.request(), reading.owed());
                (self.responder).answer_from_site(port, clients, epoch, asked, answer, now);
                self.open_files(port, now);
            }
            Taken::Misdirected => {
                let asked = (reading.request(), reading.owed());
                (self.responder).misdirected(port, &mut self.clients, asked, now);
            }
            Taken::Lane | Taken::Not(_) => unreachable!("it is elsewhere that it is answered"),
        }
    }

    /// Answers a request without the content that its client announced. Whether that comes all the
    /// same nobody knows, so it is the connection's last.
    fn answer_early(
        &mut self,
        port: &mut dyn Port,
        reading: &Reading<'_>,
        (answer, is_json): (Taken, bool),
        now: Time,
    ) {
        let Some(mut owed) = self.clients.accept_last(port, reading.connection()) else {
            return;
        };
        let head = reading.request().head;
        owed.shape.json = is_json;
        owed.shape.head_only = head.method() == Method::Head;
        owed.shape.accepts = head.accepts();
        let (clients, asked) = (&mut self.clients, (reading.request(), owed));
        if let Taken::BySite(site, answer) = answer {
            let epoch = &self.epochs.all()[site];
            (self.responder).answer_from_site(port, clients, epoch, asked, answer, now);
        } else {
            (self.responder).misdirected(port, clients, asked, now);
        }
    }

    /// Takes what there is of a request that is not whole. Whether there may be more behind it.
    fn take_part(
        &mut self,
        port: &mut dyn Port,
        reading: &mut Reading<'_>,
        part: Next,
        now: Time,
    ) -> bool {
        let id = reading.connection();
        match part {
            // The content is asked for only where it would be of use.
            Next::Expects => {
                let Some(came_by) = self.clients.came_by(id) else {
                    return false;
                };
                match (self.intake).early_answer(&self.epochs, came_by, reading.request()) {
                    Some(answer) => self.answer_early(port, reading, answer, now),
                    None => self.clients.send_continue(port, id, now),
                }
                false
            }
            // Pages take their content whole.
            Next::Head => {
                self.take_early(port, reading, now);
                true
            }
            Next::Piece => {
                self.host_event(port, now, |hosts, event| hosts.piece(event, reading));
                true
            }
            Next::Refuse { status, fault } => {
                let part = Some(reading.part());
                let epoch = self.epochs.of_part(part);
                let why = Why {
                    status,
                    fault,
                    came: reading.part().bytes,
                    too_much: (status == 413).then(|| TooMuch {
                        bytes: match reading.part().head.framing() {
                            Framing::Length(length) => Some(length),
                            Framing::None | Framing::Chunked => None,
                        },
                        most: self.epochs.limits().body_max,
                    }),
                };
                self.responder.keep_part(
                    epoch.map(|epoch| epoch.index),
                    part,
                    self.clients.came_by(id),
                );
                let site = epoch.map(|epoch| &*epoch.site);
                (self.responder).refuse(port, &mut self.clients, site, id, why, now);
                false
            }
            Next::Request | Next::Nothing => unreachable!("a part of a request is at hand"),
        }
    }
}
