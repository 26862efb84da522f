//! A request's way: asked, sent, answered, over.

use super::exchange::{Asked, Exchange, Phase};
use super::fields::{passed_on, values};
use super::request::{self, Ends, Told};
use super::told::{Cause, Shortfall, Where};
use super::{Aim, Proxies};
use crate::answer_reader::Part;
use crate::flight::asker::ClientsBy;
use crate::site::Site;
use crate::trace::ID;
use rhythm_engine::settings::HostSent;
use rhythm_http::{AnswerShape, AnswerSlot, Answers, Content, Flow, Request};
use rhythm_net::{ConnectionId, Flushed, Time};
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::{Framing, Method};
use rhythm_protocol::http::response::HeaderName;

const CONNECTION: HeaderName<'static> = HeaderName::new("Connection").expect("a token");
const UPGRADE: HeaderName<'static> = HeaderName::new("Upgrade").expect("a token");

impl Proxies {
    /// A request came, for what was aimed at.
    pub(super) fn ask(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request {
            slot,
            shape,
            peer,
            head,
            bytes,
            content,
        } = request;
        let Some(Aim {
            route: number,
            is_tls,
            origin,
            tells_id,
        }) = self.aim.take()
        else {
            return answers.error(slot, shape, 404, "");
        };
        let Some(route) = self.routes.get_mut(&number) else {
            self.short.insert(slot, Shortfall::NotAsked);
            return answers.error(slot, shape, 503, "");
        };
        let site = &*self.sites[route.site];
        if head.host().of(bytes).len() > request::HOST_BYTES_MAX {
            self.short.insert(slot, Shortfall::NotAsked);
            return answer_error(answers, (slot, shape), site, 400);
        }
        let settings = route.settings();
        let most = settings
            .content_bytes_max
            .map_or(u64::MAX, |most| most.get().into());
        let (ends, come) = match (content, head.framing()) {
            (Content::Whole([]), _) => (Ends::Nowhere, &[][..]),
            (Content::Whole(content), _) => (Ends::Length(content.len() as u64), content),
            (Content::Pieces, Framing::Length(length)) => (Ends::Length(length), &[][..]),
            (Content::Pieces, Framing::Chunked) => (Ends::Chunked, &[][..]),
            (Content::Pieces, Framing::None) => (Ends::Upgrade, &[][..]),
        };
        if let Ends::Length(length) = ends
            && length > most
        {
            let at = (site.label(), route.made_of.config.name());
            (self.failures).too_large(number, at, (Some(length), most), answers.now());
            self.short.insert(slot, Shortfall::NotAsked);
            return answer_error(answers, (slot, shape), site, 413);
        }
        let method = head.method();
        // An application that does not know that such a method has content might take this for its
        // next request.
        let is_unusual = method == Method::Other && !matches!(ends, Ends::Nowhere | Ends::Upgrade);
        let is_last = settings.keep_alive.is_zero() || is_unusual;
        let told = Told {
            client: peer,
            is_tls,
            origin: &origin,
            is_trusted: route.trusted.has(peer.address()),
            authority: route.authority(),
            ends,
            is_last,
        };
        // All who come by a trusted proxy have its address.
        let by = match told.is_trusted {
            true => ClientsBy::Connection,
            false => self.clients_by,
        };
        let mut out = Vec::with_capacity(request::bytes_max(head) + come.len());
        request::write(head, bytes, &told, &mut out);
        out.extend_from_slice(come);
        let asked = Asked {
            slot,
            shape,
            key: route.key(peer, head, bytes),
            asker: by.number(peer, slot.connection),
            route: number,
            bytes: out,
            ends,
            is_whole: content_is_whole(content),
            is_last,
            tells_id,
            is_repeatable: ends == Ends::Nowhere
                && matches!(method, Method::Get | Method::Head | Method::Options),
        };
        route.under_way += 1;
        self.exchanges
            .insert(slot, Exchange::new(asked, answers.now()));
        self.assign(answers, slot);
    }

    /// A connection is open for a request.
    pub(super) fn established(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        exchange.phase = Phase::Asked;
        // Where it is to be sent again, it waits anew.
        (exchange.waits_until, exchange.refused, exchange.refused_at) = (None, None, None);
        if let Some(route) = self.routes.get_mut(&exchange.route) {
            let upstream = &route.upstreams[exchange.upstream];
            upstream.metrics.requests.add(1);
            let tells_own = route.settings().host == HostSent::Upstream;
            exchange.owe(tells_own.then_some(&*upstream.authority));
        }
        self.send(answers, slot, false);
    }

    /// Sends what a server takes of what it is owed.
    pub(super) fn send(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, has_room: bool) {
        let now = answers.now();
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        let Some(id) = exchange.connection else {
            return;
        };
        let flushed = match has_room {
            true => exchange.owed.writable(answers.port(), id),
            false => exchange.owed.flush(answers.port(), id),
        };
        match flushed {
            Flushed::Gone => {
                self.forget_link(id);
                return self.lost(answers, slot, Cause::Lost(None));
            }
            // What a client says ahead in another protocol waits until that is agreed on.
            Flushed::All
                if exchange.client_waits
                    && (exchange.ends != Ends::Upgrade || exchange.phase == Phase::Tunnel) =>
            {
                exchange.client_waits = false;
                answers.resume(slot);
            }
            Flushed::All | Flushed::Some => {}
        }
        let is_open = !matches!(exchange.phase, Phase::Waiting | Phase::Connecting);
        if is_open && exchange.beside > 0 && exchange.owed.is_empty() {
            answers.keeps_less(slot, std::mem::take(&mut exchange.beside));
        }
        match exchange.phase {
            Phase::Asked => {}
            Phase::Answering | Phase::Tunnel => return self.note_piece(answers, slot),
            Phase::Waiting | Phase::Connecting => return,
        }
        let Some(route) = self.routes.get(&exchange.route) else {
            return;
        };
        let until = match exchange.owed.is_empty() {
            false => now + route.settings().piece_timeout,
            true if exchange.is_the_clients_turn() => Time::NEVER,
            true => now + route.settings().answer_timeout,
        };
        exchange.wait_until(until, &mut self.timers);
    }

    /// A piece of a request's content came. Whether its client waits is said by the exchange.
    pub(super) fn content(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        piece: &[u8],
        is_last: bool,
    ) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        if exchange.ends == Ends::Upgrade && exchange.phase != Phase::Tunnel {
            // To the server it would be a request, if that does not speak the other protocol; one
            // that answers does not.
            if exchange.phase != Phase::Answering {
                exchange.take(piece, is_last);
            }
            exchange.client_waits = true;
            return;
        }
        let most = (self.routes.get(&exchange.route))
            .and_then(|route| route.settings().content_bytes_max)
            .map_or(u64::MAX, |most| most.get().into());
        exchange.take(piece, is_last);
        if exchange.content > most && exchange.phase != Phase::Tunnel {
            if let Some(route) = self.routes.get(&exchange.route) {
                let at = (route.service.as_deref(), route.made_of.config.name());
                (self.failures).too_large(exchange.route, at, (None, most), answers.now());
            }
            return self.refuse(answers, slot, 413, "content_too_large");
        }
        if matches!(exchange.phase, Phase::Waiting | Phase::Connecting) {
            exchange.client_waits = true;
            return;
        }
        self.send(answers, slot, false);
        if let Some(exchange) = self.exchanges.get_mut(&slot) {
            exchange.client_waits = !exchange.owed.is_empty();
        }
    }

    /// Bytes of an answer came.
    pub(super) fn take(
        &mut self,
        answers: &mut Answers<'_>,
        id: ConnectionId,
        slot: AnswerSlot,
        mut rest: &[u8],
    ) {
        let mut decoded = std::mem::take(&mut self.decoded);
        while let Some(exchange) = self.exchanges.get_mut(&slot) {
            let Ok((used, part)) = exchange.reader.next(rest, &mut decoded) else {
                self.drop_link(answers, id);
                self.fail(answers, slot, Cause::Unreadable);
                break;
            };
            rest = &rest[used..];
            match part {
                Part::Nothing => {
                    self.note_piece(answers, slot);
                    break;
                }
                Part::Head => self.begin(answers, slot),
                Part::Switch => self.switch(answers, slot),
                Part::Piece([]) => {}
                Part::Piece(piece) => match answers.append(slot, piece) {
                    Flow::More => {}
                    Flow::Wait => {
                        if !exchange.server_waits {
                            exchange.server_waits = true;
                            answers.port().pause(id);
                        }
                    }
                    Flow::Gone => {
                        self.drop_link(answers, id);
                        self.over(slot);
                        break;
                    }
                },
                Part::End => {
                    self.finish(answers, slot, rest.is_empty());
                    break;
                }
            }
        }
        // A buffer that was large once is not kept so.
        decoded.clear();
        decoded.shrink_to(1 << 16);
        self.decoded = decoded;
    }

    /// Something came of an answer, or was sent of a content that goes on behind its beginning,
    /// which gives the server time for more; or something passed either way of another protocol.
    fn note_piece(&mut self, answers: &Answers<'_>, slot: AnswerSlot) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        let Some(route) = self.routes.get(&exchange.route) else {
            return;
        };
        let (now, settings) = (answers.now(), route.settings());
        let until = match exchange.phase {
            Phase::Waiting | Phase::Connecting | Phase::Asked => return,
            Phase::Tunnel if !exchange.owed.is_empty() => now + settings.piece_timeout,
            _ if exchange.server_waits || exchange.is_the_clients_turn() => Time::NEVER,
            Phase::Tunnel => now + settings.tunnel_timeout,
            Phase::Answering => now + settings.piece_timeout,
        };
        exchange.wait_until(until, &mut self.timers);
    }

    /// The client has room for more of an answer.
    pub(super) fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        if let Some(id) = exchange.connection
            && std::mem::take(&mut exchange.server_waits)
        {
            answers.port().resume(id);
        }
        self.note_piece(answers, slot);
    }

    /// The head of an answer is there.
    fn begin(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        exchange.begins(Phase::Answering);
        let length = exchange.reader.length();
        let (head, bytes) = exchange.reader.head();
        let status = head.status();
        let tells_id = exchange.tells_id;
        answers.begin(slot, exchange.shape, status, length, |out| {
            for (name, value) in passed_on(head.headers(), bytes) {
                let is = |known: &str| name.as_str().eq_ignore_ascii_case(known);
                let is_told_here = is(Known::Date.name()) || tells_id && is(ID);
                if !is_told_here {
                    out.header(name, value);
                }
            }
        });
        exchange.reader.forget_head();
    }

    /// The server speaks the other protocol from now on.
    fn switch(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        exchange.begins(Phase::Tunnel);
        let (head, bytes) = exchange.reader.head();
        let tells_id = exchange.tells_id;
        answers.switch(slot, exchange.shape, |out| {
            for (name, value) in passed_on(head.headers(), bytes) {
                if !(tells_id && name.as_str().eq_ignore_ascii_case(ID)) {
                    out.header(name, value);
                }
            }
            out.header(CONNECTION, b"upgrade");
            for protocol in values(head.headers(), bytes, "upgrade") {
                out.header(UPGRADE, protocol);
            }
        });
        exchange.reader.forget_head();
        // Now it is for the server.
        let early = std::mem::take(&mut exchange.early);
        exchange.owed.push_own(early);
        self.send(answers, slot, false);
    }

    /// An answer is whole; `is_clean`: nothing came behind it.
    pub(super) fn finish(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, is_clean: bool) {
        answers.finish(slot);
        let now = answers.now();
        let Some(exchange) = self.over(slot) else {
            return;
        };
        if let Some(route) = self.routes.get(&exchange.route) {
            let took = now.since(exchange.began).as_nanos() as u64;
            route.upstreams[exchange.upstream]
                .metrics
                .latency
                .record(took, 1);
        }
        if let Some(id) = exchange.connection {
            if exchange.server_waits {
                answers.port().resume(id);
            }
            let is_sent = exchange.has_content && exchange.owed.is_empty();
            self.give_back(
                answers,
                id,
                is_clean && is_sent && !exchange.is_last && exchange.reader.keeps_alive(),
            );
        }
    }

    /// The connection of a request ended before its answer did.
    pub(super) fn lost(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, cause: Cause) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        exchange.connection = None;
        let Some(route) = self.routes.get_mut(&exchange.route) else {
            return;
        };
        if !exchange.is_reused {
            // It may be why the server died, and is not sent there again.
            exchange.tried |= 1 << exchange.upstream;
        }
        let is_one_left = (exchange.tried.count_ones() as usize) < route.upstreams.len();
        if !is_one_left || !exchange.may_be_sent_again(route.settings().retries_max) {
            return self.fail(answers, slot, cause);
        }
        let upstream = &mut route.upstreams[exchange.upstream];
        if std::mem::take(&mut exchange.is_on) {
            upstream.left(exchange.holder);
        }
        upstream.metrics.retries.add(1);
        exchange.retries += 1;
        exchange.phase = Phase::Waiting;
        self.assign(answers, slot);
    }

    /// A request has failed: it is answered so, or cut off within its answer.
    pub(super) fn fail(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, cause: Cause) {
        let now = answers.now();
        if let Some(exchange) = self.exchanges.get(&slot)
            && let Some(route) = self.routes.get(&exchange.route)
        {
            let upstream = &route.upstreams[exchange.upstream];
            upstream.metrics.failures.add(1);
            let place = upstream.place();
            let at = Where {
                service: route.service.as_deref(),
                route: route.made_of.config.name(),
                server: &upstream.name,
                place: &place,
            };
            self.failures.failed(exchange.route, at, cause, now);
        }
        self.refuse(answers, slot, cause.status(), cause.name());
    }

    /// Answers a request with an error, or cuts its answer off if that has begun; and why, in a
    /// word.
    fn refuse(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        status: u16,
        why: &'static str,
    ) {
        let Some(exchange) = self.over(slot) else {
            return;
        };
        if let Some(id) = exchange.connection {
            self.drop_link(answers, id);
        }
        if matches!(exchange.phase, Phase::Answering | Phase::Tunnel) {
            self.short.insert(slot, Shortfall::CutOff(why));
            return answers.abandon(slot);
        }
        self.short.insert(slot, Shortfall::Failed(why));
        if let Some(route) = self.routes.get(&exchange.route) {
            let site = &self.sites[route.site];
            answer_error(answers, (slot, exchange.shape), site, status);
        }
    }

    /// A request is not under way any more.
    pub(super) fn over(&mut self, slot: AnswerSlot) -> Option<Exchange> {
        let mut exchange = self.exchanges.remove(&slot)?;
        exchange.over(&mut self.timers);
        let route = self.routes.get_mut(&exchange.route)?;
        route.under_way -= 1;
        if exchange.phase == Phase::Waiting {
            route.waits_no_more(slot, exchange.holder, exchange.upstream);
        }
        if std::mem::take(&mut exchange.is_on) {
            route.upstreams[exchange.upstream].left(exchange.holder);
        }
        self.freed.push(exchange.route);
        Some(exchange)
    }

    /// Drops a connection.
    pub(super) fn drop_link(&mut self, answers: &mut Answers<'_>, id: ConnectionId) {
        answers.port().abort(id);
        self.forget_link(id);
    }
}

/// Answers a request with an error, as the site that it is for shows it now.
fn answer_error(
    answers: &mut Answers<'_>,
    (slot, shape): (AnswerSlot, AnswerShape),
    site: &Site,
    status: u16,
) {
    let page = site.error_page(status);
    answers.error_page(slot, shape, status, page, |head| {
        site.write_error_fields(status, head);
    });
}

fn content_is_whole(content: Content<'_>) -> bool {
    matches!(content, Content::Whole(_))
}
