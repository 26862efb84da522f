//! Hosts: what answers routes of the site without cohorts, at once or later.
//!
//! Whatever hosts are told of, the answers that they give in it are counted and logged.

use super::Pipeline;
use super::host_path::HostPath;
use super::lanes::Taken;
use crate::answer::passed_on::PassedOn;
use crate::host::files::STREAM_BYTES_EXPECTED;
use crate::intake::dispatch::takes_method;
use crate::intake::https;
use crate::proxy::Aim;
use crate::site::proxy_paths::ProxyFound;
use rhythm_cohort::ContextId;
use rhythm_http::{Event, HostId, Hosts, Incoming, Owed, Reading};
use rhythm_net::{Client, Port, Role, Time};

impl Pipeline {
    /// Begins the answers that were given as files that are yet to be read.
    pub(super) fn open_files(&mut self, port: &mut dyn Port, now: Time) {
        let HostPath {
            files, files_id, ..
        } = &self.host_path;
        while let Some((slot, stream)) = self.responder.next_stream() {
            let kept = stream.memory() + self.responder.kept_of(slot);
            files.open(slot, stream);
            let is_turn = (self.clients).await_turn(port, slot, *files_id, STREAM_BYTES_EXPECTED);
            self.clients.keeps_beside(port, slot, kept);
            if is_turn {
                files.read(slot, self.clients.room(), now);
            }
        }
    }

    /// Has other servers answer what the page of a cohort, which is not free yet, has passed on to
    /// them. What is kept of it is copied for one request at a time.
    pub(super) fn pass_on(&mut self, port: &mut dyn Port, id: ContextId, now: Time) {
        let mut bytes = Vec::new();
        while let Some(passed) = self.responder.next_passed_on() {
            // Whose client is gone nobody waits for.
            if let Some(came_by) = self.clients.came_by(passed.slot.connection) {
                bytes.clear();
                let requests = &self.cohorts.flight(id).requests;
                bytes.extend_from_slice(requests.bytes_of(passed.whole));
                self.pass_one_on(port, (&passed, &bytes), came_by, now);
            }
        }
    }

    fn pass_one_on(
        &mut self,
        port: &mut dyn Port,
        (passed, bytes): (&PassedOn, &[u8]),
        (role, peer): (Role, Client),
        now: Time,
    ) {
        // A reload may have taken the page away meanwhile, and even the route.
        let epoch = self.epochs.all()[passed.site].clone();
        let site = &epoch.site;
        let read = passed.head(bytes);
        let is_read = read.is_some();
        let head = read.unwrap_or_default();
        (self.responder).keep_line_of(Some(passed.site), (&head, bytes), role, passed.origin);
        let found = site.routes.find_proxy(head.method(), head.path(bytes));
        let status = match found {
            _ if !is_read => {
                tracing::error!(
                    service = site.label(),
                    "the head of a request that a page passes on cannot be read again; it is \
                     answered 500"
                );
                500
            }
            ProxyFound::Proxy(route) if !takes_method(site, route, &head, bytes) => 405,
            ProxyFound::Proxy(route) => {
                let config = &site.settings.proxies[route as usize].config;
                self.responder.line_is_proxied(config);
                self.host_path.proxies.aim(Aim {
                    route: epoch.proxies[route as usize],
                    is_tls: https::is_tls(role),
                    origin: passed.origin,
                    tells_id: self.responder.tells_ids(),
                });
                self.responder.expect_passed_on(passed, peer, now);
                let id = self.host_path.proxies_id;
                let request = passed.request(peer, &head, bytes);
                self.host_event(port, now, |hosts, event| hosts.hand(id, event, request));
                let unsent = self.host_path.proxies.counts_content(passed.slot);
                let kept = self.responder.kept_of(passed.slot) + unsent;
                return self.clients.keeps_beside(port, passed.slot, kept);
            }
            ProxyFound::Unclear => 400,
            ProxyFound::Nothing => site.settings.nothing,
        };
        let refused = (passed, peer, status);
        (self.responder).refuse_passed_on(port, &mut self.clients, site, refused, now);
    }

    /// Hands a request over whose content is yet to come, if its host takes that in pieces.
    pub(super) fn take_early(&mut self, port: &mut dyn Port, reading: &mut Reading<'_>, now: Time) {
        let Some(came_by) = self.clients.came_by(reading.connection()) else {
            return;
        };
        let taken = self.intake.host(&self.epochs, came_by, reading.request());
        let request = reading.request();
        let Some(host) = taken.and_then(|taken| self.host_of(&taken, came_by, request)) else {
            return;
        };
        self.ask_host(port, now, true, |hosts, event| {
            hosts.take_early(host, event, reading)
        });
    }

    /// The host that answers a request that came in so, if one does; the request's line is kept.
    /// The proxy is told for which route it is.
    pub(super) fn host_of(
        &mut self,
        taken: &Taken,
        (role, peer): (Role, Client),
        request: Incoming<'_>,
    ) -> Option<HostId> {
        match *taken {
            Taken::ByHost(site, host) => {
                self.responder.keep_line(Some(site), request, (role, peer));
                Some(host)
            }
            Taken::Challenge => {
                self.responder.keep_line(None, request, (role, peer));
                self.host_path.challenges_id
            }
            Taken::ByProxy(site, route) => {
                self.responder.keep_line(Some(site), request, (role, peer));
                let epoch = &self.epochs.all()[site];
                let config = &epoch.site.settings.proxies[route as usize].config;
                self.responder.line_is_proxied(config);
                self.host_path.proxies.aim(Aim {
                    route: epoch.proxies[route as usize],
                    is_tls: https::is_tls(role),
                    origin: self.responder.line_origin(),
                    tells_id: self.responder.tells_ids(),
                });
                Some(self.host_path.proxies_id)
            }
            _ => None,
        }
    }

    /// Hands a request, whose line is kept, to a host; `is_early`: before its content came.
    pub(super) fn ask_host(
        &mut self,
        port: &mut dyn Port,
        now: Time,
        is_early: bool,
        ask: impl FnOnce(&mut Hosts, Event<'_>) -> Option<Owed>,
    ) {
        let (hosts, event) = self.for_hosts(port, now);
        let request = ask(hosts, event);
        self.hosts_gave(request, now);
        if let Some(Owed { slot, .. }) = request {
            // Where it came whole, that is done.
            if is_early {
                self.responder.add_id(&mut self.clients, slot);
            }
            let kept = self.responder.kept_of(slot);
            self.clients.keeps_beside(port, slot, kept);
        }
    }

    /// Tells hosts of something, and takes note of the answers that they give.
    pub(super) fn host_event<T>(
        &mut self,
        port: &mut dyn Port,
        now: Time,
        tell: impl FnOnce(&mut Hosts, Event<'_>) -> T,
    ) -> T {
        let (hosts, event) = self.for_hosts(port, now);
        let told = tell(hosts, event);
        self.hosts_gave(None, now);
        told
    }

    /// Takes note of the answers that hosts have given, the one to `request` perhaps among them.
    fn hosts_gave(&mut self, request: Option<Owed>, now: Time) {
        let HostPath { hosts, proxies, .. } = &mut self.host_path;
        let short = proxies.take_short();
        (self.responder).hosts_gave(request, hosts.given(), &short, now);
    }

    /// The hosts, and an event for them.
    fn for_hosts<'a>(
        &'a mut self,
        port: &'a mut dyn Port,
        now: Time,
    ) -> (&'a mut Hosts, Event<'a>) {
        let event = Event {
            clients: &mut self.clients,
            port,
            date: self.responder.date(),
            now,
        };
        (&mut self.host_path.hosts, event)
    }
}
