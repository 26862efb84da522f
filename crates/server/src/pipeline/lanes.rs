//! Requests into lanes: dispatched, admitted, parsed into the cohort of their page.
//!
//! In: a whole request, at hand in its connection's [`Reader`]. Out: a lane of a cohort that forms,
//! or what becomes of the request instead. Nothing is written to any connection here.

use crate::answer::responder::Responder;
use crate::flash;
use crate::flight::asker::ClientsBy;
use crate::flight::cohorts::{CohortKey, Cohorts, NotOpen};
use crate::flight::heavy::Heavy;
use crate::flight::lane_requests::LaneRequests;
use crate::host::challenges;
use crate::host::files::STREAM_BYTES_EXPECTED;
use crate::host::site_answer::Source;
use crate::intake::csrf::Tokens;
use crate::intake::dispatch::{SiteAnswer, Way, dispatch};
use crate::intake::https;
use crate::intake::parser::{Parser, cookie_of};
use crate::seal::Sealer;
use crate::site::epoch::Epoch;
use crate::site::epochs::Epochs;
use crate::site::lengths::RequestKey;
use crate::site::routes::{Found, PatternId, Target};
use crate::trace::states;
use rhythm_engine::settings::AccessLogFormat;
use rhythm_http::{Expected, HostId, Incoming, Owed, Reader, Stall};
use rhythm_net::{Client, Role, Time};
use rhythm_protocol::http::conditional::Conditions;
use rhythm_protocol::http::local_path::is_local;
use rhythm_protocol::http::request::{Method, RequestHead};
use std::sync::Arc;

/// See the module's text.
pub(super) struct Intake {
    parser: Parser,
    /// Those of each site.
    tokens: Vec<Tokens>,
    /// What is made of a request: a message, read from its cookie, or what it asks for.
    made: Vec<u8>,
    /// What tells clients apart.
    clients_by: ClientsBy,
    /// There is a host for [`Taken::Challenge`].
    has_challenges: bool,
}

/// What requests become lanes of, and what decides whether they may.
pub(super) struct Lanes<'a> {
    pub(super) epochs: &'a Epochs,
    pub(super) cohorts: &'a mut Cohorts,
    pub(super) responder: &'a mut Responder,
    /// The pages that take long.
    pub(super) heavy: &'a Heavy,
    /// The request at hand is for one that is heavy.
    pub(super) is_heavy: bool,
    /// The request at hand has waited for memory long enough.
    pub(super) gives_up: bool,
}

impl Lanes<'_> {
    /// How long a page's answer to a request may be, if anything is known of that, and by what it
    /// is found again.
    #[inline]
    fn expected(
        &self,
        epoch: &Epoch,
        page: u32,
        request: Incoming<'_>,
    ) -> (Option<Expected>, RequestKey) {
        let of_page = epoch.sizes(page).expected();
        (self.responder.lengths).expected((epoch.number, page), of_page, request)
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Taken {
    /// It is a lane of its page's cohort.
    Lane,
    /// A host is to answer it, for the site of this index.
    ByHost(usize, HostId),
    /// Another server is, by the route of this index of the site of this index.
    ByProxy(usize, u32),
    /// What proves to an authority whose names are this server's does, whatever site it is for.
    Challenge,
    /// This answers it, as the site of this index does.
    BySite(usize, SiteAnswer),
    /// It is for a host that is no site's.
    Misdirected,
    /// It has to wait, and is to be put back.
    Not(Stall),
}

/// Where a request goes.
enum Goes<'e> {
    /// As [`Taken::Challenge`].
    Challenge,
    /// As [`Taken::Misdirected`].
    Misdirected,
    /// This way of the site of this epoch, and whether errors are told as JSON.
    To(&'e Arc<Epoch>, Way, bool),
}

impl Intake {
    /// One for sites with these seals. Tokens are numbered from behind `first_token` on.
    pub(super) fn new(
        clients_by: ClientsBy,
        sealers: impl Iterator<Item = Sealer>,
        first_token: u32,
        has_challenges: bool,
    ) -> Intake {
        Intake {
            parser: Parser::default(),
            tokens: sealers
                .map(|sealer| Tokens::new(sealer, first_token))
                .collect(),
            made: Vec::new(),
            clients_by,
            has_challenges,
        }
    }

    /// Whether a request is what proves to an authority whose names are this server's. It is asked
    /// first of all, whatever else has the path, and however the request's content comes.
    #[inline]
    fn is_challenge(&self, role: Role, request: Incoming<'_>) -> bool {
        self.has_challenges
            && (request.head.path(request.bytes)).starts_with(challenges::PATH.as_bytes())
            && !https::is_tls(role)
    }

    /// Where a request that came in so goes, by its head: whatever its content is, and whether that
    /// has come or not.
    #[inline]
    fn goes<'e>(
        &mut self,
        epochs: &'e Epochs,
        came_by: (Role, Client),
        request: Incoming<'_>,
    ) -> Goes<'e> {
        if self.is_challenge(came_by.0, request) {
            return Goes::Challenge;
        }
        let Incoming { head, bytes, .. } = request;
        let Some(epoch) = epochs.of(request) else {
            return Goes::Misdirected;
        };
        let found = self.parser.route(&epoch.site, head, bytes);
        let is_json = match found {
            Found::Target(Target::Page(page), _) => epoch.page(page).is_json,
            _ => false,
        };
        let way = dispatch(&epoch.site, found, came_by, head, bytes);
        Goes::To(epoch, way, is_json)
    }

    /// What answers a request whose content its client has only announced, if that is of no use,
    /// and whether errors are told it as JSON.
    pub(super) fn early_answer(
        &mut self,
        epochs: &Epochs,
        came_by: (Role, Client),
        request: Incoming<'_>,
    ) -> Option<(Taken, bool)> {
        match self.goes(epochs, came_by, request) {
            Goes::Misdirected => Some((Taken::Misdirected, false)),
            Goes::To(epoch, Way::Site(answer), is_json) if answer.is_refusal() => {
                Some((Taken::BySite(epoch.index, answer), is_json))
            }
            Goes::Challenge | Goes::To(..) => None,
        }
    }

    /// The host, or the route to another server, that is to answer a request, if one is, and for
    /// which site.
    pub(super) fn host(
        &mut self,
        epochs: &Epochs,
        came_by: (Role, Client),
        request: Incoming<'_>,
    ) -> Option<Taken> {
        match self.goes(epochs, came_by, request) {
            Goes::Challenge => Some(Taken::Challenge),
            Goes::To(epoch, Way::Proxy(route), _) => Some(Taken::ByProxy(epoch.index, route)),
            Goes::To(epoch, Way::Host(route), _) => {
                Some(Taken::ByHost(epoch.index, epoch.hosts[route as usize]))
            }
            Goes::Misdirected | Goes::To(..) => None,
        }
    }

    /// Takes the request at hand: to a cohort of its page, or out of here.
    #[inline]
    pub(super) fn take(
        &mut self,
        reader: &mut Reader<'_, '_>,
        lanes: &mut Lanes<'_>,
        now: Time,
    ) -> Taken {
        let Owed { role, peer, .. } = reader.reading.owed();
        let request = reader.reading.request();
        let (epoch, way) = match self.goes(lanes.epochs, (role, peer), request) {
            Goes::Challenge => return Taken::Challenge,
            Goes::Misdirected => {
                return match reader.may_take(0) {
                    Ok(()) => Taken::Misdirected,
                    Err(stall) => Taken::Not(stall),
                };
            }
            Goes::To(epoch, way, is_json) => {
                if is_json {
                    reader.reading.tell_errors_as_json();
                }
                (epoch, way)
            }
        };
        let request = reader.reading.request();
        let taken = match way {
            Way::Lane(page, pattern) => {
                match self.tokens[epoch.index].check(&epoch.site, page, request) {
                    Ok(()) => self.take_lane(reader, lanes, epoch, (page, pattern), now),
                    Err(why) => Taken::BySite(epoch.index, SiteAnswer::NoToken(why)),
                }
            }
            Way::Host(route) => Taken::ByHost(epoch.index, epoch.hosts[route as usize]),
            Way::Proxy(route) => Taken::ByProxy(epoch.index, route),
            Way::Site(answer) => Taken::BySite(epoch.index, answer),
        };
        let Taken::BySite(_, answer) = &taken else {
            return taken;
        };
        let accepts = reader.reading.request().head.accepts();
        let admitted = match answer.source(&epoch.site, accepts) {
            Source::Stream => reader.admit(Some(Expected::bytes(STREAM_BYTES_EXPECTED))),
            Source::Memory(bytes) => reader.may_take(bytes),
        };
        match admitted {
            Ok(()) => taken,
            Err(stall) => Taken::Not(stall),
        }
    }

    /// Adds a request to the cohort of its page as a lane, or tells what refuses it.
    fn take_lane(
        &mut self,
        reader: &mut Reader<'_, '_>,
        lanes: &mut Lanes<'_>,
        epoch: &Arc<Epoch>,
        (page, pattern): (u32, Option<PatternId>),
        now: Time,
    ) -> Taken {
        let (expected, key) = lanes.expected(epoch, page, reader.reading.request());
        if let Err(stall) = reader.admit(expected) {
            return Taken::Not(stall);
        }
        let Lanes {
            cohorts,
            responder,
            heavy,
            is_heavy,
            gives_up,
            ..
        } = lanes;
        let (site, by_site) = (epoch.index, |answer| Taken::BySite(epoch.index, answer));
        let info = epoch.page(page);
        let request = reader.reading.request();
        let Incoming {
            head,
            bytes,
            content,
        } = request;
        // Up to the last field: other requests may follow in the bytes.
        let fields = head
            .headers()
            .last()
            .map_or(head.target(), |last| last.value);
        let Owed {
            slot,
            shape,
            peer,
            role,
            began,
        } = reader.reading.owed();
        if info.is_sign_in
            && let Err(too_many) = responder.may_try(site, peer, now)
        {
            return by_site(SiteAnswer::TooMany(too_many));
        }
        let head_bytes = fields.range().end;
        let texts = info.copies_max * (head_bytes + content.len()) + info.default_bytes;
        let kept = match info.falls_through {
            true => head_bytes + LaneRequests::whole_bytes(head_bytes, content),
            false => head_bytes,
        };
        // The log's line and conditions are different parts of it.
        *is_heavy = heavy.has(CohortKey::first(epoch.number, page));
        let context = match cohorts.open(epoch, page, texts, kept, *is_heavy, now) {
            Ok(context) => context,
            Err(NotOpen::NoContext) => return Taken::Not(Stall::Context),
            Err(NotOpen::NoMemory) => {
                return match gives_up {
                    true => by_site(SiteAnswer::Error(503)),
                    false => Taken::Not(Stall::Memory),
                };
            }
            Err(NotOpen::TooLarge) => return by_site(SiteAnswer::Error(413)),
        };
        let (cohort, flight) = cohorts.pair_mut(context);
        if cohort.is_empty() {
            flight.deserted = reader.deserted();
        }
        let lane = (self.parser).lane(&epoch.site, page, pattern, request, cohort);
        let mut session = match lane {
            Ok(session) => session,
            Err(bad) => {
                cohorts.take_back_lane(context);
                return by_site(SiteAnswer::BadParameter(bad));
            }
        };
        let program = epoch.program(page);
        let is_new_visitor = session.is_none() && info.names_visitor;
        let last = cohort.len() - 1;
        if is_new_visitor {
            session = Some(responder.visitor(site));
        }
        if let (Some(field), Some(id)) = (program.csrf.token, &session) {
            let token = cohort.arena.push(&self.tokens[site].next(id));
            cohort.fields[usize::from(field)].set_text(last, token);
        }
        if let Some(field) = program.here {
            self.made.clear();
            asked_for(head, bytes, &mut self.made);
            let here = cohort.arena.push(&self.made);
            cohort.fields[usize::from(field)].set_text(last, here);
        }
        if let Some(field) = program.now {
            let seconds = i64::try_from(responder.date().seconds()).unwrap_or(i64::MAX);
            cohort.fields[usize::from(field)].set_int(last, seconds);
        }
        for field in &program.drawn {
            let drawn = (responder.random() as u64 >> 1) as i64;
            cohort.fields[usize::from(*field)].set_int(last, drawn);
        }
        let flash = (program.flash).and_then(|field| {
            let value = cookie_of(head, bytes, &epoch.site.flash_cookie)?;
            Some((field, value))
        });
        if let (Some((field, value)), Some(id)) = (flash, &session) {
            self.made.clear();
            if flash::read(self.tokens[site].sealer(), id, value, &mut self.made) {
                let message = cohort.arena.push(&self.made);
                cohort.fields[usize::from(field)].set_text(last, message);
            }
        }
        let client = self.clients_by.number(peer, slot.connection);
        (flight.requests).push(slot, shape, now, session, client, key);
        flight.requests.began(began);
        if is_new_visitor {
            flight.requests.is_of_new_visitor();
        }
        if flash.is_some() {
            flight.requests.took_flash();
        }
        let mut is_recorded = false;
        if let Some(origin) = responder.origin((peer, https::is_tls(role)), head, bytes) {
            is_recorded = origin.recorded().is_some();
            // Of most nobody asks again.
            if is_recorded || origin.id.is_some() || epoch.tells_others(page) {
                flight.requests.keep_origin(origin, states(head, bytes));
            }
            self.made.clear();
            responder.tell_id(&origin, &mut self.made);
        }
        let format = responder.log_format();
        if let Some(format) = format.or(is_recorded.then_some(AccessLogFormat::Common)) {
            let is_http2 = https::is_http2(role);
            (flight.requests).keep_line(peer, (format, is_http2), head, bytes);
        }
        // To others they would be about what the request is to do, which is done by then.
        if info.has_files && matches!(head.method(), Method::Get | Method::Head) {
            (flight.requests).keep_conditions(&Conditions::of(head, bytes));
        }
        if info.falls_through {
            flight.requests.keep_whole(head, bytes, content);
        }
        epoch.metrics(page).requests.add(1);
        cohorts.filled(context);
        if responder.tells_ids() {
            reader.add_lines(&self.made);
        }
        Taken::Lane
    }
}

/// What is longer is not sent along: a parameter would take no more (its default), and encoded it
/// would be no target any more.
const ASKED_FOR_MAX: usize = 1024;

/// Appends where a browser can be sent to ask for the same again: the path and query of what is
/// read, `/` else.
fn asked_for(head: &RequestHead, bytes: &[u8], to: &mut Vec<u8>) {
    if matches!(head.method(), Method::Get | Method::Head) {
        to.extend_from_slice(head.path(bytes));
        let query = head.query().of(bytes);
        if !query.is_empty() {
            to.push(b'?');
            to.extend_from_slice(query);
        }
    }
    let fits = to.len() <= ASKED_FOR_MAX;
    if !fits || !std::str::from_utf8(to).is_ok_and(is_local) {
        to.clear();
        to.push(b'/');
    }
}
