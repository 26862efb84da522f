//! Why a request could not be proxied, and what the log is told of it.

use rhythm_net::sparse::SparseByKind;
use rhythm_net::{Time, sparse};
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// No connection could be opened.
    Unreachable(ErrorKind),
    /// None was open in time.
    ConnectsLate,
    /// None was free in time.
    Unsent,
    /// Too many requests wait for one.
    TooMany,
    /// This process has no more of them.
    NoRoom,
    /// The connection ended before the answer began.
    Lost(Option<ErrorKind>),
    /// What came is no answer.
    Unreadable,
    /// The answer did not begin in time.
    Late,
    /// It took nothing of the request for too long.
    Stuck,
    /// It sent nothing more of the answer for too long.
    Silent,
    /// The connection ended within the answer.
    CutOff(Option<ErrorKind>),
}

impl Cause {
    /// What the client is answered, where nothing of an answer was sent.
    pub(super) fn status(self) -> u16 {
        match self {
            Cause::Unreachable(_) | Cause::Lost(_) | Cause::Unreadable | Cause::CutOff(_) => 502,
            Cause::Unsent | Cause::TooMany | Cause::NoRoom => 503,
            Cause::ConnectsLate | Cause::Late | Cause::Stuck | Cause::Silent => 504,
        }
    }

    fn cure(self) -> &'static str {
        match self {
            Cause::Unreachable(ErrorKind::PermissionDenied | ErrorKind::InvalidData) => {
                "see the line about TLS with it, then its certificate, or `tls_ca` of its [[proxy]]"
            }
            Cause::Unreachable(_) => "start it, or mend `to` of its [[proxy]]",
            Cause::ConnectsLate => {
                "see whether a firewall is before it, or raise `connect_timeout`"
            }
            Cause::Unsent | Cause::TooMany => {
                "see what slows it down, or let it have more `connections_max`; a proxy by which \
                 all come is to be named in `trusted_proxies`, else it has one client's share"
            }
            Cause::NoRoom => "let this process open more files (`ulimit -n`, LimitNOFILE=)",
            Cause::Lost(_) | Cause::CutOff(_) => "see in its own log why it hangs up",
            Cause::Unreadable => {
                "see whether it speaks HTTP/1.1 there; where it speaks TLS, write https:// in `to`"
            }
            Cause::Late => "see what slows it down, or raise `answer_timeout`",
            Cause::Stuck | Cause::Silent => "see what slows it down, or raise `piece_timeout`",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Unreachable(why) => {
                return write!(f, "no connection could be opened: {why}");
            }
            Cause::Lost(Some(why)) => {
                return write!(f, "the connection broke before it answered: {why}");
            }
            Cause::CutOff(Some(why)) => {
                return write!(f, "the connection broke in the midst of an answer: {why}");
            }
            Cause::Lost(None) => "it closed the connection before it answered",
            Cause::CutOff(None) => "it closed the connection in the midst of an answer",
            Cause::ConnectsLate => "no connection was open in time",
            Cause::Unsent => "no connection was free in time",
            Cause::TooMany => "too many requests wait for a connection",
            Cause::NoRoom => "this process has no more connections",
            Cause::Unreadable => "what it answered is no HTTP/1.1",
            Cause::Late => "it did not begin to answer in time",
            Cause::Stuck => "it took nothing of a request for too long",
            Cause::Silent => "it sent nothing more of an answer for too long",
        })
    }
}

/// Where something failed: a service, where there are several, its route, and a server of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where<'a> {
    pub(super) service: Option<&'a str>,
    pub(super) route: &'a str,
    pub(super) server: &'a Arc<str>,
    pub(super) place: &'a str,
}

/// Lines of the log, one a second of each route, server and cause at most.
#[derive(Debug, Default)]
pub(super) struct Failures {
    lines: SparseByKind<(u32, Arc<str>, Cause)>,
    asides: sparse::SparseByKind<(u32, Arc<str>)>,
    /// What servers answer who are asked whether they are in order.
    found: SparseByKind<(u32, Arc<str>, bool)>,
}

impl Failures {
    /// A request failed.
    pub(super) fn failed(&mut self, route: u32, at: Where<'_>, cause: Cause, now: Time) {
        let kind = (route, at.server.clone(), cause);
        if let Some(left_out) = self.lines.line(kind, now) {
            tracing::warn!(
                service = at.service,
                route = at.route,
                server = &**at.server,
                address = at.place,
                %cause,
                left_out,
                "a request could not be proxied; {}",
                cause.cure()
            );
        }
    }

    /// A server is left alone for a while.
    pub(super) fn is_aside(&mut self, route: u32, at: Where<'_>, cause: Cause, now: Time) {
        if let Some(left_out) = self.asides.line((route, at.server.clone()), now) {
            tracing::warn!(
                service = at.service,
                route = at.route,
                server = &**at.server,
                address = at.place,
                %cause,
                left_out,
                "a server that is proxied to is left alone for `aside`, then tried; {}",
                cause.cure()
            );
        }
    }

    /// A server is in order again, or is not any more. One that changes its mind all the time fills
    /// no log.
    pub(super) fn is_found(&mut self, route: u32, at: Where<'_>, is_well: bool, now: Time) {
        let Some(left_out) = self.tells_found(route, at.server, is_well, now) else {
            return;
        };
        let Where {
            service,
            route,
            server,
            place: address,
        } = at;
        let server = &**server;
        match is_well {
            true => tracing::info!(
                service,
                route,
                server,
                address,
                left_out,
                "a server is in order again"
            ),
            false => tracing::warn!(
                service,
                route,
                server,
                address,
                left_out,
                "a server is not in order by its `health`: others are asked, where there are any; \
                 see what it answers there"
            ),
        }
    }

    /// Whether the log is to be told of that, and how often it was not before.
    fn tells_found(
        &mut self,
        route: u32,
        server: &Arc<str>,
        is_well: bool,
        now: Time,
    ) -> Option<u64> {
        self.found.line((route, server.clone(), is_well), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_server_that_changes_its_mind_all_the_time_fills_no_log() {
        let mut failures = Failures::default();
        let server = Arc::from("http://127.0.0.1:3000");
        let mut tells = |is_well, at| {
            let now = Time::ZERO + Duration::from_micros(at);
            failures.tells_found(1, &server, is_well, now)
        };
        // A thousand times within a second, and once more behind it.
        let lines: Vec<u64> = (0..1000)
            .filter_map(|step| tells(step % 2 == 1, 500 * step))
            .collect();
        assert_eq!(lines, [0, 0], "that it is not, and that it is again");
        assert_eq!(tells(false, 2_000_000), Some(499));
    }
}
