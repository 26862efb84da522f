//! Sessions: those of a cohort are looked up together, and what waits for their store is held.

use super::Responder;
use crate::answer::held::{Parts, Ready};
use crate::answer::hosted::Hosted;
use crate::answer::response::say_not_kept;
use crate::answer::sessions::milliseconds;
use crate::answer::slow::Watched;
use crate::backend::Cause;
use crate::flight::cohorts::Flight;
use crate::flight::telling::{StoreAnswer, Telling};
use crate::shared_sessions;
use crate::trace::Span;
use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::program::{PageProgram, SessionLookup};
use rhythm_engine::session::{SessionId, StoredFields, StoredValue, TooMany};
use rhythm_http::{Answered, Body, Clients};
use rhythm_net::{Client, Port, Time};
use std::time::Duration;

impl Responder {
    /// Looks up all sessions of a cohort that is being launched, in one batch.
    pub(crate) fn look_up_sessions(
        &mut self,
        cohort: &mut Cohort,
        flight: &Flight,
        page: u32,
        now: Time,
    ) {
        let program = flight.epoch().program(page);
        let Some(fields) = program.session_fields else {
            return;
        };
        let ids = flight.requests.sessions();
        let site = flight.epoch().index;
        self.users.clear();
        self.users.resize(ids.len(), None);
        (self.sessions[site].array()).lookup_batch(ids, milliseconds(now), &mut self.users);
        if let Some(lookup) = fields.lookup {
            let sets = flight.epoch().page(page).sets_stored;
            let refresh = flight.epoch().site.service.config.session.store_refresh;
            self.ask_store(site, cohort, ids, lookup, (!sets).then_some(refresh), now);
        }
        for (lane, user) in self.users.iter().enumerate() {
            if let Some(user) = user {
                cohort.fields[usize::from(fields.present)].set_int(lane, 1);
                cohort.fields[usize::from(fields.user)].set_int(lane, *user);
            }
        }
        if !program.stored.is_empty() {
            let array = self.sessions[site].array();
            let stored = flight.epoch().site.stored(array.capacity());
            for (lane, id) in ids.iter().enumerate() {
                // Of one that began elsewhere the cookie does not name the slot that it has here.
                if let (Some(id), Some(_)) = (id, self.users[lane])
                    && let Some(here) = array.here(id)
                {
                    stored.read(&here, &mut self.words);
                    fill_in(cohort, lane, program, stored, &self.words);
                }
            }
        }
    }

    /// Has the lanes whose sessions are not known, or were not confirmed for `refresh`, ask the
    /// store of all machines for them. Without that all do: who changes what a session keeps has to
    /// know what it is.
    pub(super) fn ask_store(
        &mut self,
        site: usize,
        cohort: &mut Cohort,
        ids: &[Option<SessionId>],
        lookup: SessionLookup,
        refresh: Option<Duration>,
        now: Time,
    ) {
        let sessions = &self.sessions[site];
        let array = sessions.array();
        let now = milliseconds(now);
        let since = refresh.map(|refresh| {
            let refresh = u64::try_from(refresh.as_millis()).unwrap_or(u64::MAX);
            now.saturating_sub(refresh)
        });
        for (lane, id) in ids.iter().enumerate() {
            let Some(id) = id.as_ref().filter(|id| !id.is_of_nobody()) else {
                continue;
            };
            let is_known = |since| array.is_confirmed(id, since);
            if self.users[lane].is_some() && since.is_some_and(is_known) {
                continue;
            }
            self.users[lane] = None;
            let key = shared_sessions::key(sessions.sealer(), id);
            if !cohort.arena.reserve(key.len()) {
                cohort.fail(lane, LaneError::MemoryShort);
                continue;
            }
            let key = cohort.arena.push(&key);
            cohort.fields[usize::from(lookup.key)].set_text(lane, key);
            // Confirmed is what was there when it was asked.
            let asked = i64::try_from(array.asks(id, now)).unwrap_or(i64::MAX);
            let asked = asked.saturating_add(1);
            cohort.fields[usize::from(lookup.asks)].set_int(lane, asked);
        }
    }

    /// The store has answered for the lanes of a cohort: who they are, in its page's fields and in
    /// the array.
    pub(crate) fn take_sessions(
        &mut self,
        cohort: &mut Cohort,
        flight: &mut Flight,
        page: u32,
        now: Time,
    ) {
        let epoch = flight.epoch().clone();
        let program = epoch.program(page);
        let Some((fields, lookup)) =
            (program.session_fields).and_then(|fields| Some((fields, fields.lookup?)))
        else {
            return;
        };
        let sessions = &self.sessions[epoch.index];
        let array = sessions.array();
        let stored = epoch.site.stored(array.capacity());
        for lane in 0..cohort.len() {
            let int = |field: u16| cohort.fields[usize::from(field)].ints()[lane];
            let (asked, status) = (int(lookup.asks), int(lookup.status));
            let Some(id) = flight.requests.session(lane) else {
                continue;
            };
            if asked == 0 || cohort.lanes[lane] != LaneState::Active {
                continue;
            }
            let list = cohort.fields[usize::from(lookup.record)].list();
            let found = list.spans[lane];
            let user = match (status, found.length) {
                (0, 0) => {
                    array.destroy(id);
                    continue;
                }
                (0, 1) => {
                    let record = list.columns[0].texts()[found.start as usize];
                    let record = cohort.arena.get(record);
                    let (sealer, words) = (sessions.sealer(), &mut self.words);
                    shared_sessions::read(sealer, id, record, stored, words)
                }
                _ => None,
            };
            let Some(user) = user else {
                cohort.fail(lane, LaneError::BadAnswer);
                let why = Cause::Unfit("a session's record is none, or of another secret");
                flight.requests.keep_failure(lane, why.into());
                continue;
            };
            // What does not find room in the array is asked for again the next time.
            let here = array.adopt(id, user, milliseconds(now));
            if array.has_ended(id) {
                continue;
            }
            if let Some(here) = here {
                let asked = u64::try_from(asked - 1).unwrap_or_default();
                array.confirm(&here, asked);
                // What was set here since, or asked for later, is newer than this.
                let is_newer = || array.is_confirmed(&here, asked);
                stored.write_all(&here, &self.words, || array.has(&here) && !is_newer());
                if is_newer() {
                    stored.read(&here, &mut self.words);
                }
            }
            cohort.fields[usize::from(fields.present)].set_int(lane, 1);
            cohort.fields[usize::from(fields.user)].set_int(lane, user);
            fill_in(cohort, lane, program, stored, &self.words);
        }
    }

    /// What the store is to be told.
    pub(crate) fn tellings(&mut self) -> &mut Vec<Telling> {
        &mut self.held.tellings
    }

    /// The store has answered: gives the answer that was held for it.
    pub(crate) fn store_answered(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        answer: &StoreAnswer,
        now: Time,
    ) {
        let Some(held) = self.held.answered(answer) else {
            return;
        };
        let sessions = &self.sessions[held.of.site_index];
        match held.failure {
            None => sessions.kept(&held.to_keep, held.is_there, now),
            Some(_) => sessions.not_kept(&held.to_keep),
        }
        let Parts {
            slot,
            shape,
            ready,
            line,
            site,
            site_index,
            page,
            metrics,
            launched,
            came,
            mut watched,
            mut span,
        } = held.of;
        let date = &self.date;
        let wait = launched.since(came.arrived).as_nanos() as u64;
        metrics.queue_wait.record(wait, 1);
        self.sending.gives(slot, came.began);
        self.sending.served(&metrics, launched);
        let answered = match (held.failure, ready) {
            (None, Ready::Stream(stream)) => {
                metrics.answered(stream.status);
                self.sending.in_pieces();
                let is_counted = true;
                self.answered_held(watched.take(), span.take(), stream.status, now);
                return (self.hosted).stream(slot, stream, Hosted { line, is_counted });
            }
            (None, Ready::Whole(answered, bytes)) => {
                clients.answer(port, slot, shape, now, |now, out| {
                    give(&bytes, now.close && !shape.close, out);
                    Body::Empty
                });
                answered
            }
            (Some(failure), _) => {
                metrics.lane_errors[failure.error.index()].add(1);
                let status = failure.error.status();
                let mut answered = Answered::bare(status);
                clients.answer(port, slot, shape, now, |shape, out| {
                    answered = site.write_error(out, status, shape, date, "", |_| {});
                    Body::Empty
                });
                let said = &mut self.failures[site_index];
                say_not_kept(said, &site, (page, &metrics), failure, now);
                answered
            }
        };
        metrics.answered(answered.status);
        self.answered_held(watched, span, answered.status, now);
        if let (Some(log), Some(line)) = (&mut self.log, line) {
            let took = now.since(line.arrived);
            log.entry(line.entry(), answered, took, self.date.seconds());
        }
    }

    /// An answer that was held is given.
    pub(super) fn answered_held(
        &mut self,
        watched: Option<Watched>,
        span: Option<Span>,
        status: u16,
        now: Time,
    ) {
        if let (Some(spans), Some(mut span)) = (&mut self.spans, span) {
            span.to = span.to.max(now);
            span.status(status);
            spans.add(span);
        }
        if let (Some(slow), Some(mut watched)) = (&mut self.slow, watched) {
            watched.was_held(status, now);
            slow.answered(watched);
        }
    }

    /// Whether a client may try to sign in to a site.
    ///
    /// # Errors
    /// Too many tries from its address have failed.
    pub(crate) fn may_try(
        &mut self,
        site: usize,
        client: Client,
        now: Time,
    ) -> Result<(), TooMany> {
        self.sessions[site].may_try(client, now)
    }

    /// An id for a visitor of a site who has no session, and no cookie.
    pub(crate) fn visitor(&mut self, site: usize) -> SessionId {
        self.sessions[site].visitor()
    }
}

/// Writes an answer that was held, whose connection has come to end with it meanwhile, or not.
fn give(bytes: &[u8], closes: bool, out: &mut Vec<u8>) {
    let line = memchr::memmem::find(bytes, b"\r\n").filter(|_| closes);
    let (line, rest) = bytes.split_at(line.map_or(0, |end| end + 2));
    out.extend_from_slice(line);
    if closes {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(rest);
}

/// Fills in what a lane's page reads of what its session keeps, which lies in these words.
fn fill_in(
    cohort: &mut Cohort,
    lane: usize,
    program: &PageProgram,
    stored: &StoredFields,
    words: &[u64],
) {
    for of_page in &program.stored {
        let field = &mut cohort.fields[usize::from(of_page.field)];
        match stored.value(usize::from(of_page.stored), words) {
            StoredValue::Int(value) => field.set_int(lane, value),
            StoredValue::Text(start) => {
                // Of this alone nothing was known when its request was taken.
                if !cohort.arena.reserve(words[start] as usize) {
                    return cohort.fail(lane, LaneError::MemoryShort);
                }
                let text = (cohort.arena).push_with(|out| StoredFields::text(words, start, out));
                field.set_text(lane, text);
            }
        }
    }
}
