//! The handler that echoes, on a thread of its own, and what a test says to it and hears of it.

use rhythm_net::*;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the handler was told, for the tests to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Opened(Client),
    Received(usize),
    Ended(Ended),
    /// A send was not taken whole.
    Full,
    Writable,
    Connected,
    Notified(Token),
    Ticked,
    ListenersClosed,
    /// The answer to a command.
    Done(&'static str),
}

/// What a test asks of the handler, through a waker.
pub(crate) enum Command {
    /// Close the connection when the next bytes arrive, answering `bye`.
    CloseOnInput,
    /// The same, by abort.
    AbortOnInput,
    /// Pause every connection when the next bytes arrive, which are sent back, until the turn ends.
    PauseOnInput,
    /// Say when there is no more input behind the next bytes, which are sent back.
    IdleAfterInput,
    /// Pause every connection.
    Pause,
    Resume,
    Connect(Peer),
    /// Send every connection something, whatever becomes of it.
    Send,
    WakeIn(Duration),
    /// Keep the driver busy until the other end is dropped.
    Hold(Receiver<()>),
    StopAccepting,
    Finish,
}

/// Long enough to mean never: with it a test that would hang fails.
pub(crate) const NEVER: Duration = Duration::from_secs(60);
pub(crate) const COMMANDS: Token = Token(7);

pub(crate) const ROLE: Role = Role(3);

/// What is not echoed.
pub(crate) const SWALLOWED: &[u8] = b"swallowed";

/// What is not echoed: whoever sends it is told to go on.
pub(crate) const BEGUN: &[u8] = b"begun";
/// That.
pub(crate) const GO_ON: &[u8] = b"go on";

pub(crate) struct Echo {
    pub(crate) events: Sender<Event>,
    pub(crate) commands: Receiver<Command>,
    /// What was not yet taken, by connection.
    pub(crate) unsent: HashMap<ConnectionId, Vec<u8>>,
    pub(crate) ended: Vec<ConnectionId>,
    pub(crate) on_input: Option<Command>,
    /// Every connection is to be resumed when the turn ends.
    pub(crate) resumes: bool,
    /// It is to be said that there is no more input for now.
    pub(crate) says_idle: bool,
    /// When `idle` was told, as long as the turn has not ended.
    pub(crate) idle_at: Option<Time>,
    pub(crate) wake_at: Option<Time>,
    pub(crate) finished: bool,
}

impl Echo {
    pub(crate) fn tell(&self, event: Event) {
        // A test that has seen enough hangs up.
        let _ = self.events.send(event);
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.unsent.remove(&connection);
        self.ended.retain(|id| *id != connection);
    }

    /// Sends what is held, holding back the reading of what comes while something is.
    pub(crate) fn flush(&mut self, port: &mut dyn Port, connection: ConnectionId) {
        let Some(unsent) = self.unsent.get_mut(&connection) else {
            return;
        };
        match port.send(connection, unsent) {
            Sent::Taken(taken) => {
                unsent.drain(..taken);
            }
            Sent::Gone => return self.forget(connection),
        }
        if !unsent.is_empty() {
            port.pause(connection);
            self.tell(Event::Full);
        } else if self.ended.contains(&connection) {
            port.close(connection);
            self.forget(connection);
        } else {
            port.resume(connection);
        }
    }

    pub(crate) fn obey(&mut self, port: &mut dyn Port, command: Command, now: Time) {
        let done = match command {
            Command::CloseOnInput
            | Command::AbortOnInput
            | Command::PauseOnInput
            | Command::IdleAfterInput => {
                self.on_input = Some(command);
                "on input"
            }
            Command::Pause => {
                self.unsent.keys().for_each(|id| port.pause(*id));
                "pause"
            }
            Command::Resume => {
                self.unsent.keys().for_each(|id| port.resume(*id));
                "resume"
            }
            Command::Connect(peer) => match port.connect(&peer) {
                Ok(id) => {
                    self.unsent.insert(id, b"hello".to_vec());
                    assert_eq!(port.send(id, b"too early"), Sent::Taken(0));
                    "connect"
                }
                Err(error) if error.kind() == ErrorKind::QuotaExceeded => "too many",
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => "refused",
                Err(error) => panic!("{error}"),
            },
            Command::Send => {
                for id in self.unsent.keys() {
                    let _ = port.send(*id, b"something");
                }
                "send"
            }
            Command::WakeIn(wait) => {
                self.wake_at = Some(now + wait);
                "wake"
            }
            Command::Hold(until) => {
                self.tell(Event::Done("hold"));
                let _ = until.recv();
                "held"
            }
            Command::StopAccepting => {
                port.stop_accepting();
                "stop"
            }
            Command::Finish => {
                self.finished = true;
                "finish"
            }
        };
        self.tell(Event::Done(done));
    }
}

impl Handler for Echo {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        assert!(
            !self.unsent.contains_key(&accepted.connection),
            "an id is used once"
        );
        assert_eq!(accepted.role, ROLE, "the listener's");
        self.unsent.insert(accepted.connection, Vec::new());
        self.tell(Event::Opened(accepted.peer));
    }

    fn listeners_closed(&mut self) {
        self.tell(Event::ListenersClosed);
    }

    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], _: Time) {
        self.tell(Event::Received(bytes.len()));
        if bytes == SWALLOWED {
            return;
        }
        if bytes == BEGUN {
            assert_eq!(port.send(connection, GO_ON), Sent::Taken(GO_ON.len()));
            return port.unanswered(connection);
        }
        match self.on_input.take() {
            Some(Command::CloseOnInput) => {
                assert_eq!(port.send(connection, b"bye"), Sent::Taken(3));
                port.close(connection);
                assert_eq!(port.send(connection, b"more"), Sent::Gone);
                self.forget(connection);
            }
            Some(Command::IdleAfterInput) => {
                assert_eq!(port.send(connection, bytes), Sent::Taken(bytes.len()));
                self.says_idle = true;
            }
            Some(Command::PauseOnInput) => {
                assert_eq!(port.send(connection, bytes), Sent::Taken(bytes.len()));
                self.unsent.keys().for_each(|id| port.pause(*id));
                self.resumes = true;
            }
            Some(_) => {
                port.abort(connection);
                assert_eq!(port.send(connection, b"more"), Sent::Gone);
                self.forget(connection);
            }
            None => {
                self.unsent
                    .get_mut(&connection)
                    .expect("it was opened")
                    .extend_from_slice(bytes);
                self.flush(port, connection);
            }
        }
    }

    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, _: Time) {
        assert!(
            self.unsent.contains_key(&connection),
            "told of a connection we have"
        );
        self.tell(Event::Ended(how));
        match how {
            Ended::PeerFinished => {
                self.ended.push(connection);
                self.flush(port, connection);
            }
            Ended::Failed(_) => self.forget(connection),
        }
    }

    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        self.tell(Event::Writable);
        self.flush(port, connection);
    }

    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        self.tell(Event::Connected);
        self.flush(port, connection);
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        self.tell(Event::Notified(token));
        while let Ok(command) = self.commands.try_recv() {
            self.obey(port, command, now);
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.idle_at = Some(now);
        if std::mem::take(&mut self.says_idle) {
            self.tell(Event::Done("idle"));
        }
        if std::mem::take(&mut self.resumes) {
            self.unsent.keys().for_each(|id| port.resume(*id));
        }
    }

    fn turn_ended(&mut self, now: Time) {
        let began = self.idle_at.take();
        assert!(
            began.is_some_and(|at| at <= now),
            "once a turn, behind idle"
        );
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        assert!(self.wake_at.is_some_and(|at| at <= now), "never early");
        self.wake_at = None;
        self.tell(Event::Ticked);
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake_at
    }

    fn finished(&self) -> bool {
        self.finished
    }
}

/// A driver with an echo handler on a thread.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) events: Receiver<Event>,
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Waker,
    pub(crate) thread: Option<JoinHandle<()>>,
}

pub(crate) fn serve(options: DriverOptions) -> Server {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = Listener::bind(any_port, &ListenOptions::default()).expect("a free port");
    let address = listener.local_address();
    let mut driver = Driver::new(&options).expect("few files are open");
    driver
        .add_listener(listener, ROLE)
        .expect("memory for a listener");
    let waker = driver.waker(COMMANDS).expect("few files are open");
    let (event_sender, events) = channel();
    let (commands, command_receiver) = channel();
    let thread = std::thread::spawn(move || {
        let mut echo = Echo {
            events: event_sender,
            commands: command_receiver,
            unsent: HashMap::new(),
            ended: Vec::new(),
            on_input: None,
            resumes: false,
            says_idle: false,
            idle_at: None,
            wake_at: None,
            finished: false,
        };
        driver.run(&mut echo).expect("waiting works");
    });
    Server {
        address,
        events,
        commands,
        waker,
        thread: Some(thread),
    }
}

impl Server {
    pub(crate) fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("the server listens");
        client.set_read_timeout(Some(NEVER)).expect("a duration");
        client
    }

    /// Waits until the handler has obeyed.
    pub(crate) fn command(&self, command: Command, done: &'static str) {
        self.commands.send(command).expect("the driver runs");
        self.waker.wake();
        self.wait_for(|event| *event == Event::Done(done));
    }

    /// Skips events until one fits, and returns it.
    pub(crate) fn wait_for(&self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.events.recv_timeout(NEVER).expect("an event that fits");
            if fits(&event) {
                return event;
            }
        }
    }

    pub(crate) fn finish(mut self) {
        self.command(Command::Finish, "finish");
        self.thread
            .take()
            .expect("it ran")
            .join()
            .expect("the handler's assertions");
    }
}

pub(crate) fn echoed(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).expect("the server reads");
    let mut answer = vec![0; bytes.len()];
    client.read_exact(&mut answer).expect("the server echoes");
    assert!(answer == bytes, "the same bytes come back");
}

pub(crate) fn read_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an orderly end");
    rest
}
