//! The line that is kept of a request which a host answers, and what is made of it when it has.

use super::Responder;
use crate::answer::hosted::{Hosted, HostedLine, Proxied};
use crate::answer::passed_on::PassedOn;
use crate::answer::watch;
use crate::flight::timeline::Came;
use crate::host::files::FileStream;
use crate::intake::https;
use crate::observe::access_log::LogEntry;
use crate::proxy::{Shortfall, Shortfalls};
use crate::site::Site;
use crate::trace::Origin;
use rhythm_engine::settings::{AccessLogFormat, ProxyConfig};
use rhythm_http::{AnswerSlot, Answered, Body, Clients, Given, Incoming, Owed};
use rhythm_net::{Client, Port, Role, Time};
use rhythm_protocol::http::request::RequestHead;
use std::time::Duration;

impl Responder {
    /// Keeps the request line of what is refused next, if it came whole, and for which site it is,
    /// if that is known.
    pub(crate) fn keep_part(
        &mut self,
        site: Option<usize>,
        part: Option<Incoming<'_>>,
        came_by: Option<(Role, Client)>,
    ) {
        match part.filter(|part| part.head.has_line()).zip(came_by) {
            Some((part, came_by)) => self.keep_line(site, part, came_by),
            // It could not be understood.
            None => {
                self.line_origin = Origin::default();
                self.line_site = site;
                self.line.clear();
                self.line.push(b'-');
            }
        }
    }

    /// Keeps what the log says of a request for this site that is handed to a host next.
    pub(crate) fn keep_line(
        &mut self,
        site: Option<usize>,
        request: Incoming<'_>,
        (role, peer): (Role, Client),
    ) {
        let Incoming { head, bytes, .. } = request;
        let of = (peer, https::is_tls(role));
        let origin = self.origin(of, head, bytes).unwrap_or_default();
        self.keep_line_of(site, (head, bytes), role, origin);
    }

    /// As [`keep_line`](Responder::keep_line), of one of which it is known where it comes from.
    pub(crate) fn keep_line_of(
        &mut self,
        site: Option<usize>,
        (head, bytes): (&RequestHead, &[u8]),
        role: Role,
        origin: Origin,
    ) {
        self.line_site = site;
        self.line_proxied = None;
        self.line_origin = origin;
        self.line.clear();
        if self.log.is_some() || self.slow.is_some() || self.line_origin.recorded().is_some() {
            let format = self.log_format().unwrap_or(AccessLogFormat::Common);
            let by = (format, https::is_http2(role));
            LogEntry::write(head, bytes, by, &mut self.line);
        }
    }

    /// Has the answer to the request whose line is kept tell its id, if clients are told.
    pub(crate) fn add_id(&self, clients: &mut Clients, slot: AnswerSlot) {
        if self.tells_ids() && self.line_origin.id.is_some() {
            let mut line = Vec::new();
            self.tell_id(&self.line_origin, &mut line);
            clients.add_lines(slot, &line);
        }
    }

    /// Counts and logs answers that hosts have given, the one to `request` perhaps among them, of
    /// which the line was kept; and those among them that were to be another server's.
    pub(crate) fn hosts_gave(
        &mut self,
        request: Option<Owed>,
        given: impl Iterator<Item = Given>,
        short: &Shortfalls,
        now: Time,
    ) {
        let mut waits = request;
        for (slot, answered) in given {
            let at_once = waits.take_if(|owed| owed.slot == slot);
            let hosted = match at_once {
                Some(owed) => Some(self.hosted_now(owed.peer, owed.began, now)),
                None => self.hosted.take(slot),
            };
            if let (Some(slow), Some(hosted)) = (&mut self.slow, &hosted)
                && !hosted.is_counted
                && let Some(line) = &hosted.line
            {
                slow.hosted(line, answered.map(|answered| answered.status), now);
            }
            if let (Some(spans), Some(hosted)) = (&mut self.spans, &hosted)
                && !hosted.is_counted
                && let Some(line) = &hosted.line
            {
                let status = answered.map(|answered| answered.status);
                watch::tell_hosted(spans, line, (status, short.get(&slot).copied()), now);
            }
            let Some(answered) = answered else {
                continue;
            };
            if hosted.as_ref().is_none_or(|hosted| !hosted.is_counted) {
                self.metrics.host_answered(answered.status);
            }
            if let Some(log) = &mut self.log
                && let Some(line) = hosted.and_then(|hosted| hosted.line)
            {
                let took = now.since(line.arrived);
                log.entry(line.entry(), answered, took, self.date.seconds());
            }
        }
        if let Some(Owed {
            slot, peer, began, ..
        }) = waits
        {
            let hosted = self.hosted_now(peer, began, now);
            self.hosted.expect(slot, hosted);
        }
    }

    /// The request whose line was kept, to be answered by a host.
    pub(super) fn hosted_now(&self, peer: Client, began: Option<Time>, now: Time) -> Hosted {
        let (site, request, origin) = (self.line_site, &self.line[..], self.line_origin);
        let came = Came {
            began: began.unwrap_or(now),
            arrived: now,
        };
        let entry = || LogEntry {
            site,
            peer,
            request,
            id: origin.id,
        };
        let is_kept = self.log.is_some() || self.slow.is_some() || origin.recorded().is_some();
        Hosted {
            line: is_kept.then(|| HostedLine {
                origin,
                proxied: self.line_proxied,
                ..HostedLine::new(entry(), came)
            }),
            is_counted: false,
        }
    }

    /// The next request that is passed on to another server.
    pub(crate) fn next_passed_on(&mut self) -> Option<PassedOn> {
        self.passed_on.pop_front()
    }

    /// A host is to answer this request, whose line was kept, and which came before now.
    pub(crate) fn expect_passed_on(&mut self, passed: &PassedOn, peer: Client, now: Time) {
        let mut hosted = self.hosted_now(peer, None, now);
        if let Some(line) = &mut hosted.line {
            (line.began, line.arrived) = (passed.came.began, passed.came.arrived);
        }
        self.hosted.expect(passed.slot, hosted);
    }

    /// Refuses a request that was to be passed on, whose line was kept.
    pub(crate) fn refuse_passed_on(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        site: &Site,
        (passed, peer, status): (&PassedOn, Client, u16),
        now: Time,
    ) {
        let (date, mut answered) = (&self.date, Answered::bare(status));
        clients.answer(port, passed.slot, passed.shape, now, |shape, out| {
            answered = site.write_error(out, status, shape, date, "", |_| {});
            Body::Empty
        });
        self.host_answered((peer, Some(passed.came.began)), answered, now);
    }

    /// Counts an answer of the host path, to who began to ask then, and logs it with the line that
    /// was kept.
    pub(super) fn host_answered(
        &mut self,
        (peer, began): (Client, Option<Time>),
        answered: Answered,
        now: Time,
    ) {
        self.metrics.host_answered(answered.status);
        if self.line_origin.recorded().is_some() {
            let line = self.hosted_now(peer, began, now).line;
            if let (Some(spans), Some(line)) = (&mut self.spans, line) {
                // If another server was to be asked, it was not.
                let told = (Some(answered.status), Some(Shortfall::NotAsked));
                watch::tell_hosted(spans, &line, told, now);
            }
        }
        let Some(log) = &mut self.log else {
            return;
        };
        let entry = LogEntry {
            site: self.line_site,
            peer,
            request: &self.line,
            id: self.line_origin.id,
        };
        log.entry(entry, answered, Duration::ZERO, self.date.seconds());
    }

    /// Where the request comes from whose line is kept.
    pub(crate) fn line_origin(&self) -> Origin {
        self.line_origin
    }

    /// Another server is to answer the request whose line is kept: one of this route's.
    pub(crate) fn line_is_proxied(&mut self, route: &ProxyConfig) {
        self.line_proxied = Some(Proxied::to(route));
    }

    /// A file's answer that is to be opened.
    pub(crate) fn next_stream(&mut self) -> Option<(AnswerSlot, FileStream)> {
        self.hosted.next_stream()
    }

    /// Bytes of memory that are kept of an answer until its host gives it.
    pub(crate) fn kept_of(&self, slot: AnswerSlot) -> usize {
        self.hosted.bytes_of(slot)
    }
}
