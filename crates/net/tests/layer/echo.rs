//! A handler that echoes behind the layer, and the client at the other end.

use crate::scrambler::*;
use rhythm_net::workers::{Entrance, Worker, WorkerOptions, Workers, start};
use rhythm_net::*;
use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Long enough to mean never: with it a test that would hang fails.
pub(crate) const NEVER: Duration = Duration::from_secs(60);

// ----- the codec -----

#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Connect(SocketAddr),
    /// At the next input, pause.
    Pause,
    Resume,
    /// At the next input, answer with so many bytes and close.
    CloseWith(usize),
    /// There is nothing more to do.
    Finish,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command was obeyed.
    Obeyed,
    Connected,
    Received(usize),
    Ended(Ended),
}

/// Echoes, and tells what happens. The contract of its port is asserted here.
pub(crate) struct Echo {
    pub(crate) events: Sender<Event>,
    pub(crate) clients: ConnectionTable<(Outgoing, bool)>,
    pub(crate) on_input: Option<Command>,
    pub(crate) paused: Option<ConnectionId>,
    pub(crate) is_over: bool,
}

impl Echo {
    pub(crate) fn tell(&self, event: Event) {
        // A test that has seen enough hangs up.
        let _ = self.events.send(event);
    }

    pub(crate) fn flushed(&mut self, port: &mut dyn Port, id: ConnectionId, flushed: Flushed) {
        let (_, has_ended) = self.clients.get(id).expect("a connection we have");
        match flushed {
            Flushed::All if *has_ended => port.close(id),
            Flushed::All if self.paused != Some(id) => return port.resume(id),
            Flushed::All => return,
            Flushed::Some => return port.pause(id),
            Flushed::Gone => {}
        }
        self.clients.remove(id);
    }
}

impl Handler for Echo {
    fn opened(&mut self, port: &mut dyn Port, accepted: Accepted, _: Time) {
        let id = accepted.connection;
        self.clients.insert(id, (Outgoing::new(), false));
        if accepted.role == SCRAMBLED {
            assert_eq!(port.send(id, b"too early"), Sent::Taken(0));
        }
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        self.tell(Event::Connected);
        let (out, _) = self.clients.get_mut(id).expect("a connection we began");
        let flushed = out.send(port, id, b"it is me");
        self.flushed(port, id, flushed);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], _: Time) {
        assert!(
            !bytes.is_empty() && self.paused != Some(id),
            "read only when wanted"
        );
        self.tell(Event::Received(bytes.len()));
        let (out, _) = self.clients.get_mut(id).expect("a connection we have");
        let flushed = match self.on_input.take() {
            Some(Command::CloseWith(length)) => {
                let answer = vec![b'x'; length];
                let mut taken = 0;
                // As far as the socket takes it: the rest of the last record is the layer's.
                while let Sent::Taken(more @ 1..) = port.send(id, &answer[taken..]) {
                    taken += more;
                }
                port.close(id);
                assert_eq!(port.send(id, b"more"), Sent::Gone);
                self.clients.remove(id);
                return self.tell(Event::Received(taken));
            }
            Some(_) => {
                port.pause(id);
                self.paused = Some(id);
                out.send(port, id, bytes)
            }
            None => out.send(port, id, bytes),
        };
        self.flushed(port, id, flushed);
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, _: Time) {
        assert_ne!(self.paused, Some(id), "an end is told after resume");
        self.tell(Event::Ended(how));
        let (out, has_ended) = self.clients.get_mut(id).expect("a connection we have");
        assert!(!std::mem::replace(has_ended, true), "told once");
        let flushed = match how {
            Ended::PeerFinished => out.flush(port, id),
            Ended::Failed(_) => Flushed::Gone,
        };
        self.flushed(port, id, flushed);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, _: Time) {
        // That which was tried too early is told of, too.
        let (out, _) = self.clients.get_mut(id).expect("a connection we have");
        let flushed = out.writable(port, id);
        self.flushed(port, id, flushed);
    }

    fn finished(&self) -> bool {
        self.is_over
    }
}

impl Worker for Echo {
    type Command = Command;

    fn obey(&mut self, port: &mut dyn Port, command: Command, _: Time) {
        match command {
            Command::Connect(address) => {
                let peer = Peer::tcp("scrambled", address);
                let id = port.connect(&peer).expect("few files are open");
                self.clients.insert(id, (Outgoing::new(), false));
            }
            Command::Resume => {
                let id = self.paused.take().expect("one is paused");
                port.resume(id);
            }
            Command::Pause | Command::CloseWith(_) => self.on_input = Some(command),
            Command::Finish => self.is_over = true,
        }
        self.tell(Event::Obeyed);
    }
}

// ----- both ends -----

pub(crate) struct Server {
    pub(crate) workers: Workers<Command>,
    pub(crate) addresses: [SocketAddr; 2],
    pub(crate) events: Receiver<Event>,
}

pub(crate) fn serve(linger: Duration) -> Server {
    let bind = || Listener::bind(([127, 0, 0, 1], 0).into(), &ListenOptions::default()).unwrap();
    let listeners = [bind(), bind()];
    let addresses = listeners.each_ref().map(Listener::local_address);
    let [plain, scrambled] = listeners.map(|listener| vec![listener]);
    let entrances = vec![
        Entrance::listeners(PLAIN, plain),
        Entrance::listeners(SCRAMBLED, scrambled),
    ];
    let (sender, events) = channel();
    let sender = Mutex::new(sender);
    let workers = start::<_, String, _>(
        &WorkerOptions {
            restarts_max: 0,
            ..WorkerOptions::default()
        },
        entrances,
        move |_: workers::WorkerThread<'_, Command>| {
            let echo = Echo {
                events: sender.lock().map_err(|error| error.to_string())?.clone(),
                clients: ConnectionTable::new(),
                on_input: None,
                paused: None,
                is_over: false,
            };
            Ok(Layer::new(echo, Scramblers, linger, clock::monotonic()))
        },
    );
    Server {
        workers: workers.unwrap(),
        addresses,
        events,
    }
}

impl Server {
    pub(crate) fn next(&self) -> Event {
        self.events.recv_timeout(NEVER).expect("something happens")
    }

    /// Waits until the handler has obeyed.
    pub(crate) fn order(&self, command: Command) {
        self.workers.inboxes()[0].send(command);
        assert_eq!(self.next(), Event::Obeyed);
    }

    pub(crate) fn stop(self) {
        self.workers.stop();
        self.workers.join().expect("the handler's assertions");
    }

    pub(crate) fn client(&self) -> Client {
        Client::greet(TcpStream::connect(self.addresses[1]).unwrap())
    }
}

/// The other end: a blocking socket and a codec.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) codec: Scrambler,
}

impl Client {
    pub(crate) fn greet(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(NEVER)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client {
            stream,
            codec: Scrambler::default(),
        };
        let mut out = Vec::new();
        client.codec.open(b"", &mut Vec::new(), &mut out).unwrap();
        client.stream.write_all(&out).unwrap();
        let mut greeting = [0; GREETING.len()];
        client.stream.read_exact(&mut greeting).unwrap();
        client
            .codec
            .open(&greeting, &mut Vec::new(), &mut out)
            .unwrap();
        client
    }

    pub(crate) fn sealed(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let taken = self.codec.seal(&[IoSlice::new(bytes)], &mut out);
            bytes = &bytes[taken..];
        }
        out
    }

    pub(crate) fn farewell(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.codec.end(&mut out);
        out
    }

    /// Reads until so many bytes were opened, or the peer said farewell.
    pub(crate) fn read(&mut self, length: usize) -> Vec<u8> {
        let (mut plain, mut room) = (Vec::new(), vec![0; 16 * 1024]);
        while plain.len() < length && !self.codec.has_ended {
            let count = self.stream.read(&mut room).unwrap();
            assert_ne!(count, 0, "the end without a farewell");
            self.codec
                .open(&room[..count], &mut plain, &mut Vec::new())
                .unwrap();
        }
        plain
    }
}
