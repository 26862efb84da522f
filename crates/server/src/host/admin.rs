//! The admin listener: health, metrics and the effective configuration, on a port of its own.
//!
//! A thread of its own drives it, so that it answers whatever the workers do. One request a
//! connection.

use crate::host::config;
use crate::observe::metrics::Metrics;
use crate::server::{Control, ServerOptions, StartError};
use rhythm_net::{
    Accepted, ConnectionId, Driver, DriverOptions, Ended, Handler, ListenOptions, Listener, Port,
    Sent, Time, TimerWheel, Token, Waker, clock,
};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{HeadLimits, Method, RequestHead, parse_head};
use rhythm_protocol::http::response::ResponseWriter;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A client has this long for its request and for taking the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One client.
#[derive(Debug, Default)]
struct Client {
    input: Vec<u8>,
    /// The answer, once there is one, and how much of it is sent.
    output: Option<(Vec<u8>, usize)>,
}

/// Answers the admin listener's clients.
#[derive(Debug)]
pub(crate) struct Admin {
    control: Control,
    metrics: Arc<Metrics>,
    options: ServerOptions,
    clients: HashMap<ConnectionId, Client>,
    slots: HashMap<u32, ConnectionId>,
    timers: TimerWheel,
    stopping: bool,
}

/// Starts the admin listener's thread.
pub(crate) fn start(
    address: SocketAddr,
    mut admin: Admin,
) -> Result<(SocketAddr, Waker, JoinHandle<()>), StartError> {
    let listener = Listener::bind(address, &ListenOptions::default())?;
    let local = listener.local_address();
    let mut driver = Driver::new(&DriverOptions {
        connections_max: 64,
        ..DriverOptions::default()
    })?;
    driver.add_listener(listener)?;
    let waker = driver.waker(Token(0))?;
    let thread = std::thread::Builder::new()
        .name("admin".into())
        .spawn(move || {
            if let Err(error) = driver.run(&mut admin) {
                tracing::error!(%error, "the admin listener cannot go on");
            }
        })?;
    Ok((local, waker, thread))
}

impl Admin {
    pub(crate) fn new(control: Control, metrics: Arc<Metrics>, options: ServerOptions) -> Admin {
        Admin {
            control,
            metrics,
            options,
            clients: HashMap::new(),
            slots: HashMap::new(),
            timers: TimerWheel::new(clock::monotonic()),
            stopping: false,
        }
    }

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
                let config = config::json(&self.control, &self.options);
                (200, "application/json", config)
            }
            _ => (404, TEXT, "/healthz, /metrics or /config\n".to_owned()),
        }
    }

    fn send(&mut self, port: &mut dyn Port, id: ConnectionId) {
        let Some((output, sent)) = self
            .clients
            .get_mut(&id)
            .and_then(|client| client.output.as_mut())
        else {
            return;
        };
        match port.send(id, &output[*sent..]) {
            Sent::Taken(taken) => {
                *sent += taken;
                if *sent == output.len() {
                    port.close(id);
                    self.forget(id);
                }
            }
            Sent::Gone => self.forget(id),
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        self.clients.remove(&id);
        self.slots.remove(&id.slot());
        self.timers.clear(id.slot());
    }
}

impl Handler for Admin {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, now: Time) {
        let id = accepted.connection;
        self.clients.insert(id, Client::default());
        self.slots.insert(id.slot(), id);
        self.timers.set(id.slot(), now + TIMEOUT);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        let Some(client) = self
            .clients
            .get_mut(&id)
            .filter(|client| client.output.is_none())
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
        if let Some(client) = self.clients.get_mut(&id) {
            client.output = Some((output, 0));
        }
        self.send(port, id);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        let answering = self
            .clients
            .get(&id)
            .is_some_and(|client| client.output.is_some());
        if how != Ended::PeerFinished {
            self.forget(id);
        } else if !answering {
            port.close(id);
            self.forget(id);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        self.send(port, id);
    }

    fn notified(&mut self, _: &mut dyn Port, _: Token, _: Time) {
        self.stopping = true;
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let mut due = Vec::new();
        self.timers.expire(now, |slot| due.push(slot));
        for slot in due {
            if let Some(&id) = self.slots.get(&slot) {
                port.abort(id);
                self.forget(id);
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.timers.wake_at()
    }

    fn finished(&self) -> bool {
        self.stopping
    }
}
