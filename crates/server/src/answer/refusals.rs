//! Lines of the log about requests that are refused for what they are: a client's mistake, most
//! often, or a setting's.

use crate::intake::csrf::NoToken;
use crate::intake::params::BadParameter;
use rhythm_http::Incoming;
use rhythm_net::sparse::SparseByKind;
use rhythm_net::{Client, Time};
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::RequestError;
use std::borrow::Cow;

/// The status of what is for a host that is no site's.
pub(super) const MISDIRECTED: u16 = 421;

/// What the reader of such an answer is told.
pub(super) const NO_SITE: &str = "No site of that name is here.";

/// Bytes of a part of a request that a line shows.
const SHOWN_MAX: usize = 100;

/// A request that is refused.
#[derive(Clone, Copy)]
pub(crate) struct Refused<'a> {
    /// The site that refuses it, where there are several.
    pub(crate) service: Option<&'a str>,
    pub(crate) request: Incoming<'a>,
    pub(crate) peer: Client,
}

/// Why a request is refused of which not all is known.
#[derive(Clone, Copy)]
pub(crate) struct Why<'a> {
    /// What it is answered.
    pub(crate) status: u16,
    /// What is wrong with its head, if that is why.
    pub(crate) fault: Option<RequestError>,
    /// What came of it.
    pub(crate) came: &'a [u8],
    /// Its content, if that is more than is taken.
    pub(crate) too_much: Option<TooMuch>,
}

/// More content than is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMuch {
    /// How many bytes it has, where its head says so.
    pub(crate) bytes: Option<u64>,
    /// How many there may be.
    pub(crate) most: usize,
}

impl From<u16> for Why<'_> {
    fn from(status: u16) -> Self {
        Why {
            status,
            fault: None,
            came: b"",
            too_much: None,
        }
    }
}

impl Why<'_> {
    /// What its client is told.
    pub(crate) fn detail(&self) -> String {
        let said = self.fault.map(|fault| fault.to_string());
        let mut detail = said.unwrap_or_default();
        if let Some(first) = detail.get_mut(..1) {
            first.make_ascii_uppercase();
            detail.push('.');
        } else if let Some(TooMuch { most, .. }) = self.too_much {
            detail = format!("What was sent is too large: at most {most} bytes are taken.");
        }
        detail
    }

    /// The path in its first line, as far as there is one: what stands in a query is nobody's
    /// business.
    fn path(&self) -> &[u8] {
        let mut words = self.came.split(|byte| byte.is_ascii_whitespace());
        let target = words.nth(1).unwrap_or_default();
        target
            .split(|byte| *byte == b'?')
            .next()
            .unwrap_or_default()
    }
}

/// When the next line of each kind may be: by the status, and the reason.
#[derive(Debug, Default)]
pub(crate) struct Refusals(SparseByKind<(u16, &'static str)>);

impl Refusals {
    /// 400, because of a parameter.
    pub(crate) fn bad_parameter(&mut self, refused: Refused<'_>, bad: &BadParameter, now: Time) {
        let Refused {
            service,
            request,
            peer,
        } = refused;
        if let Some(left_out) = self.0.line((400, bad.problem), now) {
            let path = shown(request.head.path(request.bytes));
            let (parameter, cause) = (shown(bad.name.as_bytes()), bad.problem);
            tracing::info!(
                service,
                status = 400,
                path = &*path,
                parameter = &*parameter,
                cause,
                %peer,
                left_out,
                "a request was refused: a parameter is not as its page has it"
            );
        }
    }

    /// 403, because of its origin.
    pub(crate) fn foreign(&mut self, refused: Refused<'_>, now: Time) {
        let Refused {
            service,
            request,
            peer,
        } = refused;
        if let Some(left_out) = self.0.line((403, "origin"), now) {
            let Incoming { head, bytes, .. } = request;
            let path = shown(head.path(bytes));
            let origin = head.values(bytes, "origin").next().unwrap_or_default();
            let host = head.host().of(bytes);
            tracing::warn!(
                service,
                status = 403,
                path = &*path,
                origin = &*shown(origin),
                host = &*shown(host),
                %peer,
                left_out,
                "a request was refused: a page of another site sent it. Where that site is this \
                 service's, too, name it in `session.origins`; behind a proxy, have it pass `Host` \
                 on"
            );
        }
    }

    /// 415, because its content is no form, or no JSON where the page takes that.
    pub(crate) fn unfit_form(&mut self, refused: Refused<'_>, now: Time) {
        let Refused {
            service,
            request,
            peer,
        } = refused;
        if let Some(left_out) = self.0.line((415, "form"), now) {
            let Incoming { head, bytes, .. } = request;
            let path = shown(head.path(bytes));
            let content_type = head.known(Known::ContentType).map(|value| value.of(bytes));
            tracing::info!(
                service,
                status = 415,
                path = &*path,
                content_type = &*shown(content_type.unwrap_or_default()),
                %peer,
                left_out,
                "a request was refused: its page takes forms as browsers send them, \
                 application/x-www-form-urlencoded or multipart/form-data, or, where one is \
                 in = \"json\", application/json"
            );
        }
    }

    /// 413 or 503, because it finds no room in a cohort: in none, or not while others have it.
    pub(crate) fn no_room(&mut self, refused: Refused<'_>, status: u16, now: Time) {
        let Refused {
            service,
            request,
            peer,
        } = refused;
        let what = match status {
            413 => {
                "with all that is kept of it, it finds no room in a cohort, even alone: raise \
                 `cohort.arena_bytes_max` and `cohort.common_bytes_max`, if it is to be taken, or \
                 lower `limits.body_bytes_max`"
            }
            _ => {
                "other requests had the memory that it needs for too long: raise \
                 `cohort.common_bytes_max`"
            }
        };
        if let Some(left_out) = self.0.line((status, "room"), now) {
            let Incoming {
                head,
                bytes,
                content,
            } = request;
            tracing::warn!(
                service,
                status,
                path = &*shown(head.path(bytes)),
                bytes = content.len(),
                %peer,
                left_out,
                "a request was refused: {what}"
            );
        }
    }

    /// 403, because it has no CSRF token of its session.
    pub(crate) fn no_token(&mut self, refused: Refused<'_>, NoToken(cause): NoToken, now: Time) {
        let Refused {
            service,
            request,
            peer,
        } = refused;
        if let Some(left_out) = self.0.line((403, cause), now) {
            let path = shown(request.head.path(request.bytes));
            tracing::warn!(
                service,
                status = 403,
                path = &*path,
                cause,
                %peer,
                left_out,
                "a request was refused: it has no CSRF token of its session. Forms send one where \
                 they have {{{{ csrf_input }}}} in them, scripts as X-CSRF-Token; a page that is \
                 for other programs says csrf = false"
            );
        }
    }

    /// 421, because its host is no site's.
    pub(crate) fn misdirected(&mut self, request: Incoming<'_>, peer: Client, now: Time) {
        if let Some(left_out) = self.0.line((421, "host"), now) {
            let Incoming { head, bytes, .. } = request;
            tracing::info!(
                status = 421,
                path = &*shown(head.path(bytes)),
                host = &*shown(head.host().of(bytes)),
                %peer,
                left_out,
                "a request was refused: its host is no service's. If it is to be one's, name it \
                 in `host` of [service]; behind a proxy, have it pass `Host` on"
            );
        }
    }

    /// Another one, of which no more is known than its status.
    pub(crate) fn unclear(&mut self, why: Why<'_>, peer: Client, now: Time) {
        let status = why.status;
        let what = match status {
            400 if matches!(why.fault, Some(RequestError::TargetInvalid(_))) => {
                "its target is none of HTTP, though other servers may take it"
            }
            400 => "it is no request of HTTP that can be understood",
            413 => {
                "its content is larger than `limits.body_bytes_max`: raise that, if it is to be \
                 taken"
            }
            414 => "its target is longer than `limits.target_bytes_max`",
            431 => "its head is larger than `limits.head_bytes_max`, or has too many lines",
            // The others say of themselves what was too late.
            _ => return,
        };
        if let Some(left_out) = self.0.line((status, what), now) {
            let (path, cause) = (shown(why.path()), why.fault.map(tracing::field::display));
            let path = Some(&*path).filter(|path| !path.is_empty());
            let bytes = why.too_much.and_then(|content| content.bytes);
            let most = why.too_much.map(|content| content.most);
            tracing::info!(
                status,
                path,
                cause,
                bytes,
                most,
                %peer,
                left_out,
                "a request was refused: {what}"
            );
        }
    }
}

/// What a line shows of a part of a request.
fn shown(part: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&part[..part.len().min(SHOWN_MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_too_much_is_told_how_much_there_may_be() {
        let why = Why {
            too_much: Some(TooMuch {
                bytes: Some(250_000),
                most: 65_536,
            }),
            ..Why::from(413)
        };
        assert!(why.detail().contains("at most 65536 bytes"));
        assert_eq!(Why::from(413).detail(), "");
    }
}
