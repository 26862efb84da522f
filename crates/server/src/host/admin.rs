//! The admin listener: health, metrics and the effective configuration, on a port of its own.
//!
//! A thread of its own drives it, so that it answers whatever the workers do. One request a
//! connection.

use crate::host::config;
use crate::observe::metrics::Metrics;
use crate::server::{Control, ServerOptions, StartError};
use rhythm_net::workers::{self, Entrance, Place, Worker, WorkerOptions, Workers};
use rhythm_net::{
    Accepted, ConnectionId, ConnectionTable, DriverOptions, Ended, Flushed, Handler, ListenOptions,
    Listener, Outgoing, Port, Role, Time, TimerWheel, clock,
};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{HeadLimits, Method, RequestHead, parse_head};
use rhythm_protocol::http::response::ResponseWriter;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A client has this long for its request and for taking the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One client.
#[derive(Debug, Default)]
struct Client {
    input: Vec<u8>,
    /// It has its answer, or as much as it took.
    is_answered: bool,
    output: Outgoing,
}

/// Answers the admin listener's clients.
#[derive(Debug)]
struct Admin {
    control: Control,
    metrics: Arc<Metrics>,
    options: ServerOptions,
    clients: ConnectionTable<Client>,
    timers: TimerWheel,
}

/// Starts the admin listener's thread.
pub(crate) fn start(
    address: SocketAddr,
    control: Control,
    metrics: Arc<Metrics>,
    options: ServerOptions,
) -> Result<(SocketAddr, Workers<Infallible>), StartError> {
    let listener = Listener::bind(address, &ListenOptions::default())?;
    let local = listener.local_address();
    let worker_options = WorkerOptions {
        name: "admin",
        driver: DriverOptions {
            connections_max: 64,
            ..DriverOptions::default()
        },
        ..WorkerOptions::default()
    };
    let make = move |_: Place<'_, Infallible>| {
        Ok::<_, Infallible>(Admin {
            control: control.clone(),
            metrics: metrics.clone(),
            options: options.clone(),
            clients: ConnectionTable::new(),
            timers: TimerWheel::new(clock::monotonic()),
        })
    };
    let listeners = vec![Entrance::listeners(Role::default(), vec![listener])];
    let workers = workers::start(&worker_options, listeners, make)?;
    Ok((local, workers))
}

impl Admin {
    /// Status, content type and content.
    fn respond(&self, method: Method, path: &[u8]) -> (u16, &'static str, String) {
        const TEXT: &str = "text/plain; charset=utf-8";
        if !matches!(method, Method::Get | Method::Head) {
            return (405, TEXT, "GET or HEAD\n".to_owned());
        }
        match path {
            b"/healthz" if self.control.is_draining() => (503, TEXT, "draining\n".to_owned()),
            b"/healthz" => (200, TEXT, "ok\n".to_owned()),
            b"/metrics" => match self.metrics.encode() {
                Ok(text) => (
                    200,
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    text,
                ),
                Err(_) => (500, TEXT, String::new()),
            },
            b"/config" => {
                let config = config::json(
                    &self.control.config(),
                    &self.control.site(),
                    self.options.workers,
                    self.options.pipeline.contexts,
                );
                (200, "application/json", config)
            }
            _ => (404, TEXT, "/healthz, /metrics or /config\n".to_owned()),
        }
    }

    /// The answer is sent to its end, or as far as it can be.
    fn sent(&mut self, port: &mut dyn Port, id: ConnectionId, flushed: Flushed) {
        match flushed {
            Flushed::All => {
                port.close(id);
                self.forget(id);
            }
            Flushed::Some => {}
            Flushed::Gone => self.forget(id),
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        if self.clients.remove(id).is_some() {
            self.timers.clear(id.slot());
        }
    }
}

impl Worker for Admin {
    type Command = Infallible;
}

impl Handler for Admin {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, now: Time) {
        let id = accepted.connection;
        self.clients.insert(id, Client::default());
        self.timers.set(id.slot(), now + TIMEOUT);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        let Some(client) = self
            .clients
            .get_mut(id)
            .filter(|client| !client.is_answered)
        else {
            return;
        };
        client.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut client.input);
        let mut head = RequestHead::new();
        let (method, (status, content_type, body)) =
            match parse_head(&mut head, &input, &HeadLimits::default()) {
                Ok(Progress::Partial) => {
                    client.input = input;
                    return;
                }
                Ok(Progress::Complete { .. }) => (
                    head.method(),
                    self.respond(head.method(), head.path(&input)),
                ),
                Err(error) => (
                    Method::Get,
                    (
                        error.status(),
                        "text/plain; charset=utf-8",
                        format!("{error}\n"),
                    ),
                ),
            };
        let mut output = Vec::new();
        let mut writer = ResponseWriter::new(&mut output, status);
        if status == 405 {
            writer.allow(["GET", "HEAD"]);
        }
        (writer
            .content_type(content_type)
            .content_length(body.len() as u64))
        .connection(false, false)
        .date(&DateCache::new(port.wall_clock().unix_seconds))
        .end();
        if method != Method::Head {
            output.extend_from_slice(body.as_bytes());
        }
        if let Some(client) = self.clients.get_mut(id) {
            client.is_answered = true;
            let flushed = client.output.send(port, id, &output);
            self.sent(port, id, flushed);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        let answering = self
            .clients
            .get(id)
            .is_some_and(|client| client.is_answered);
        if how != Ended::PeerFinished {
            self.forget(id);
        } else if !answering {
            port.close(id);
            self.forget(id);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        if let Some(client) = self.clients.get_mut(id) {
            let flushed = client.output.writable(port, id);
            self.sent(port, id, flushed);
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let mut due = Vec::new();
        self.timers.expire(now, |slot| due.push(slot));
        for slot in due {
            if let Some(id) = self.clients.id_at(slot) {
                port.abort(id);
                self.forget(id);
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.timers.wake_at()
    }
}
