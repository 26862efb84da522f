//! A layer over real sockets, with a toy codec: records that are framed and scrambled both ways,
//! with a greeting before them and a farewell behind.
//!
//! The other end is a plain socket in the test's hands, which speaks the codec by itself.

use rhythm_net::workers::{Entrance, Worker, WorkerOptions, Workers, start};
use rhythm_net::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Long enough to mean never: with it a test that would hang fails.
const NEVER: Duration = Duration::from_secs(60);

// ----- the codec -----

/// A record: its kind, the length of its bytes (16 bits), and these, scrambled.
const DATA: u8 = b'D';
const END: u8 = b'E';
const HEAD: usize = 3;
/// Bytes in a record, at most.
const RECORD_MAX: usize = 4000;

const GREETING: &[u8] = b"good day\n";

#[derive(Default)]
struct Scrambler {
    /// Input of which no whole record is made yet.
    partial: Vec<u8>,
    has_greeted: bool,
    is_greeted: bool,
    has_ended: bool,
    /// Bytes scrambled in each direction so far: a record lost or repeated makes nonsense of all
    /// that follows.
    sealed: u64,
    opened: u64,
}

fn scramble(bytes: &mut [u8], count: &mut u64) {
    for byte in bytes {
        *byte ^= (*count).wrapping_mul(0x9e37_79b9) as u8 ^ 0x5a;
        *count += 1;
    }
}

impl Scrambler {
    fn record(&mut self, kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        let start = out.len();
        out.extend_from_slice(bytes);
        scramble(&mut out[start..], &mut self.sealed);
    }
}

impl Codec for Scrambler {
    fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        if !self.is_ready() {
            return 0;
        }
        let taken = bytes.len().min(RECORD_MAX);
        self.record(DATA, &bytes[..taken], out);
        taken
    }

    fn open(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorKind> {
        if !self.has_greeted {
            self.has_greeted = true;
            out.extend_from_slice(GREETING);
        }
        self.partial.extend_from_slice(input);
        if !self.is_greeted && self.partial.len() >= GREETING.len() {
            if !self.partial.starts_with(GREETING) {
                return Err(ErrorKind::InvalidData);
            }
            self.partial.drain(..GREETING.len());
            self.is_greeted = true;
        }
        while self.is_greeted && self.partial.len() >= HEAD {
            let length = usize::from(u16::from_be_bytes([self.partial[1], self.partial[2]]));
            if length > RECORD_MAX || self.has_ended {
                return Err(ErrorKind::InvalidData);
            }
            if self.partial.len() < HEAD + length {
                break;
            }
            let start = plain.len();
            plain.extend_from_slice(&self.partial[HEAD..HEAD + length]);
            scramble(&mut plain[start..], &mut self.opened);
            self.has_ended = self.partial[0] == END;
            self.partial.drain(..HEAD + length);
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.has_greeted && self.is_greeted
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.record(END, b"", out);
    }
}

const PLAIN: Role = Role(0);
const SCRAMBLED: Role = Role(1);

struct Scramblers;

impl Codecs for Scramblers {
    type Codec = Scrambler;

    fn accepted(&mut self, accepted: &Accepted) -> Option<Scrambler> {
        (accepted.role == SCRAMBLED).then(Scrambler::default)
    }

    fn connecting(&mut self, peer: &Peer) -> Option<Scrambler> {
        (&*peer.name == "scrambled").then(Scrambler::default)
    }
}

// ----- the handler -----

#[derive(Clone, Copy, Debug)]
enum Command {
    Connect(SocketAddr),
    /// At the next input, pause.
    Pause,
    Resume,
    /// At the next input, answer with so many bytes and close.
    CloseWith(usize),
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// A command was obeyed.
    Obeyed,
    Connected,
    Received(usize),
    Ended(Ended),
}

/// Echoes, and tells what happens. The contract of its port is asserted here.
struct Echo {
    events: Sender<Event>,
    clients: ConnectionTable<(Outgoing, bool)>,
    on_input: Option<Command>,
    paused: Option<ConnectionId>,
}

impl Echo {
    fn tell(&self, event: Event) {
        // A test that has seen enough hangs up.
        let _ = self.events.send(event);
    }

    fn flushed(&mut self, port: &mut dyn Port, id: ConnectionId, flushed: Flushed) {
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
        }
        self.tell(Event::Obeyed);
    }
}

// ----- both ends -----

struct Server {
    workers: Workers<Command>,
    addresses: [SocketAddr; 2],
    events: Receiver<Event>,
}

fn serve(linger: Duration) -> Server {
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
    fn next(&self) -> Event {
        self.events.recv_timeout(NEVER).expect("something happens")
    }

    /// Waits until the handler has obeyed.
    fn order(&self, command: Command) {
        self.workers.inboxes()[0].send(command);
        assert_eq!(self.next(), Event::Obeyed);
    }

    fn stop(self) {
        self.workers.stop();
        self.workers.join().expect("the handler's assertions");
    }

    fn client(&self) -> Client {
        Client::greet(TcpStream::connect(self.addresses[1]).unwrap())
    }
}

/// The other end: a blocking socket and a codec.
struct Client {
    stream: TcpStream,
    codec: Scrambler,
}

impl Client {
    fn greet(stream: TcpStream) -> Client {
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

    fn sealed(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let taken = self.codec.seal(bytes, &mut out);
            bytes = &bytes[taken..];
        }
        out
    }

    fn farewell(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.codec.end(&mut out);
        out
    }

    /// Reads until so many bytes were opened, or the peer said farewell.
    fn read(&mut self, length: usize) -> Vec<u8> {
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

#[test]
fn bytes_pass_however_they_are_split() {
    let server = serve(NEVER);
    let mut client = server.client();
    for step in [1, 2, 7, 1000] {
        let text: Vec<u8> = (0..50u8).collect();
        let records: Vec<u8> = [&text[..20], &text[20..]]
            .iter()
            .flat_map(|part| client.sealed(part))
            .collect();
        for piece in records.chunks(step) {
            client.stream.write_all(piece).unwrap();
        }
        assert_eq!(client.read(text.len()), text);
    }
    // Those that have no codec are left as they are.
    let mut plain = TcpStream::connect(server.addresses[0]).unwrap();
    plain.set_read_timeout(Some(NEVER)).unwrap();
    plain.write_all(b"as it is").unwrap();
    let mut room = [0; 8];
    plain.read_exact(&mut room).unwrap();
    assert_eq!(&room, b"as it is");
    server.stop();
}

#[test]
fn a_reader_that_stalls_gets_all_in_the_end_and_a_farewell() {
    const LENGTH: usize = 24 << 20;
    let server = serve(NEVER);
    let mut client = server.client();
    let text: Vec<u8> = (0..LENGTH).map(|n| (n / 251) as u8).collect();
    let mut bytes = client.sealed(&text);
    bytes.extend(client.farewell());
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    // Both sockets' buffers fill while nobody reads, and others are served.
    let mut other = server.client();
    let hello = other.sealed(b"beside");
    other.stream.write_all(&hello).unwrap();
    assert_eq!(other.read(6), b"beside");
    let echoed = client.read(usize::MAX);
    assert!(echoed == text, "the same bytes come back");
    writing.join().unwrap();
    assert_eq!(
        client.stream.read(&mut [0]).unwrap(),
        0,
        "nothing behind the farewell"
    );
    server.stop();
}

#[test]
fn the_end_without_a_farewell_is_a_failure_and_so_is_nonsense() {
    let server = serve(NEVER);
    let mut client = server.client();
    let text = client.sealed(b"cut");
    client.stream.write_all(&text).unwrap();
    assert_eq!(client.read(3), b"cut");
    client.stream.write_all(&text[..2]).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.next(), Event::Received(3));
    let failed = |kind| Event::Ended(Ended::Failed(kind));
    assert_eq!(server.next(), failed(ErrorKind::UnexpectedEof));
    let mut stranger = TcpStream::connect(server.addresses[1]).unwrap();
    stranger.set_read_timeout(Some(NEVER)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(server.next(), failed(ErrorKind::InvalidData));
    let mut answer = Vec::new();
    stranger.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, GREETING, "what the codec answered is still sent");
    server.stop();
}

#[test]
fn an_end_that_came_with_input_is_told_after_resume() {
    let server = serve(NEVER);
    let mut client = server.client();
    // A first exchange: what follows comes to the handler as one piece.
    let text = client.sealed(b"first");
    client.stream.write_all(&text).unwrap();
    assert_eq!(
        (client.read(5), server.next()),
        (b"first".to_vec(), Event::Received(5))
    );
    server.order(Command::Pause);
    let mut bytes = client.sealed(b"last");
    bytes.extend(client.farewell());
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.read(4), b"last");
    assert_eq!(server.next(), Event::Received(4));
    server.order(Command::Resume);
    assert_eq!(server.next(), Event::Ended(Ended::PeerFinished));
    assert!(client.read(1).is_empty() && client.codec.has_ended);
    server.stop();
}

#[test]
fn closing_delivers_what_was_taken() {
    let server = serve(NEVER);
    let mut client = server.client();
    server.order(Command::CloseWith(64 << 20));
    let please = client.sealed(b"please");
    client.stream.write_all(&please).unwrap();
    assert_eq!(server.next(), Event::Received(6));
    let Event::Received(taken) = server.next() else {
        panic!("it tells what was taken");
    };
    assert!(taken > 0 && taken < 64 << 20, "more than sockets hold");
    // Only now is anything read: the rest of a record waited in the layer.
    assert_eq!(client.read(usize::MAX), vec![b'x'; taken]);
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    server.stop();
}

#[test]
fn who_does_not_take_the_end_is_dropped_in_time() {
    let server = serve(Duration::from_millis(20));
    let mut client = server.client();
    server.order(Command::CloseWith(64 << 20));
    let please = client.sealed(b"please");
    client.stream.write_all(&please).unwrap();
    assert_eq!(server.next(), Event::Received(6));
    // The client reads nothing; that the connection is reset is told all the same.
    let mut reset = [PollFd::new(&client.stream, PollFlags::empty())];
    let timeout = Timespec::try_from(NEVER).unwrap();
    assert_eq!(poll(&mut reset, Some(&timeout)), Ok(1), "it is dropped");
    assert!(reset[0].revents().contains(PollFlags::ERR));
    server.stop();
}

#[test]
fn an_outgoing_connection_greets_before_it_stands() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(NEVER);
    server.order(Command::Connect(listener.local_addr().unwrap()));
    let (stream, _) = listener.accept().unwrap();
    let mut client = Client::greet(stream);
    assert_eq!(client.read(8), b"it is me");
    assert_eq!(server.next(), Event::Connected);
    let farewell = client.farewell();
    client.stream.write_all(&farewell).unwrap();
    assert_eq!(server.next(), Event::Ended(Ended::PeerFinished));
    assert!(client.read(1).is_empty() && client.codec.has_ended);
    // One that turns out to be somebody else fails, and never stood.
    server.order(Command::Connect(listener.local_addr().unwrap()));
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"220 mail server ready\r\n").unwrap();
    assert_eq!(
        server.next(),
        Event::Ended(Ended::Failed(ErrorKind::InvalidData))
    );
    server.stop();
}
