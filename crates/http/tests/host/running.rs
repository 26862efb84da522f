//! The server of a toy on its thread, and how a client speaks with it.

use crate::toy::*;
use rhythm_http::{ClientLimits, HostServer, RequestLimits};
use rhythm_net::workers::{self, Entrance, WorkerOptions, WorkerThread, Workers};
use rhythm_net::{ListenOptions, Listener, Role, Token, Waker, clock};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server that ends with its test.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) waker: Waker,
    pub(crate) wake: Sender<()>,
    pub(crate) workers: Option<Workers<Infallible>>,
}

impl Running {
    pub(crate) fn start() -> Running {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(any, &ListenOptions::default()).unwrap();
        let address = listener.local_address();
        let seen = Arc::new(Seen::default());
        let (wake, wakes) = channel();
        let (give_waker, waker) = channel();
        let parts = Mutex::new(Some((wakes, give_waker)));
        let its_seen = seen.clone();
        let make = move |thread: WorkerThread<'_, Infallible>| {
            let (wakes, waker) = parts.lock().unwrap().take().ok_or("it panicked")?;
            waker.send(thread.driver.waker(Token(0)).unwrap()).unwrap();
            let toy = Toy {
                seen: its_seen.clone(),
                streams: HashMap::new(),
                uploads: HashMap::new(),
                paused: Vec::new(),
                later: Vec::new(),
                wakes,
                resume_at: None,
            };
            let clients = ClientLimits {
                unsent_max: UNSENT_MAX,
                ..ClientLimits::within(Duration::from_secs(20))
            };
            let limits = RequestLimits {
                body_max: 1000,
                ..RequestLimits::default()
            };
            Ok::<_, &str>(HostServer::new(toy, clients, limits, clock::monotonic()))
        };
        let entrances = vec![Entrance::listeners(Role::default(), vec![listener])];
        let workers = workers::start(&WorkerOptions::default(), entrances, make).unwrap();
        Running {
            address,
            seen,
            waker: waker.recv().unwrap(),
            wake,
            workers: Some(workers),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream.set_write_timeout(limit).unwrap();
        stream
    }

    /// What comes back for `bytes` until the server closes.
    pub(crate) fn talk(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A dropped connection is an answer, too.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// What comes until the server closes or drops the connection, letting it answer what waits
    /// for another thread meanwhile.
    pub(crate) fn read_all(&self, client: &mut TcpStream) -> String {
        let moment = Some(Duration::from_millis(20));
        client.set_read_timeout(moment).unwrap();
        let mut answers = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            self.answer_later();
            let mut bytes = [0; 4096];
            match client.read(&mut bytes) {
                Ok(count) if count > 0 => answers.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => return String::from_utf8(answers).unwrap(),
            }
        }
        panic!("the connection did not end");
    }

    /// Lets the server answer what waits for another thread.
    pub(crate) fn answer_later(&self) {
        self.wake.send(()).unwrap();
        self.waker.wake();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.take() {
            workers.stop();
            let ended = workers.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

/// Waits until something holds, for a bounded time.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let held = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        holds()
    });
    assert!(held, "{what}");
}

pub(crate) fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
}

pub(crate) const LAST: &str = "Connection: close\r\n";

/// The body of an answer in chunks, taken out of them, and what follows it.
pub(crate) fn unchunked(mut bytes: &str) -> (String, &str) {
    let mut body = String::new();
    loop {
        let (size, rest) = bytes.split_once("\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(size, 16).expect("a number");
        body.push_str(&rest[..size]);
        bytes = rest[size..].strip_prefix("\r\n").expect("a chunk's end");
        if size == 0 {
            return (body, bytes);
        }
    }
}
