//! Connections for requests: found, opened, given back, and waited for.

use super::exchange::Phase;
use super::timers::Due;
use super::told::{Cause, Where};
use super::upstream::State;
use super::{Link, Proxies, Use};
use rhythm_http::{AnswerSlot, Answers};
use rhythm_net::{ConnectionId, Time};
use std::io::ErrorKind;
use std::time::Duration;

/// How soon a server that is away is tried again.
const AGAIN: Duration = Duration::from_millis(50);

impl Proxies {
    /// Finds a connection for a request, or has it wait for one.
    pub(super) fn assign(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let now = answers.now();
        let mut cause = None;
        loop {
            let Some(exchange) = self.exchanges.get_mut(&slot) else {
                return;
            };
            let who = exchange.holder;
            let Some(route) = self.routes.get_mut(&exchange.route) else {
                unreachable!("a route stays as long as something is under way on it");
            };
            let Some(chosen) = route.choose(exchange.key, who, exchange.tried, now) else {
                let cause = cause.unwrap_or(Cause::NoRoom);
                return self.wait_or_fail(answers, slot, cause);
            };
            let most = route.settings().connections_max as usize;
            let (wait_timeout, aside) = (route.settings().wait_timeout, route.settings().aside);
            let is_alone = route.is_alone();
            let upstream = &mut route.upstreams[chosen];
            // What was lost on a connection that had been idle may be lost on the next such; and
            // that a server can be reached again is known by a new one alone.
            let is_trial = upstream.state(now) == State::Trial && !is_alone;
            upstream.is_tried(aside, now);
            let takes_idle = exchange.retries == 0 && !is_trial;
            if takes_idle
                && let Some(id) = upstream.idle.last().copied()
                && answers.port().has_news(id)
            {
                // Its end, or an answer to nobody's request, which is not to become this one's.
                answers.port().abort(id);
                self.forget_link(id);
                continue;
            }
            let is_full = upstream.connections >= most;
            let may_take = upstream.may_take(who, most);
            let idle = match may_take && (takes_idle || is_full) {
                true => upstream.idle.pop(),
                false => None,
            };
            if !may_take || idle.is_none() && is_full {
                exchange.upstream = chosen;
                if !route.may_wait(who, chosen, exchange.waits_until.is_some()) {
                    return self.fail(answers, slot, Cause::TooMany);
                }
                exchange.phase = Phase::Waiting;
                let was_refused = |(by, _): &mut (u64, Cause)| *by & 1 << chosen != 0;
                if exchange.refused.take_if(was_refused).is_some() {
                    // It waited for a server that is there again.
                    exchange.waits_until = None;
                }
                // Who was put back waits no longer for it.
                let until = *exchange.waits_until.get_or_insert(now + wait_timeout);
                exchange.wait_until(until, &mut self.timers);
                return route.waits(slot, who, chosen);
            }
            (exchange.upstream, exchange.places) = (chosen, upstream.untried());
            exchange.is_on = true;
            exchange.is_reused = idle.is_some() && takes_idle;
            upstream.entered(who);
            match idle {
                Some(id) if takes_idle => {
                    if let Some(link) = self.links.get_mut(&id) {
                        link.used = Use::Exchange(slot);
                    }
                    exchange.connection = Some(id);
                    return self.established(answers, slot);
                }
                Some(id) => {
                    answers.port().abort(id);
                    self.forget_link(id);
                }
                None => {}
            }
            match self.open(answers, slot) {
                Ok(()) => return,
                Err(Cause::NoRoom) => return self.fail(answers, slot, Cause::NoRoom),
                Err(why) => {
                    cause = Some(why);
                    self.unreachable(slot, why, now);
                }
            }
        }
    }

    /// Begins to open a connection to the first place of its server that was not tried.
    fn open(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) -> Result<(), Cause> {
        let now = answers.now();
        let mut cause = Cause::Unreachable(ErrorKind::AddrNotAvailable);
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return Ok(());
        };
        let Some(route) = self.routes.get_mut(&exchange.route) else {
            return Ok(());
        };
        let timeout = route.settings().connect_timeout;
        let upstream = &mut route.upstreams[exchange.upstream];
        while let Some(peer) = upstream.peer(exchange.places) {
            match answers.port().connect(peer) {
                Ok(id) => {
                    let used = Use::Exchange(slot);
                    let link = Link::new(exchange.route, exchange.upstream, used);
                    self.links.insert(id, link);
                    upstream.connections += 1;
                    exchange.connection = Some(id);
                    exchange.phase = Phase::Connecting;
                    exchange.wait_until(now + timeout, &mut self.timers);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::QuotaExceeded => {
                    return Err(Cause::NoRoom);
                }
                Err(error) => {
                    exchange.places = exchange.places.and_next();
                    cause = Cause::Unreachable(error.kind());
                }
            }
        }
        Err(cause)
    }

    /// A connection that was being opened for a request is not: its server's next place is tried,
    /// or another server.
    pub(super) fn not_connected(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        cause: Cause,
    ) {
        let now = answers.now();
        if let Some(exchange) = self.exchanges.get_mut(&slot) {
            exchange.connection = None;
            exchange.places = exchange.places.and_next();
        }
        match self.open(answers, slot) {
            Ok(()) => {}
            Err(Cause::NoRoom) => self.fail(answers, slot, Cause::NoRoom),
            Err(_) => {
                self.unreachable(slot, cause, now);
                let Some(exchange) = self.exchanges.get_mut(&slot) else {
                    return;
                };
                let Some(route) = self.routes.get(&exchange.route) else {
                    return;
                };
                // Of those that are left, one is asked.
                if exchange.tried.count_ones() as usize >= route.upstreams.len() {
                    return self.wait_or_fail(answers, slot, cause);
                }
                self.assign(answers, slot);
            }
        }
    }

    /// No server is left for a request. It waits for those that refuse connections since a short
    /// while, as they do where they are started anew: nothing of it was sent to them.
    fn wait_or_fail(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot, cause: Cause) {
        let now = answers.now();
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        let number = exchange.route;
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        let refused = exchange.refused.map_or(0, |(refused, _)| refused);
        let who = exchange.holder;
        let Some((index, until)) = route.away(refused, now) else {
            return self.fail(answers, slot, cause);
        };
        if !route.may_wait(who, index, exchange.waits_until.is_some()) {
            return self.fail(answers, slot, cause);
        }
        // However often one of them takes connections meanwhile, and then no more.
        let settings = route.settings();
        let most = settings.wait_timeout.max(settings.restart_timeout);
        let until = until.min(*exchange.refused_at.get_or_insert(now) + most);
        if until <= now {
            return self.fail(answers, slot, cause);
        }
        (exchange.phase, exchange.upstream) = (Phase::Waiting, index);
        exchange.tried &= !refused;
        exchange.waits_until = Some(until);
        exchange.wait_until(until, &mut self.timers);
        route.waits(slot, who, index);
        self.try_soon(number, index, now);
    }

    /// Has one of those who wait for a server that is away try it soon, if none does.
    fn try_soon(&mut self, number: u32, index: usize, now: Time) {
        if let Some(route) = self.routes.get_mut(&number)
            && !std::mem::replace(&mut route.upstreams[index].is_tried_soon, true)
        {
            self.timers.set(now + AGAIN, Due::Again(number, index));
        }
    }

    /// Has one of those who wait for a server try it, as long as it is away.
    pub(super) fn try_again(&mut self, answers: &mut Answers<'_>, number: u32, index: usize) {
        let now = answers.now();
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        route.upstreams[index].is_tried_soon = false;
        if !route.upstreams[index].is_away(now) {
            // Who waits for it may go to it as to any other.
            self.freed.push(number);
            return;
        }
        if let Some(slot) = route.first_waiting(index) {
            self.assign(answers, slot);
        }
        let route = self.routes.get_mut(&number);
        if route.is_some_and(|route| route.is_waited_for(index)) {
            self.try_soon(number, index, now);
        }
    }

    /// No place of the server that a request was to go to can be reached.
    fn unreachable(&mut self, slot: AnswerSlot, cause: Cause, now: Time) {
        let Some(exchange) = self.exchanges.get_mut(&slot) else {
            return;
        };
        exchange.tried |= 1 << exchange.upstream;
        let (number, index) = (exchange.route, exchange.upstream);
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        let mut is_waited_for = false;
        let is_crowded = cause == Cause::Unreachable(ErrorKind::WouldBlock);
        if cause.is_refusal() {
            let (before, _) = exchange.refused.unwrap_or((0, cause));
            exchange.refused = Some((before | 1 << index, cause));
            let restart = route.settings().restart_timeout;
            route.upstreams[index].refused(is_crowded, restart, now);
            // Others stand in its line, whoever goes elsewhere.
            is_waited_for = route.is_waited_for(index);
        }
        let (failures_max, aside) = (route.settings().failures_max, route.settings().aside);
        let name = route.made_of.config.name().to_owned();
        let is_alone = route.is_alone();
        let upstream = &mut route.upstreams[index];
        if std::mem::take(&mut exchange.is_on) {
            upstream.left(exchange.holder);
        }
        // One whose queue is full is there.
        if !is_crowded && upstream.failed(failures_max, aside, now) && !is_alone {
            let place = upstream.place();
            let at = Where {
                service: route.service.as_deref(),
                route: &name,
                server: &upstream.name,
                place: &place,
            };
            self.failures.is_aside(number, at, cause, now);
        }
        exchange.phase = Phase::Waiting;
        if is_waited_for {
            self.try_soon(number, index, now);
        }
    }

    /// A connection has no request any more: it is kept for the next, or closed.
    pub(super) fn give_back(&mut self, answers: &mut Answers<'_>, id: ConnectionId, keep: bool) {
        let now = answers.now();
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let Some(route) = self.routes.get_mut(&link.route) else {
            return;
        };
        let keep_alive = route.settings().keep_alive;
        if !keep || route.is_old || keep_alive.is_zero() {
            answers.port().close(id);
            self.forget_link(id);
            return;
        }
        (link.used, link.idle_since) = (Use::Idle, now);
        if link.timer.is_none() {
            link.timer = Some(self.timers.set(now + keep_alive, Due::Idle(id)));
        }
        let upstream = &mut route.upstreams[link.upstream];
        upstream.idle.push(id);
        upstream.answered();
    }

    /// A connection may have been idle for long enough.
    pub(super) fn is_idle_for_long(&mut self, answers: &mut Answers<'_>, id: ConnectionId) {
        let now = answers.now();
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.timer = None;
        let Some(route) = self.routes.get(&link.route) else {
            return;
        };
        if !matches!(link.used, Use::Idle) {
            return;
        }
        let until = link.idle_since + route.settings().keep_alive;
        if now < until {
            link.timer = Some(self.timers.set(until, Due::Idle(id)));
            return;
        }
        answers.port().close(id);
        self.forget_link(id);
    }

    /// A connection is gone.
    pub(super) fn forget_link(&mut self, id: ConnectionId) -> Option<Link> {
        let mut link = self.links.remove(&id)?;
        if let Some(timer) = link.timer.take() {
            self.timers.clear(timer);
        }
        let route = self.routes.get_mut(&link.route)?;
        if !matches!(link.used, Use::Check(_)) {
            let upstream = &mut route.upstreams[link.upstream];
            upstream.idle.retain(|idle| *idle != id);
            upstream.connections -= 1;
        }
        self.freed.push(link.route);
        Some(link)
    }

    /// Has requests of a line go on, of which there are so many.
    fn advance(&mut self, answers: &mut Answers<'_>, number: u32, line: usize, waiting: usize) {
        let now = answers.now();
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        if route.is_again {
            // Each looks for a place anew, once: its own server may be the one that is well again.
            for slot in route.take_line(line) {
                self.assign(answers, slot);
            }
            return;
        }
        let mut passed = Vec::new();
        for _ in 0..waiting {
            let route = self.routes.get_mut(&number);
            let next = route.and_then(|route| route.next_waiting(line, &passed, now));
            let Some(popped) = next else {
                return;
            };
            self.assign(answers, popped.slot);
            // If one that may go to any server still waits there, so do those behind it, unless it
            // has what it may have there, and others have not.
            let any = self.exchanges.get(&popped.slot).filter(|it| it.tried == 0);
            if let Some(upstream) = any.map(|it| it.upstream)
                && let Some(route) = self.routes.get_mut(&number)
                && route.is_put_back(popped, line)
            {
                if route.may_take(popped.who, upstream) || route.is_full(upstream) {
                    return;
                }
                passed.push(popped.who);
            }
        }
    }

    /// Has requests go on that wait for a connection, where there may be one, and forgets routes
    /// that are over. The end of every event.
    pub(super) fn settle(&mut self, answers: &mut Answers<'_>) {
        while let Some(id) = self.to_abort.pop() {
            answers.port().abort(id);
            self.forget_link(id);
        }
        while let Some(number) = self.freed.pop() {
            let mut line = 0;
            while let Some(route) = self.routes.get(&number)
                && let Some(waiting) = route.waiting_in(line)
            {
                self.advance(answers, number, line, waiting);
                line += 1;
            }
            let Some(route) = self.routes.get_mut(&number) else {
                continue;
            };
            route.is_again = false;
            if route.is_old && route.under_way == 0 {
                let of_it = self.links.iter().filter(|(_, link)| link.route == number);
                let of_it: Vec<ConnectionId> = of_it.map(|(id, _)| *id).collect();
                for id in of_it {
                    answers.port().abort(id);
                    self.forget_link(id);
                }
                self.routes.remove(&number);
            }
        }
    }
}

impl Link {
    pub(super) fn new(route: u32, upstream: usize, used: Use) -> Link {
        Link {
            route,
            upstream,
            used,
            idle_since: Time::ZERO,
            timer: None,
        }
    }
}
