//! Intake: from bytes to lanes of cohorts, or to the host path.
//!
//! A connection's input is read request by request. What has to wait, be it for a context, for its
//! turn or for room, is put back and shown again.

use super::Pipeline;
use crate::flight::cohorts::NotOpen;
use crate::host::files::STREAM_BYTES_EXPECTED;
use crate::host::site_answer::Source;
use crate::intake::dispatch::{SiteAnswer, Way, dispatch, early_refusal};
use crate::intake::parser::session_text;
use crate::site::routes::PatternId;
use rhythm_http::{Expected, Incoming, Next, Owed, Reading, Stall};
use rhythm_net::{Port, Time};
use rhythm_protocol::http::conditional::Conditions;

impl Pipeline {
    /// Takes all requests that a connection's input has.
    pub(super) fn read(&mut self, port: &mut dyn Port, mut reading: Reading<'_>, now: Time) {
        let id = reading.connection();
        loop {
            let site = &*self.epoch.site;
            match self
                .clients
                .next(port, &mut reading, &site.request_limits, now)
            {
                Next::Request => match self.take(port, &reading, now) {
                    Ok(()) => reading.taken(),
                    // It is shown again later.
                    Err(stall) => {
                        let first = (self.clients).put_back(port, &mut reading, stall, now);
                        if first && stall == Stall::Context {
                            self.former.wait(id);
                            self.metrics.stalls.add(1);
                        }
                        break;
                    }
                },
                // The content is asked for only where it would be of use.
                Next::Expects => {
                    let Incoming { head, bytes, .. } = reading.request();
                    let found = self.parser.route(site, head, bytes);
                    match early_refusal(site, found, head, bytes) {
                        Some(status) => {
                            (self.responder).refuse(port, &mut self.clients, id, status, now)
                        }
                        None => self.clients.send_continue(port, id, now),
                    }
                    break;
                }
                // Pages take their content whole.
                Next::Head => self.take_early(port, &mut reading, now),
                Next::Piece => {
                    self.host_event(port, now, |hosts, event| hosts.piece(event, &mut reading));
                }
                Next::Refuse(status) => {
                    (self.responder).refuse(port, &mut self.clients, id, status, now);
                    break;
                }
                Next::Nothing => break,
            }
        }
        self.clients.read_done(port, reading, now);
    }

    /// Takes a request: to a cohort of its page, or on the host path.
    ///
    /// # Errors
    /// What it has to wait for.
    fn take(&mut self, port: &mut dyn Port, reading: &Reading<'_>, now: Time) -> Result<(), Stall> {
        let request = reading.request();
        let Incoming { head, bytes, .. } = request;
        let site = &*self.epoch.site;
        let found = self.parser.route(site, head, bytes);
        let answer = match dispatch(site, found, head, bytes) {
            Way::Lane(page, pattern) => match self.take_lane(reading, page, pattern, now)? {
                Ok(()) => return Ok(()),
                Err(answer) => answer,
            },
            Way::Host(route) => match self.epoch.hosts[route as usize] {
                Some(host) => {
                    self.responder.keep_line(request);
                    self.ask_host(port, now, |hosts, event| {
                        hosts.take(host, event, reading);
                        Some(reading.owed())
                    });
                    return Ok(());
                }
                None => SiteAnswer::Error(404),
            },
            Way::Site(answer) => answer,
        };
        let site = &self.epoch.site;
        match answer.source(site) {
            Source::Stream => {
                let expected = Expected::bytes(STREAM_BYTES_EXPECTED);
                self.clients.admit(reading, expected)?;
            }
            Source::Memory(bytes) => self.clients.may_take(reading, bytes)?,
        }
        (self.responder).answer_from_site(port, &mut self.clients, site, reading, answer, now);
        self.open_files(port, now);
        Ok(())
    }

    /// Adds a request to the cohort of its page as a lane, or tells what refuses it.
    ///
    /// # Errors
    /// What it has to wait for.
    fn take_lane(
        &mut self,
        reading: &Reading<'_>,
        page: u32,
        pattern: Option<PatternId>,
        now: Time,
    ) -> Result<Result<(), SiteAnswer>, Stall> {
        let request = reading.request();
        let Incoming {
            head,
            bytes,
            content,
        } = request;
        let (epoch, cohorts) = (&self.epoch, &mut self.cohorts);
        let (expected, key) = self.responder.lengths.expected(
            (epoch.number, page),
            epoch.sizes(page).expected(),
            request,
            || match epoch.page(page).is_private {
                true => session_text(&epoch.site, head, bytes),
                false => None,
            },
        );
        self.clients.admit(reading, expected)?;
        // Up to the last field: other requests may follow in the bytes.
        let fields = head
            .headers()
            .last()
            .map_or(head.target(), |last| last.value);
        let info = epoch.page(page);
        if info.begins_session
            && let Err(too_many) = self.responder.may_try(reading.owed().peer.ip(), now)
        {
            return Ok(Err(SiteAnswer::TooMany(too_many)));
        }
        let room = info.copies_max * (fields.range().end + content.len()) + info.default_bytes;
        let context = match cohorts.open(epoch, page, room, now) {
            Ok(context) => context,
            Err(NotOpen::NoContext) => return Err(Stall::Context),
            Err(NotOpen::TooLarge) => return Ok(Err(SiteAnswer::Error(413))),
        };
        let (cohort, flight) = cohorts.pair_mut(context);
        if cohort.is_empty() {
            flight.deserted = self.clients.deserted();
        }
        let lane = (self.parser).lane(&epoch.site, page, pattern, request, cohort);
        let session = match lane {
            Ok(session) => session,
            Err(bad) => {
                cohorts.take_back_lane(context);
                return Ok(Err(SiteAnswer::BadParameter(bad)));
            }
        };
        let Owed { slot, shape, peer } = reading.owed();
        let client = self.clients_by.number(peer.ip(), slot.connection);
        (flight.requests).push(slot, shape, now, session, client, key);
        if self.responder.logs() {
            flight.requests.keep_line(peer.ip(), head, bytes);
        }
        if epoch.page(page).has_files {
            (flight.requests).keep_conditions(&Conditions::of(head, bytes));
        }
        epoch.metrics(page).requests.add(1);
        cohorts.filled(context);
        Ok(Ok(()))
    }
}
