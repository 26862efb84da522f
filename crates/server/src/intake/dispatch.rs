//! Dispatch: what is not data-parallel is answered at once, on the host path (paper, section 3.2,
//! *Dispatch*): static files, redirects and errors. Lanes of cohorts go the other way, in
//! [`crate::flight::process`].

use crate::host::statics::Wanted;
use crate::intake::params::BadParameter;
use crate::observe::access_log::LogEntry;
use crate::pipeline::Pipeline;
use rhythm_http::{Answered, write_error};
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
        let Some((slot, shape, peer)) = self.clients.accept(id, head) else {
            return;
        };
        let (date, clients, now) = (&self.date, &mut self.clients, self.now);
        let allow = |methods: String| {
            move |head: &mut ResponseWriter<'_>| {
                head.allow([methods.as_str()]);
            }
        };
        let answered = match reply {
            Reply::File(file) => {
                let wanted = Wanted::of(head, bytes, shape, slot, now);
                let statics = &self.epoch.site.statics;
                statics.answer(file, wanted, date, clients, port, |_| {})
            }
            Reply::Redirect(redirect) => {
                let location = &self.epoch.site.redirects[redirect as usize].location;
                clients.answer(port, slot, shape, now, |out| {
                    write_error(out, 303, shape, date, "", |head| {
                        if let Some(name) = HeaderName::new("Location") {
                            head.header(name, location.as_bytes());
                        }
                    });
                });
                Answered::bare(303)
            }
            Reply::Options(methods) => {
                clients.answer(port, slot, shape, now, |out| {
                    let mut head = ResponseWriter::new(out, 204);
                    allow(methods)(&mut head);
                    head.connection(!shape.close, shape.http10).date(date).end();
                });
                Answered::bare(204)
            }
            Reply::OtherMethod(methods) => {
                clients.answer(port, slot, shape, now, |out| {
                    write_error(out, 405, shape, date, "", allow(methods));
                });
                Answered::bare(405)
            }
            Reply::BadParameter(bad) => {
                let detail = match bad.name.as_str() {
                    "" => format!("A parameter {}.", bad.problem),
                    name => format!("The parameter {name} {}.", bad.problem),
                };
                clients.answer(port, slot, shape, now, |out| {
                    write_error(out, 400, shape, date, &detail, |_| {});
                });
                Answered::bare(400)
            }
            Reply::Error(status) => {
                clients.answer(port, slot, shape, now, |out| {
                    write_error(out, status, shape, date, "", |_| {});
                });
                Answered::bare(status)
            }
        };
        self.metrics.host_answered(answered.status);
        if let Some(log) = &mut self.log {
            let entry = LogEntry::new(peer.ip(), head, bytes);
            log.entry(&entry, answered, Duration::ZERO, self.date.seconds());
        }
    }

    /// Answers a request that cannot be understood, or is not wanted, and takes no more from the
    /// connection: where the next one begins is not known.
    pub(crate) fn refuse(&mut self, port: &mut dyn Port, id: ConnectionId, status: u16) {
        let Some((slot, shape, peer)) = self.clients.accept_last(port, id) else {
            return;
        };
        let date = &self.date;
        (self.clients).answer(port, slot, shape, self.now, |out| {
            write_error(out, status, shape, date, "", |_| {});
        });
        self.metrics.host_answered(status);
        if let Some(log) = &mut self.log {
            let entry = LogEntry {
                peer: peer.ip(),
                request: "-".to_owned(),
            };
            let answered = Answered::bare(status);
            log.entry(&entry, answered, Duration::ZERO, self.date.seconds());
        }
    }
}
