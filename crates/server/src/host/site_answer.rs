//! Answers of the host path that need nothing but the site: static files, redirects and errors.
//! Each is a head and a body, given like any other.

use crate::host::files::FileStream;
use crate::host::statics::FileAnswer;
use crate::intake::dispatch::SiteAnswer;
use crate::site::Site;
use crate::site::static_file::Content;
use rhythm_engine::session::TooMany;
use rhythm_http::{AnswerShape, Answered, Body, Incoming, write_error};
use rhythm_protocol::http::conditional::Conditions;
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::encoding::Encodings;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};

const LOCATION: HeaderName<'static> = HeaderName::new("Location").expect("a token");

/// What whoever signs in too often is told.
pub(crate) const TOO_MANY: &str = "There were too many sign-ins. Please try again later.";

/// What is told whoever sends a form without a token of his session: most often, one that was
/// loaded before he signed in or out.
const NO_TOKEN: &str = "This form is out of date, or of another site. Please go back, load its \
                        page again, and send it once more.";

/// What is told whoever sends a page something else than the form that it takes.
const UNFIT_FORM: &str = "This page takes other contents alone: a form is \
    application/x-www-form-urlencoded or multipart/form-data, JSON is application/json.";

/// Appends the head of the answer to a request, and gives what the log says of it, and its body.
pub(crate) fn write<'s>(
    answer: &SiteAnswer,
    site: &'s Site,
    request: Incoming<'_>,
    shape: AnswerShape,
    date: &DateCache,
    out: &mut Vec<u8>,
) -> (Answered, Body<'s>) {
    let answered = match answer {
        SiteAnswer::File(file) => {
            let answer = file_answer(*file, site, request, shape, date);
            return answer.write(shape, date, out, |head| {
                site.settings.write_file_headers(head)
            });
        }
        SiteAnswer::Redirect(redirect) => {
            let location = &site.redirects[*redirect as usize].location;
            write_error(out, 303, None, shape, date, "", |head| {
                head.header(LOCATION, location.as_bytes());
            })
        }
        SiteAnswer::OnHttps(location) => write_error(out, 308, None, shape, date, "", |head| {
            head.header(LOCATION, location);
        }),
        SiteAnswer::Options(methods) => {
            let mut head = ResponseWriter::new(out, 204);
            head.allow([methods.as_str()]);
            head.connection(!shape.close, shape.http10).date(date).end();
            Answered::bare(204)
        }
        SiteAnswer::OtherMethod(methods) => site.write_error(out, 405, shape, date, "", |head| {
            head.allow([methods.as_str()]);
        }),
        SiteAnswer::BadParameter(bad) => {
            site.write_error(out, 400, shape, date, &bad.sentence(), |_| {})
        }
        SiteAnswer::NoToken(_) => site.write_error(out, 403, shape, date, NO_TOKEN, |_| {}),
        SiteAnswer::TooMany(TooMany(seconds)) => {
            site.write_error(out, 429, shape, date, TOO_MANY, |head| {
                head.retry_after(*seconds);
            })
        }
        SiteAnswer::Error(415) => site.write_error(out, 415, shape, date, UNFIT_FORM, |_| {}),
        SiteAnswer::Error(status) => site.write_error(out, *status, shape, date, "", |_| {}),
    };
    (answered, Body::Empty)
}

/// What an answer will be sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// So many bytes that are in memory already.
    Memory(usize),
    /// A file that is read while it is sent.
    Stream,
}

impl SiteAnswer {
    /// What it will be sent from, to a client that accepts these encodings.
    #[inline]
    pub(crate) fn source(&self, site: &Site, accepts: Encodings) -> Source {
        let content = |file: u32| &site.statics.entry(file).representation(accepts).content;
        match self {
            SiteAnswer::File(file) => match content(*file) {
                Content::Kept(bytes) => Source::Memory(bytes.len()),
                Content::Streamed(_) => Source::Stream,
            },
            SiteAnswer::Error(status) => Source::Memory(site.error_bytes(*status)),
            SiteAnswer::BadParameter(_) => Source::Memory(site.error_bytes(400)),
            SiteAnswer::NoToken(_) => Source::Memory(site.error_bytes(403)),
            SiteAnswer::OtherMethod(_) => Source::Memory(site.error_bytes(405)),
            SiteAnswer::TooMany(_) => Source::Memory(site.error_bytes(429)),
            SiteAnswer::Redirect(_) | SiteAnswer::OnHttps(_) | SiteAnswer::Options(_) => {
                Source::Memory(0)
            }
        }
    }
}

/// The answer to a request whose bytes are yet to be read, if it is one.
pub(crate) fn stream(
    answer: &SiteAnswer,
    site: &Site,
    request: Incoming<'_>,
    shape: AnswerShape,
    date: &DateCache,
) -> Option<FileStream> {
    let SiteAnswer::File(file) = answer else {
        return None;
    };
    let answer = file_answer(*file, site, request, shape, date);
    answer.stream(shape, site, |head| site.settings.write_file_headers(head))
}

fn file_answer<'s>(
    file: u32,
    site: &'s Site,
    request: Incoming<'_>,
    shape: AnswerShape,
    date: &DateCache,
) -> FileAnswer<'s> {
    let conditions = Conditions::of(request.head, request.bytes);
    let method = request.head.method();
    let entry = site.statics.entry(file);
    FileAnswer::new(entry, shape.accepts, method, &conditions, date)
}
