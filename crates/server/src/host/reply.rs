//! Answers of the host path that need nothing but the site: static files, redirects and errors.

use crate::host::statics::Wanted;
use crate::intake::dispatch::Reply;
use crate::site::Site;
use rhythm_http::{AnswerShape, AnswerSlot, Answered, Clients, Incoming, write_error};
use rhythm_net::{Port, Time};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};

/// Where an answer of the host path goes, and what it takes.
pub(crate) struct ReplyTo<'a> {
    pub(crate) clients: &'a mut Clients,
    pub(crate) date: &'a DateCache,
    pub(crate) slot: AnswerSlot,
    pub(crate) shape: AnswerShape,
    pub(crate) now: Time,
}

impl ReplyTo<'_> {
    /// Answers a request.
    pub(crate) fn reply(
        &mut self,
        port: &mut dyn Port,
        site: &Site,
        request: Incoming<'_>,
        reply: Reply,
    ) -> Answered {
        let (date, now, slot, shape) = (self.date, self.now, self.slot, self.shape);
        match reply {
            Reply::File(file) => {
                let wanted = Wanted::of(request.head, request.bytes, shape, slot, now);
                (site.statics).answer(file, wanted, date, self.clients, port, |_| {})
            }
            Reply::Redirect(redirect) => {
                let location = &site.redirects[redirect as usize].location;
                self.error(port, 303, "", |head| {
                    if let Some(name) = HeaderName::new("Location") {
                        head.header(name, location.as_bytes());
                    }
                })
            }
            Reply::Options(methods) => {
                self.clients.answer(port, slot, shape, now, |out| {
                    let mut head = ResponseWriter::new(out, 204);
                    head.allow([methods.as_str()]);
                    head.connection(!shape.close, shape.http10).date(date).end();
                });
                Answered::bare(204)
            }
            Reply::OtherMethod(methods) => self.error(port, 405, "", |head| {
                head.allow([methods.as_str()]);
            }),
            Reply::BadParameter(bad) => {
                let detail = match bad.name.as_str() {
                    "" => format!("A parameter {}.", bad.problem),
                    name => format!("The parameter {name} {}.", bad.problem),
                };
                self.error(port, 400, &detail, |_| {})
            }
            Reply::Error(status) => self.error(port, status, "", |_| {}),
        }
    }

    /// Answers with an error, or another small page that says no more than its status.
    pub(crate) fn error(
        &mut self,
        port: &mut dyn Port,
        status: u16,
        detail: &str,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) -> Answered {
        let (date, shape) = (self.date, self.shape);
        (self.clients).answer(port, self.slot, shape, self.now, |out| {
            write_error(out, status, shape, date, detail, fields);
        });
        Answered::bare(status)
    }
}
