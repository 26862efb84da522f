//! Dispatch: what is not data-parallel is answered at once, on the host path (paper, section 3.2,
//! *Dispatch*): static files, redirects and errors. Lanes of cohorts go the other way, in
//! [`crate::flight::process`].

use crate::answer::response::{Answered, write_error};
use crate::client::Turn;
use crate::flight::request::AnswerForm;
use crate::host::statics::Wanted;
use crate::intake::params::BadParameter;
use crate::observe::access_log::LogEntry;
use crate::pipeline::Pipeline;
use rhythm_net::{ConnectionId, Port};
use rhythm_protocol::http::request::{Method, RequestHead};
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};
use rhythm_protocol::http::uri;
use std::time::Duration;

/// An answer of the host path.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A static file, by its index.
    File(u32),
    /// A redirect, by its index.
    Redirect(u32),
    /// `OPTIONS`: these are the methods.
    Options(String),
    /// 405: these are the methods.
    OtherMethod(String),
    /// 400 because of a parameter.
    BadParameter(BadParameter),
    /// An error by its status.
    Error(u16),
}

impl Pipeline {
    /// What answers a path that is no route: a static file by another spelling, or nothing.
    #[cold]
    pub(crate) fn find_mounted(&mut self, head: &RequestHead, bytes: &[u8]) -> Reply {
        let path = head.path(bytes);
        if path == b"*" && head.method() == Method::Options {
            return Reply::Options("GET, HEAD, OPTIONS, POST".to_owned());
        }
        let statics = &self.epoch.site.statics;
        let Some(below) = path.strip_prefix(statics.mount().as_bytes()) else {
            return Reply::Error(404);
        };
        let mut relative = Vec::new();
        let found = uri::file_path(below, &mut relative)
            .ok()
            .and_then(|()| statics.find(&relative));
        match (found, head.method()) {
            (Some(file), Method::Get | Method::Head) => Reply::File(file),
            (Some(_), Method::Options) => Reply::Options("GET, HEAD, OPTIONS".to_owned()),
            (Some(_), _) => Reply::OtherMethod("GET, HEAD, OPTIONS".to_owned()),
            (None, _) => Reply::Error(404),
        }
    }

    /// Answers a request on the host path.
    pub(crate) fn reply(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        head: &RequestHead,
        bytes: &[u8],
        reply: Reply,
    ) {
        let form = self.clients.form(id, head);
        let Some(connection) = self.clients.get(id) else {
            return;
        };
        let turn = Turn {
            connection: id,
            sequence: connection.take_request(form.close),
            close: form.close,
        };
        let peer = connection.peer.ip();
        let (date, clients) = (&self.date, &mut self.clients);
        let error = |status| Answered {
            status,
            body_length: 0,
        };
        let allow = |methods: String| {
            move |head: &mut ResponseWriter<'_>| {
                head.allow([methods.as_str()]);
            }
        };
        let answered = match reply {
            Reply::File(file) => {
                let wanted = Wanted::of(head, bytes, form, turn);
                let statics = &self.epoch.site.statics;
                let (status, body_length) =
                    statics.answer(file, wanted, date, clients, port, |_| {});
                Answered {
                    status,
                    body_length,
                }
            }
            Reply::Redirect(redirect) => {
                let location = &self.epoch.site.redirects[redirect as usize].location;
                clients.answer(port, turn, |out| {
                    write_error(out, 303, form, date, "", |head| {
                        if let Some(name) = HeaderName::new("Location") {
                            head.header(name, location.as_bytes());
                        }
                    });
                });
                error(303)
            }
            Reply::Options(methods) => {
                clients.answer(port, turn, |out| {
                    let mut head = ResponseWriter::new(out, 204);
                    allow(methods)(&mut head);
                    head.connection(!form.close, form.http10).date(date).end();
                });
                error(204)
            }
            Reply::OtherMethod(methods) => {
                clients.answer(port, turn, |out| {
                    write_error(out, 405, form, date, "", allow(methods));
                });
                error(405)
            }
            Reply::BadParameter(bad) => {
                let detail = match bad.name.as_str() {
                    "" => format!("A parameter {}.", bad.problem),
                    name => format!("The parameter {name} {}.", bad.problem),
                };
                clients.answer(port, turn, |out| {
                    write_error(out, 400, form, date, &detail, |_| {});
                });
                error(400)
            }
            Reply::Error(status) => {
                clients.answer(port, turn, |out| {
                    write_error(out, status, form, date, "", |_| {});
                });
                error(status)
            }
        };
        self.metrics.host_answered(answered.status);
        if let Some(log) = &mut self.log {
            let entry = LogEntry::new(peer, head, bytes);
            log.entry(&entry, answered, Duration::ZERO, self.date.seconds());
        }
    }

    /// Answers a request that cannot be understood, or is not wanted, and takes no more from the
    /// connection: where the next one begins is not known.
    pub(crate) fn refuse(&mut self, port: &mut dyn Port, id: ConnectionId, status: u16) {
        let form = AnswerForm {
            close: true,
            ..AnswerForm::default()
        };
        let Some(connection) = self.clients.get(id) else {
            return;
        };
        let turn = Turn {
            connection: id,
            sequence: connection.take_request(true),
            close: true,
        };
        let peer = connection.peer.ip();
        port.pause(id);
        let date = &self.date;
        self.clients.answer(port, turn, |out| {
            write_error(out, status, form, date, "", |_| {});
        });
        self.metrics.host_answered(status);
        if let Some(log) = &mut self.log {
            let entry = LogEntry {
                peer,
                request: "-".to_owned(),
            };
            let answered = Answered {
                status,
                body_length: 0,
            };
            log.entry(&entry, answered, Duration::ZERO, self.date.seconds());
        }
    }
}
