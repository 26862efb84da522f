//! Lines of the log about requests that are refused for what they are: a client's mistake, most
//! often, or a setting's.

use crate::intake::csrf::NoToken;
use crate::intake::params::BadParameter;
use rhythm_http::Incoming;
use rhythm_net::sparse::SparseByKind;
use rhythm_net::{Client, Time};
use rhythm_protocol::http::head::Known;
use std::borrow::Cow;

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
    pub(crate) fn unclear(&mut self, status: u16, peer: Client, now: Time) {
        let what = match status {
            400 => "it is no request of HTTP that can be understood",
            403 => "a page of another site announced it",
            421 => "it announced content for a host that is no service's",
            // The others say of themselves what was too much, or too late.
            _ => return,
        };
        if let Some(left_out) = self.0.line((status, what), now) {
            tracing::info!(status, %peer, left_out, "a request was refused: {what}");
        }
    }
}

/// What a line shows of a part of a request.
fn shown(part: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&part[..part.len().min(SHOWN_MAX)])
}
