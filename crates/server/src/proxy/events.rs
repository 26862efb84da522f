//! What each event sets going: the proxy as a host.

use super::exchange::Phase;
use super::request::may_upgrade;
use super::timers::Due;
use super::told::Cause;
use super::upstream::Tried;
use super::{Proxies, SharedProxies, Use};
use rhythm_http::{AnswerSlot, Answers, Flow, Host, Request};
use rhythm_net::{ConnectionId, Ended, Time};
use rhythm_protocol::http::request::{Framing, RequestHead};

impl Host for SharedProxies {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let proxies = &mut *self.0.borrow_mut();
        proxies.ask(answers, request);
        proxies.settle(answers);
    }

    fn takes_pieces(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        head.framing() != Framing::None || may_upgrade(head, bytes)
    }

    fn ends_with_input(&self) -> bool {
        true
    }

    fn content(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        piece: &[u8],
        is_last: bool,
    ) -> Flow {
        let proxies = &mut *self.0.borrow_mut();
        proxies.content(answers, slot, piece, is_last);
        proxies.settle(answers);
        // Asked at last: it may have found its connection just now, and waits no more.
        match proxies.exchanges.get(&slot) {
            Some(exchange) if exchange.client_waits => Flow::Wait,
            _ => Flow::More,
        }
    }

    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        self.0.borrow_mut().room(answers, slot);
    }

    fn gone(&mut self, slot: AnswerSlot) {
        let proxies = &mut *self.0.borrow_mut();
        if let Some(exchange) = proxies.over(slot) {
            proxies.to_abort.extend(exchange.connection);
        }
    }

    fn owns(&self, connection: ConnectionId) -> bool {
        self.0.borrow().links.contains_key(&connection)
    }

    fn connected(&mut self, answers: &mut Answers<'_>, connection: ConnectionId) {
        let proxies = &mut *self.0.borrow_mut();
        proxies.connected(answers, connection);
        proxies.settle(answers);
    }

    fn received(&mut self, answers: &mut Answers<'_>, connection: ConnectionId, bytes: &[u8]) {
        let proxies = &mut *self.0.borrow_mut();
        match proxies.links.get(&connection).map(|link| &link.used) {
            Some(Use::Exchange(slot)) => proxies.take(answers, connection, *slot, bytes),
            Some(Use::Check(_)) => proxies.check_received(answers, connection, bytes),
            // Nothing was asked: what it says is an answer to nobody's request.
            Some(Use::Idle) => proxies.drop_link(answers, connection),
            None => {}
        }
        proxies.settle(answers);
    }

    fn ended(&mut self, answers: &mut Answers<'_>, connection: ConnectionId, how: Ended) {
        let proxies = &mut *self.0.borrow_mut();
        proxies.ended(answers, connection, how);
        proxies.settle(answers);
    }

    fn writable(&mut self, answers: &mut Answers<'_>, connection: ConnectionId) {
        let proxies = &mut *self.0.borrow_mut();
        if let Some(Use::Exchange(slot)) = proxies.links.get(&connection).map(|link| &link.used) {
            let slot = *slot;
            proxies.send(answers, slot, true);
        }
        proxies.settle(answers);
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        let proxies = &mut *self.0.borrow_mut();
        proxies.settle(answers);
        while let Some(due) = proxies.timers.next(answers.now()) {
            match due {
                Due::Exchange(slot) => proxies.may_be_late(answers, slot),
                Due::Idle(id) => proxies.is_idle_for_long(answers, id),
                Due::Check(route, upstream) => proxies.check(answers, route, upstream),
                Due::Again(route, upstream) => proxies.try_again(answers, route, upstream),
                Due::News(route, upstream) => proxies.tell_found(route, upstream, answers.now()),
            }
        }
        proxies.settle(answers);
    }

    fn wake_at(&self) -> Option<Time> {
        let proxies = self.0.borrow();
        match proxies.to_abort.is_empty() && proxies.freed.is_empty() {
            true => proxies.timers.wake_at(),
            false => Some(Time::ZERO),
        }
    }
}

impl Proxies {
    fn connected(&mut self, answers: &mut Answers<'_>, id: ConnectionId) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let slot = match link.used {
            Use::Exchange(slot) => slot,
            Use::Check(_) => return self.check_connected(answers, id),
            Use::Idle => return,
        };
        if let Some(exchange) = self.exchanges.get(&slot) {
            self.reached(exchange.route, exchange.upstream, exchange.places);
        }
        self.established(answers, slot);
    }

    /// A connection to a server is open.
    pub(super) fn reached(&mut self, number: u32, index: usize, tried: Tried) {
        if let Some(route) = self.routes.get_mut(&number)
            && route.upstreams[index].reached(tried)
        {
            route.is_again = true;
            self.freed.push(number);
        }
    }

    fn ended(&mut self, answers: &mut Answers<'_>, id: ConnectionId, how: Ended) {
        let Some(link) = self.forget_link(id) else {
            return;
        };
        let why = match how {
            Ended::PeerFinished => {
                answers.port().close(id);
                None
            }
            Ended::Failed(why) => Some(why),
        };
        let slot = match link.used {
            Use::Exchange(slot) => slot,
            Use::Check(check) => return self.check_ended(answers, &check, why),
            Use::Idle => return,
        };
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        exchange.connection = None;
        match exchange.phase {
            Phase::Waiting => {}
            Phase::Connecting => {
                let why = why.unwrap_or(std::io::ErrorKind::ConnectionAborted);
                self.not_connected(answers, slot, Cause::Unreachable(why));
            }
            Phase::Asked => self.lost(answers, slot, Cause::Lost(why)),
            Phase::Answering | Phase::Tunnel if why.is_none() && exchange.reader.ended() => {
                self.finish(answers, slot, true);
            }
            Phase::Answering | Phase::Tunnel => self.fail(answers, slot, Cause::CutOff(why)),
        }
    }

    /// The time of a request's next step may be over.
    fn may_be_late(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let now = answers.now();
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        if !exchange.is_late(now, &mut self.timers) {
            return;
        }
        match exchange.phase {
            Phase::Waiting => {
                let cause = exchange.refused.map_or(Cause::Unsent, |(_, why)| why);
                self.fail(answers, slot, cause);
            }
            Phase::Connecting => {
                if let Some(id) = exchange.connection.take() {
                    self.drop_link(answers, id);
                }
                self.not_connected(answers, slot, Cause::ConnectsLate);
            }
            _ if !exchange.owed.is_empty() => self.fail(answers, slot, Cause::Stuck),
            Phase::Asked => self.fail(answers, slot, Cause::Late),
            Phase::Answering => self.fail(answers, slot, Cause::Silent),
            // Neither had anything to say: nobody failed.
            Phase::Tunnel => self.finish(answers, slot, false),
        }
    }
}
