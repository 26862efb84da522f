//! Servers are asked whether they are in order: by GET for a path, each time by a connection of its
//! own.

use super::question::Question;
use super::timers::Due;
use super::told::{self, Cause, Tells, Unwell, Where};
use super::upstream::Tried;
use super::{Link, Proxies, Use};
use crate::answer_reader::{AnswerReader, Part};
use rhythm_http::Answers;
use rhythm_net::{ConnectionId, Outgoing, Time};
use rhythm_protocol::http::client::RequestWriter;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::HeaderName;
use std::io::ErrorKind;

const CONNECTION: HeaderName<'static> = HeaderName::new("Connection").expect("a token");
const AGENT: HeaderName<'static> = HeaderName::new("User-Agent").expect("a token");

impl Proxies {
    /// It is time to ask a server. One that has not answered since the last time is not in order.
    pub(super) fn check(&mut self, answers: &mut Answers<'_>, number: u32, index: usize) {
        let now = answers.now();
        let Some(route) = self.routes.get(&number).filter(|route| !route.is_old) else {
            return;
        };
        let next = now + route.settings().health_interval;
        self.timers.set(next, Due::Check(number, index));
        let is_its = |link: &Link| match &link.used {
            Use::Check(check) if (check.route, check.upstream) == (number, index) => {
                Some((check.is_open, check.places))
            }
            _ => None,
        };
        let mut links = self.links.iter();
        let before = links.find_map(|(id, link)| Some((*id, is_its(link)?)));
        let Some((id, (is_open, places))) = before else {
            return self.question(answers, number, index, None);
        };
        self.drop_link(answers, id);
        let places = places.and_next();
        if !is_open && self.has_place(number, index, places) {
            let late = Cause::ConnectsLate;
            return self.question(answers, number, index, Some((places, late)));
        }
        let cause = match is_open {
            true => Cause::Late,
            false => Cause::ConnectsLate,
        };
        self.is_found(number, index, Some(Unwell::Cause(cause)), now);
        self.question(answers, number, index, None);
    }

    /// Whether a server has a place beside those that were tried.
    fn has_place(&self, number: u32, index: usize, places: Tried) -> bool {
        let route = self.routes.get(&number);
        route.is_some_and(|route| route.upstreams[index].peer(places).is_some())
    }

    /// Asks a server at the first of its places, beside those that were tried, which failed for
    /// that cause, to which a connection can be begun. Where there is none, it is not in order.
    fn question(
        &mut self,
        answers: &mut Answers<'_>,
        number: u32,
        index: usize,
        tried: Option<(Tried, Cause)>,
    ) {
        let Some(route) = self.routes.get(&number).filter(|route| !route.is_old) else {
            return;
        };
        let path = route.settings().health.clone();
        let upstream = &route.upstreams[index];
        let (mut places, mut cause) = tried.unwrap_or_else(|| (upstream.untried(), Cause::NoRoom));
        let mut request = Vec::new();
        let mut head = RequestWriter::new(
            &mut request,
            Method::Get,
            path.as_bytes(),
            &upstream.authority,
        );
        head.header(AGENT, b"rhythm-health")
            .header(CONNECTION, b"close")
            .end();
        let mut owed = Outgoing::new();
        owed.push_own(request);
        while let Some(peer) = upstream.peer(places) {
            match answers.port().connect(peer) {
                Ok(id) => {
                    let check = Question {
                        route: number,
                        upstream: index,
                        places,
                        is_open: false,
                        owed,
                        reader: AnswerReader::new(false, false),
                    };
                    let link = Link::new(number, index, Use::Check(Box::new(check)));
                    self.links.insert(id, link);
                    return;
                }
                // This process has no more of them, which tells nothing of the server.
                Err(error) if error.kind() == ErrorKind::QuotaExceeded => return,
                Err(error) => {
                    cause = Cause::Unreachable(error.kind());
                    places = places.and_next();
                }
            }
        }
        self.is_found(number, index, Some(Unwell::Cause(cause)), answers.now());
    }

    /// The connection of a question ended before its answer: where it was not open yet, the
    /// server's next place is asked.
    pub(super) fn check_ended(
        &mut self,
        answers: &mut Answers<'_>,
        check: &Question,
        why: Option<ErrorKind>,
    ) {
        let Question {
            route, upstream, ..
        } = *check;
        if check.is_open {
            let unwell = Unwell::Cause(Cause::Lost(why));
            return self.is_found(route, upstream, Some(unwell), answers.now());
        }
        let cause = why.map_or(Cause::Lost(None), Cause::Unreachable);
        let tried = (check.places.and_next(), cause);
        self.question(answers, route, upstream, Some(tried));
    }

    /// The connection of a question is open.
    pub(super) fn check_connected(&mut self, answers: &mut Answers<'_>, id: ConnectionId) {
        if let Some(link) = self.links.get_mut(&id)
            && let Use::Check(check) = &mut link.used
        {
            check.is_open = true;
            let (number, index, places) = (check.route, check.upstream, check.places);
            self.reached(number, index, places);
            let Some(Link {
                used: Use::Check(check),
                ..
            }) = self.links.get_mut(&id)
            else {
                return;
            };
            // So short a request fits; one that is not sent is not answered in time.
            let _ = check.owed.writable(answers.port(), id);
        }
    }

    /// Bytes of an answer to a question.
    pub(super) fn check_received(
        &mut self,
        answers: &mut Answers<'_>,
        id: ConnectionId,
        bytes: &[u8],
    ) {
        let Some(Link {
            used: Use::Check(check),
            ..
        }) = self.links.get_mut(&id)
        else {
            return;
        };
        let mut decoded = Vec::new();
        let read = check.reader.next(bytes, &mut decoded);
        let unwell = match read {
            Ok((_, Part::Nothing)) => return,
            Ok((_, Part::Head)) => match check.reader.head().0.status() {
                200..400 => None,
                status => Some(Unwell::Status(status)),
            },
            _ => Some(Unwell::Cause(Cause::Unreadable)),
        };
        let (route, upstream) = (check.route, check.upstream);
        self.drop_link(answers, id);
        self.is_found(route, upstream, unwell, answers.now());
    }

    /// A server is in order, or is not for this cause, as was found just now.
    pub(super) fn is_found(
        &mut self,
        number: u32,
        index: usize,
        unwell: Option<Unwell>,
        now: Time,
    ) {
        let Some(route) = self.routes.get_mut(&number) else {
            return;
        };
        let upstream = &mut route.upstreams[index];
        // Of what is not in order still, the log may be told of later: with what it is for now.
        let was_unwell = std::mem::replace(&mut upstream.unwell, unwell).is_some();
        if was_unwell == unwell.is_some() {
            return;
        }
        // Who waits may go on, there or elsewhere.
        route.is_again |= was_unwell;
        self.freed.push(number);
        upstream.news.changed();
        self.tell_found(number, index, now);
    }

    /// Tells the log whether a server is in order, if it does not know: now, or as soon as it may
    /// be told again.
    pub(super) fn tell_found(&mut self, number: u32, index: usize, now: Time) {
        let Some(route) = self.routes.get_mut(&number).filter(|route| !route.is_old) else {
            return;
        };
        let upstream = &mut route.upstreams[index];
        let unwell = upstream.unwell;
        let left_out = match upstream.news.tell(unwell.is_none(), now) {
            Tells::Now(left_out) => left_out,
            Tells::At(at) => {
                self.timers.set(at, Due::News(number, index));
                return;
            }
            Tells::Nothing => return,
        };
        let at = Where {
            service: route.service.as_deref(),
            route: route.made_of.config.name(),
            server: &route.upstreams[index].name,
            place: &route.upstreams[index].place(),
        };
        told::is_found(at, &route.settings().health, unwell, left_out);
    }
}
