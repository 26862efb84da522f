//! Why a request could not be proxied, and what the log is told of it.

use rhythm_net::sparse::SparseByKind;
use rhythm_net::{Time, sparse};
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

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

/// What an answer is that no server has given, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortfall {
    /// No server was to be asked.
    NotAsked,
    /// It is this one's own, since the server's failed so.
    Failed(&'static str),
    /// It is the server's, and was cut off so.
    CutOff(&'static str),
}

impl Cause {
    /// A word for it, for those who count.
    pub(super) fn name(self) -> &'static str {
        match self {
            Cause::Unreachable(_) => "unreachable",
            Cause::ConnectsLate => "connect_timeout",
            Cause::Unsent => "no_connection_free",
            Cause::TooMany => "too_many_waiting",
            Cause::NoRoom => "no_room",
            Cause::Lost(_) | Cause::CutOff(_) => "connection_lost",
            Cause::Unreadable => "unreadable",
            Cause::Late => "answer_timeout",
            Cause::Stuck | Cause::Silent => "piece_timeout",
        }
    }

    /// What the client is answered, where nothing of an answer was sent.
    pub(super) fn status(self) -> u16 {
        match self {
            Cause::Unreachable(_) | Cause::Lost(_) | Cause::Unreadable | Cause::CutOff(_) => 502,
            Cause::Unsent | Cause::TooMany | Cause::NoRoom => 503,
            Cause::ConnectsLate | Cause::Late | Cause::Stuck | Cause::Silent => 504,
        }
    }

    /// Whether a server that is about to be started gives this cause, as nobody listens there, or
    /// one that is about to take connections.
    pub(super) fn is_refusal(self) -> bool {
        // A Unix socket may not be there yet, and its queue may be full, which is told at once.
        let kinds = [
            ErrorKind::ConnectionRefused,
            ErrorKind::NotFound,
            ErrorKind::WouldBlock,
        ];
        matches!(self, Cause::Unreachable(why) if kinds.contains(&why))
    }

    fn cure(self) -> &'static str {
        match self {
            Cause::Unreachable(ErrorKind::PermissionDenied | ErrorKind::InvalidData) => {
                "see the line about TLS with it, then its certificate, or `tls_ca` of its [[proxy]]"
            }
            Cause::Unreachable(ErrorKind::WouldBlock) => {
                "see what keeps it from taking connections, or let more wait (its `backlog`)"
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
    too_large: SparseByKind<u32>,
    asides: sparse::SparseByKind<(u32, Arc<str>)>,
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

    /// A request's content is more than its route takes: of so many bytes, where that was said,
    /// and at most so many.
    pub(super) fn too_large(
        &mut self,
        route: u32,
        (service, name): (Option<&str>, &str),
        (bytes, most): (Option<u64>, u64),
        now: Time,
    ) {
        if let Some(left_out) = self.too_large.line(route, now) {
            tracing::info!(
                service,
                route = name,
                status = 413,
                bytes,
                most,
                left_out,
                "a request was refused: its content is larger than `content_bytes_max` of its \
                 [[proxy]]: raise that, if it is to be taken"
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
}

/// Why a server is not in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwell {
    /// It could not be asked, or gave no answer of HTTP's.
    Cause(Cause),
    /// It answered with this status.
    Status(u16),
}

impl fmt::Display for Unwell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwell::Cause(Cause::Unreachable(why)) => why.fmt(f),
            Unwell::Cause(cause) => cause.fmt(f),
            Unwell::Status(status) => write!(f, "status {status}"),
        }
    }
}

/// A server is in order again, or for a cause is not any more, as it said at this path.
pub(super) fn is_found(at: Where<'_>, path: &str, unwell: Option<Unwell>, left_out: u64) {
    let Where {
        service,
        route,
        server,
        place: address,
    } = at;
    let server = &**server;
    match unwell {
        None => tracing::info!(
            service,
            route,
            server,
            address,
            left_out,
            "a server is in order again"
        ),
        Some(cause) => tracing::warn!(
            service,
            route,
            server,
            address,
            path,
            %cause,
            left_out,
            "a server is not in order by its `health`: others are asked, where there are any; \
             see what it answers there"
        ),
    }
}

/// What the log knows of whether a server is in order: a line a second at most, so that one that
/// changes its mind all the time fills no log, and in the end how it is.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The last line said that it is not.
    told_unwell: bool,
    /// When the next line may be.
    next: Option<Time>,
    /// It is looked at again then.
    is_due: bool,
    /// Changes since the last line.
    changes: u64,
}

/// Whether the log is to be told whether a server is in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// It is, and this many changes were left out before.
    Now(u64),
    /// Then, if it is still so.
    At(Time),
    /// It knows, or is told at a time that was said before.
    Nothing,
}

impl News {
    /// The server has changed its mind.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Whether the log is to be told that the server is in order, or is not.
    pub(super) fn tell(&mut self, is_well: bool, now: Time) -> Tells {
        if let Some(next) = self.next.filter(|next| now < *next) {
            return match std::mem::replace(&mut self.is_due, true) {
                true => Tells::Nothing,
                false => Tells::At(next),
            };
        }
        self.is_due = false;
        if is_well != self.told_unwell {
            return Tells::Nothing;
        }
        self.told_unwell = !is_well;
        self.next = Some(now + EVERY);
        Tells::Now(std::mem::take(&mut self.changes).saturating_sub(1))
    }
}

/// The time between two lines of whether a server is in order.
const EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_server_is_not_in_order_is_said_in_a_few_words() {
        let refused = Cause::Unreachable(ErrorKind::ConnectionRefused);
        assert_eq!(Unwell::Cause(refused).to_string(), "connection refused");
        assert_eq!(Unwell::Status(503).to_string(), "status 503");
    }

    #[test]
    fn a_server_that_changes_its_mind_all_the_time_fills_no_log_and_its_end_is_told() {
        let mut news = News::default();
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        // From its first answer on it changes its mind each ten milliseconds, and ends not well.
        let mut told = Vec::new();
        for step in 0..91 {
            news.changed();
            told.push(news.tell(step % 2 == 1, at(10 * step)));
        }
        assert_eq!(
            told[..3],
            [Tells::Now(0), Tells::At(at(1000)), Tells::Nothing]
        );
        assert!(told[3..].iter().all(|told| *told == Tells::Nothing));
        assert_eq!(news.tell(false, at(1000)), Tells::Nothing, "that is known");
        // It is well again, and not for long, and then for good.
        for (is_well, ms, tells) in [
            (true, 2000, Tells::Now(90)),
            (false, 2100, Tells::At(at(3000))),
            (true, 2200, Tells::Nothing),
            (false, 2300, Tells::Nothing),
        ] {
            news.changed();
            assert_eq!(news.tell(is_well, at(ms)), tells, "{ms}");
        }
        // Nothing else happens, and the log is told how it is.
        assert_eq!(news.tell(false, at(3000)), Tells::Now(2));
        assert_eq!(news.tell(false, at(5000)), Tells::Nothing);
    }
}
