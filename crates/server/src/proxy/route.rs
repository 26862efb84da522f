//! A route: the servers of a `[[proxy]]`, which of them gets a request, and who waits.

use super::fields::values;
use super::shares::{Holder, Line, Popped};
use super::upstream::{State, Upstream};
use crate::observe::metrics::SiteMetrics;
use crate::site::ProxyRoute;
use rhythm_engine::settings::{Balance, KeptBy, ProxySettings, Trusted};
use rhythm_http::AnswerSlot;
use rhythm_net::{Client, Time};
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::RequestHead;
use rhythm_protocol::http::uri;
use std::hash::{DefaultHasher, Hash, Hasher};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Route {
    /// Which site it is of.
    pub(super) site: usize,
    /// What the log calls the service that has it, where there are several.
    pub(super) service: Option<String>,
    /// What it was made of.
    pub(super) made_of: ProxyRoute,
    pub(super) trusted: Trusted,
    balance: Balance,
    pub(super) upstreams: Vec<Upstream>,
    /// Requests that wait for a connection: all in one line, or, where each client has a server of
    /// its own, before that.
    lines: Vec<Line>,
    /// A server is well again: who waits for others as it was not may go to it.
    pub(super) is_again: bool,
    /// Requests under way, those that wait included.
    pub(super) under_way: usize,
    /// The site has it no more, since a reload.
    pub(super) is_old: bool,
    /// Where the search for the one with the fewest requests begins.
    turn: usize,
}

impl Route {
    pub(super) fn new(site: usize, made_of: &ProxyRoute, metrics: &SiteMetrics) -> Route {
        let config = &made_of.config;
        let upstreams = config
            .to
            .iter()
            .zip(&made_of.peers)
            .map(|((name, url), peers)| {
                let metrics = metrics.proxy(config.name(), name);
                Upstream::new(name, &url.authority, peers.clone(), metrics)
            });
        let balance = config.settings.balance();
        Route {
            site,
            service: None,
            // It was read before.
            trusted: config.settings.trusted_proxies.parse().unwrap_or_default(),
            upstreams: upstreams.collect(),
            lines: match balance {
                Balance::Least => vec![Line::default()],
                Balance::Same(_) => vec![Line::default(); made_of.peers.len()],
            },
            balance,
            made_of: made_of.clone(),
            is_again: false,
            under_way: 0,
            is_old: false,
            turn: 0,
        }
    }

    pub(super) fn settings(&self) -> &ProxySettings {
        &self.made_of.config.settings
    }

    /// What a request has in common with others that go to the same server, as a number; 0 where
    /// any gets it.
    pub(super) fn key(&self, client: Client, head: &RequestHead, bytes: &[u8]) -> u64 {
        let Balance::Same(by) = &self.balance else {
            return 0;
        };
        let value = match by {
            KeptBy::Client => None,
            KeptBy::Cookie(name) => (head.known(Known::Cookie))
                .and_then(|cookies| uri::cookie(cookies.of(bytes), name.as_bytes())),
            KeptBy::Header(name) => values(head.headers(), bytes, name).next(),
        };
        match value.filter(|value| !value.is_empty()) {
            Some(value) => hash_of(value),
            None => hash_of(&client.address()),
        }
    }

    /// The server that is to get a request of this [key](Route::key), which was tried with those of
    /// a bit in `tried`; where all are aside, one of these. None where all were tried.
    pub(super) fn choose(&mut self, key: u64, who: Holder, tried: u64, now: Time) -> Option<usize> {
        let is_any = self.balance == Balance::Least;
        let most = self.settings().connections_max as usize;
        let count = self.upstreams.len();
        let turn = self.turn;
        let in_turn = (0..count).map(|step| (turn + step) % count);
        let candidates = in_turn.filter(|index| tried & 1 << index == 0);
        let chosen = candidates.min_by_key(|index| {
            let upstream = &self.upstreams[*index];
            let rank = match upstream.state(now) {
                // Who may go anywhere tries it first; of the others those alone whose own it is.
                State::Trial if is_any => (0, Time::ZERO),
                State::Trial | State::Well => (1, Time::ZERO),
                State::Aside(until) => (2, until),
            };
            let next = match is_any {
                true => (!upstream.may_take(who, most), upstream.under_way as u64),
                false => (false, !weight(key, &upstream.name)),
            };
            (rank, next)
        })?;
        self.turn = (chosen + 1) % count;
        Some(chosen)
    }

    /// Whether one may have another request under way on this server.
    pub(super) fn may_take(&self, who: Holder, upstream: usize) -> bool {
        let most = self.settings().connections_max as usize;
        self.upstreams[upstream].may_take(who, most)
    }

    /// Whether a server has as many requests under way as it may have.
    pub(super) fn is_full(&self, upstream: usize) -> bool {
        let most = self.settings().connections_max as usize;
        self.upstreams[upstream].under_way >= most
    }

    /// How many requests wait for a connection.
    fn waiting(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }

    /// Whether one may have another request wait, that is to go to this server. One that `waited`
    /// has its place, whoever has come since.
    pub(super) fn may_wait(&mut self, who: Holder, upstream: usize, waited: bool) -> bool {
        let most = self.settings().waiting_max as usize;
        let left = most.saturating_sub(self.waiting());
        match waited {
            true => left > 0,
            false => self.line(upstream).may_wait(who, left),
        }
    }

    /// How many of them wait in this line, if there is one.
    pub(super) fn waiting_in(&self, line: usize) -> Option<usize> {
        self.lines.get(line).map(Line::len)
    }

    /// Where those wait that are to go to this server.
    fn line(&mut self, upstream: usize) -> &mut Line {
        match self.lines.len() {
            1 => &mut self.lines[0],
            _ => &mut self.lines[upstream],
        }
    }

    /// A request that is to go to this server waits for a connection.
    pub(super) fn waits(&mut self, slot: AnswerSlot, who: Holder, upstream: usize) {
        self.line(upstream).push(who, slot);
    }

    /// A request that was to go to this server does not wait any more.
    pub(super) fn waits_no_more(&mut self, slot: AnswerSlot, who: Holder, upstream: usize) {
        self.line(upstream).remove(who, slot);
    }

    /// Takes the first of a line that may find a connection: one of the line's servers has one that
    /// is free, or may have one more, and not too many are its asker's; or is not to be waited for,
    /// as it is not well. For one that is away one tries at a time. These askers are passed over.
    pub(super) fn next_waiting(
        &mut self,
        line: usize,
        passed: &[Holder],
        now: Time,
    ) -> Option<Popped> {
        let most = self.settings().connections_max as usize;
        let its = match self.lines.len() {
            1 => &self.upstreams[..],
            _ => &self.upstreams[line..=line],
        };
        let has_any = |it: &Upstream| !it.idle.is_empty() || it.connections < most;
        let is_well = |it: &Upstream| it.state(now) == State::Well && !it.is_away(now);
        let others_are_well = self.lines.len() > 1 && self.upstreams.iter().any(is_well);
        let may_go = |who: Holder| {
            let takes = |it: &Upstream| {
                let is_free = has_any(it) && it.may_take(who, most);
                let is_shut = it.state(now) != State::Well;
                match it.is_away(now) {
                    // It is chosen anew for them, among those that are well.
                    true => is_shut && others_are_well,
                    false => is_free || is_shut,
                }
            };
            !passed.contains(&who) && its.iter().any(takes)
        };
        self.lines[line].pop(may_go)
    }

    /// Has one that was taken from a line stand there where it stood, if it still waits there.
    /// Whether it does.
    pub(super) fn is_put_back(&mut self, popped: Popped, line: usize) -> bool {
        self.lines[line].is_put_back(popped)
    }

    /// Of these servers, a bit each, the one that may be away for longest, and until when, where
    /// that is to be waited for.
    pub(super) fn away(&self, of: u64, now: Time) -> Option<(usize, Time)> {
        let those = (0..self.upstreams.len()).filter(|index| of & 1 << index != 0);
        let away = those.filter_map(|index| Some((index, self.upstreams[index].away_until()?)));
        let last = away.max_by_key(|(_, until)| *until);
        last.filter(|(_, until)| *until > now)
    }

    /// Takes the first of the line where those wait that are to go to this server.
    pub(super) fn first_waiting(&mut self, upstream: usize) -> Option<AnswerSlot> {
        let popped = self.line(upstream).pop(|_| true);
        popped.map(|popped| popped.slot)
    }

    /// Whether any wait that are to go to this server.
    pub(super) fn is_waited_for(&mut self, upstream: usize) -> bool {
        self.line(upstream).len() > 0
    }

    /// Takes all of a line.
    pub(super) fn take_line(&mut self, line: usize) -> Vec<AnswerSlot> {
        self.lines[line].take_all()
    }

    /// The Host of its servers' URLs: that of the first.
    pub(super) fn authority(&self) -> &str {
        self.upstreams
            .first()
            .map_or("", |upstream| &upstream.authority)
    }

    /// Whether it has one server.
    pub(super) fn is_alone(&self) -> bool {
        self.upstreams.len() == 1
    }
}

/// How much a key is for a server: it goes to the one for which it is most, so that one that is
/// gone changes nothing for the keys of the others (rendezvous hashing, Thaler and Ravishankar,
/// 1998).
fn weight(key: u64, upstream: &str) -> u64 {
    hash_of(&(key, upstream))
}

/// The same in all workers, and in all servers of a version.
fn hash_of(what: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::told::Unwell;
    use super::*;
    use rhythm_engine::settings::{BackendUrl, ProxyConfig};
    use rhythm_net::Peer;
    use rhythm_protocol::http::request::{HeadLimits, parse_head};
    use std::net::IpAddr;
    use std::time::Duration;

    /// Settings of a route to so many servers.
    pub(crate) fn made_of(count: usize, balance: &str) -> ProxyRoute {
        let urls = (0..count).map(|at| format!("http://127.0.0.1:{}", 3000 + at));
        let to = urls.map(|url| (url.clone(), url.parse::<BackendUrl>().expect("a URL")));
        let peer = |at| vec![Peer::tcp("app", ([127, 0, 0, 1], 3000 + at).into())];
        ProxyRoute {
            config: ProxyConfig {
                matches: vec!["/**".parse().expect("a pattern")],
                to: to.collect(),
                settings: ProxySettings {
                    balance: balance.to_owned(),
                    ..ProxySettings::default()
                },
            },
            peers: (0..count as u16).map(peer).collect(),
        }
    }

    fn route(count: usize, balance: &str) -> Route {
        Route::new(0, &made_of(count, balance), &SiteMetrics::default())
    }

    fn at(last: u8) -> Client {
        Client::At((IpAddr::from([192, 0, 2, last]), 9).into())
    }

    #[test]
    fn the_one_with_the_fewest_is_asked_and_others_in_turn() {
        let mut route = route(3, "least");
        let now = Time::from_nanos(1);
        let chosen: Vec<_> = (0..4).map(|_| route.choose(0, WHO, 0, now)).collect();
        assert_eq!(chosen, [Some(0), Some(1), Some(2), Some(0)]);
        route.upstreams[0].under_way = 2;
        route.upstreams[1].under_way = 1;
        route.upstreams[2].under_way = 2;
        assert_eq!(route.choose(0, WHO, 0, now), Some(1));
        assert_eq!(route.choose(0, WHO, 0b010, now), Some(2));
        assert_eq!(route.choose(0, WHO, 0b111, now), None);
    }

    #[test]
    fn who_fails_is_left_alone_and_then_tried_by_one() {
        let mut route = route(2, "least");
        let now = Time::from_nanos(1);
        let aside = route.settings().aside;
        assert!(route.upstreams[0].failed(1, aside, now));
        assert!(!route.upstreams[0].failed(1, aside, now), "that was told");
        for _ in 0..3 {
            assert_eq!(route.choose(0, WHO, 0, now), Some(1));
        }
        let later = now + aside;
        for _ in 0..2 {
            let chosen = route.choose(0, WHO, 0, later);
            assert_eq!(chosen, Some(0), "until one tries it");
        }
        route.upstreams[0].is_tried(aside, later);
        assert_eq!(route.choose(0, WHO, 0, later), Some(1));
        let untried = route.upstreams[0].untried();
        assert!(route.upstreams[0].reached(untried));
        let both: Vec<_> = (0..2).map(|_| route.choose(0, WHO, 0, later)).collect();
        assert!(both.contains(&Some(0)) && both.contains(&Some(1)));
        // Where all are aside, the one that was longest is asked.
        route.upstreams[1].failed(1, aside, later);
        route.upstreams[0].failed(1, aside, later + Duration::from_millis(1));
        assert_eq!(route.choose(0, WHO, 0, later), Some(1));
    }

    #[test]
    fn a_client_stays_with_its_server_while_that_is_well() {
        let mut route = route(3, "client");
        let now = Time::from_nanos(1);
        let of = |route: &mut Route, now: Time| -> Vec<_> {
            (0..60)
                .map(|last| {
                    let key = route.key(at(last), &RequestHead::new(), b"");
                    route.choose(key, WHO, 0, now)
                })
                .collect()
        };
        let before = of(&mut route, now);
        assert_eq!(of(&mut route, now), before);
        for index in 0..3 {
            assert!(before.contains(&Some(index)), "each has some");
        }
        let aside = Duration::from_secs(9);
        route.upstreams[0].failed(1, aside, now);
        for (before, after) in before.iter().zip(of(&mut route, now)) {
            assert!(*before == Some(0) && after != Some(0) || *before == after);
        }
        // Nobody else has to try whether it is well again.
        assert_eq!(of(&mut route, now + aside), before);
    }

    #[test]
    fn what_requests_name_keeps_them_together_and_few_move_when_a_server_goes() {
        let limits = HeadLimits::default();
        let now = Time::from_nanos(1);
        for (balance, line) in [
            ("cookie sid", "Cookie: other=1; sid="),
            ("header X-Tenant", "x-tenant: "),
        ] {
            let key = |route: &Route, value: &str, client: u8| {
                let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{line}{value}\r\n\r\n");
                let mut head = RequestHead::new();
                parse_head(&mut head, bytes.as_bytes(), &limits).expect("a head");
                route.key(at(client), &head, bytes.as_bytes())
            };
            let (mut five, mut four) = (route(5, balance), route(4, balance));
            let mut moved = 0;
            for value in 0..1000 {
                let value = format!("v{value}");
                let its = key(&five, &value, 1);
                assert_eq!(its, key(&five, &value, 2), "whoever asks");
                let chosen = five.choose(its, WHO, 0, now);
                assert_eq!(five.choose(its, WHO, 0, now), chosen);
                // The fifth is gone: its own move, and no others.
                let after = four.choose(key(&four, &value, 1), WHO, 0, now);
                assert!(chosen == Some(4) || chosen == after);
                moved += usize::from(chosen == Some(4));
            }
            assert!((120..280).contains(&moved), "about a fifth: {moved}");
            // Who names nothing is kept by its address.
            assert_eq!(key(&five, "", 1), key(&five, "", 1));
            assert_ne!(key(&five, "", 1), key(&five, "", 2));
        }
    }

    const WHO: Holder = Holder {
        asker: 7,
        is_tunnel: false,
    };

    fn next_waiting(route: &mut Route, line: usize, now: Time) -> Option<AnswerSlot> {
        route.next_waiting(line, &[], now).map(|popped| popped.slot)
    }

    fn slot(ordinal: u32) -> AnswerSlot {
        AnswerSlot {
            connection: rhythm_net::ConnectionId::new(0, 1),
            ordinal,
        }
    }

    /// Has every server of a route as many connections as it may have, and none of them idle.
    fn fill(route: &mut Route) {
        let most = route.settings().connections_max as usize;
        for upstream in &mut route.upstreams {
            upstream.connections = most;
        }
    }

    #[test]
    fn who_waited_has_his_place_whoever_has_come_since() {
        let mut route = route(1, "least");
        let most = route.settings().waiting_max;
        (1..most).for_each(|ordinal| route.waits(slot(ordinal), WHO, 0));
        assert!(!route.may_wait(WHO, 0, false) && route.may_wait(WHO, 0, true));
        route.waits(slot(most), WHO, 0);
        assert!(!route.may_wait(WHO, 0, true));
        assert_eq!(route.take_line(0).len(), most as usize);
    }

    #[test]
    fn who_waits_for_one_that_is_away_does_not_try_it_with_all_others() {
        let mut route = route(2, "client");
        let (now, restart) = (Time::from_nanos(1), Duration::from_secs(2));
        assert_eq!(route.away(0b11, now), None);
        route.upstreams[1].refused(false, restart, now);
        let later = now + restart / 2;
        // Its queue is full, says one whose socket is there; that it answers others is no news.
        route.upstreams[1].refused(true, restart, later);
        route.upstreams[1].answered();
        let until = now + restart;
        assert_eq!(route.away(0b11, later), Some((1, until)), "since the first");
        assert_eq!(route.away(0b01, later), None);
        route.waits(slot(1), WHO, 1);
        assert_eq!(next_waiting(&mut route, 1, later), None);
        assert_eq!(
            (route.first_waiting(1), route.is_waited_for(1)),
            (Some(slot(1)), false)
        );
        route.waits(slot(1), WHO, 1);
        assert_eq!(route.away(0b11, until), None);
        assert_eq!(next_waiting(&mut route, 1, until), Some(slot(1)));
        let untried = route.upstreams[1].untried();
        assert!(route.upstreams[1].reached(untried));
        assert_eq!(route.away(0b11, now), None);
    }

    #[test]
    fn who_has_a_server_of_its_own_waits_for_that_alone() {
        let mut route = route(2, "client");
        let now = Time::from_nanos(1);
        fill(&mut route);
        for (ordinal, upstream) in [(1, 0), (2, 0), (3, 1)] {
            route.waits(slot(ordinal), WHO, upstream);
        }
        let lines = [0, 1, 2].map(|line| route.waiting_in(line));
        assert_eq!(lines, [Some(2), Some(1), None]);
        assert_eq!(next_waiting(&mut route, 0, now), None);
        route.upstreams[1].connections -= 1;
        assert_eq!(next_waiting(&mut route, 0, now), None, "it is another's");
        assert_eq!(next_waiting(&mut route, 1, now), Some(slot(3)));
        // Who waits for one that is not well may go elsewhere.
        route.upstreams[0].unwell = Some(Unwell::Status(503));
        assert_eq!(next_waiting(&mut route, 0, now), Some(slot(1)));
        // And who waits here as its own was not, once that is.
        route.upstreams[0].unwell = None;
        assert_eq!(next_waiting(&mut route, 0, now), None);
        assert_eq!(route.take_line(0), [slot(2)]);
        route.waits(slot(2), WHO, 0);
        route.waits_no_more(slot(2), WHO, 0);
        assert_eq!(route.waiting(), 0);
    }

    #[test]
    fn who_finds_no_connection_keeps_its_place() {
        let mut route = route(2, "least");
        let now = Time::from_nanos(1);
        fill(&mut route);
        for ordinal in 1..=3 {
            route.waits(slot(ordinal), WHO, ordinal as usize % 2);
        }
        route.upstreams[0].connections -= 1;
        let first = route.next_waiting(0, &[], now).expect("it may go");
        assert_eq!(first.slot, slot(1));
        assert!(!route.is_put_back(first, 0), "it does not wait");
        route.waits(slot(1), WHO, 1);
        assert!(route.is_put_back(first, 0));
        let order: Vec<_> = (0..3).map(|_| next_waiting(&mut route, 0, now)).collect();
        assert_eq!(order, [1, 2, 3].map(|ordinal| Some(slot(ordinal))));
    }
}
