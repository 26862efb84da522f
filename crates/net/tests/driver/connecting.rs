//! Connections that the handler opens.

use crate::echo::*;
use rhythm_net::*;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn an_outgoing_connection_is_made_and_used() {
    let backend = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let server = serve(DriverOptions {
        outgoing_max: 1,
        ..DriverOptions::default()
    });
    let address = backend.local_addr().expect("a bound socket");
    server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
    server.wait_for(|event| *event == Event::Connected);
    server.command(Command::Connect(Peer::tcp("backend", address)), "too many");
    let (mut stream, _) = backend.accept().expect("the server connects");
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).expect("the handler sends");
    assert_eq!(&greeting, b"hello");
    echoed(&mut stream, b"and back");
    drop(stream);
    server.wait_for(|event| matches!(event, Event::Ended(_)));
    server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
    server.finish();
}

#[test]
fn a_connection_to_a_unix_socket_is_made_and_used() {
    let name = format!("rhythm-net-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let backend = UnixListener::bind(&path).expect("a free path");
    let server = serve(DriverOptions::default());
    server.command(Command::Connect(Peer::unix(&path)), "connect");
    server.wait_for(|event| *event == Event::Connected);
    let (mut stream, _) = backend.accept().expect("the server connects");
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).expect("the handler sends");
    assert_eq!(&greeting, b"hello");
    let bytes = vec![7; 1 << 20];
    let sent = bytes.clone();
    let mut writer = stream.try_clone().expect("few files are open");
    let sender = std::thread::spawn(move || writer.write_all(&sent));
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).expect("all is sent back");
    assert_eq!(back, bytes);
    sender
        .join()
        .expect("it does not panic")
        .expect("all is taken");
    drop(stream);
    server.wait_for(|event| matches!(event, Event::Ended(_)));
    // Nobody listens any more.
    drop(backend);
    server.command(Command::Connect(Peer::unix(&path)), "refused");
    server.finish();
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_refused_outgoing_connection_fails_as_such() {
    let server = serve(DriverOptions::default());
    // Bound, so nobody else gets the port, but not listening.
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)
        .expect("few files are open");
    rustix::net::bind(&socket, &any_port).expect("a free port");
    let address = rustix::net::getsockname(&socket)
        .and_then(SocketAddr::try_from)
        .expect("a bound socket");
    server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
    let refused = Event::Ended(Ended::Failed(ErrorKind::ConnectionRefused));
    assert_eq!(
        server.wait_for(|event| matches!(event, Event::Connected | Event::Ended(_))),
        refused
    );
    server.finish();
}

/// Who speaks last and is gone at once: by a plain close of a Unix socket, or by a reset of a
/// connection over TCP.
struct Gone {
    server: Server,
    /// Its end, and whether that is over TCP.
    last: Option<(OwnedFd, bool)>,
}

impl Gone {
    fn over_unix(name: &str) -> Gone {
        let path = std::env::temp_dir().join(format!("rhythm-net-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let backend = UnixListener::bind(&path).expect("a free path");
        let server = serve(DriverOptions::default());
        server.command(Command::Connect(Peer::unix(&path)), "connect");
        let (mut stream, _) = backend.accept().expect("the server connects");
        std::fs::remove_file(&path).expect("it is there");
        stream.read_exact(&mut [0; 5]).expect("the handler sends");
        let last = Some((stream.into(), false));
        Gone { server, last }
    }

    fn over_tcp() -> Gone {
        let backend = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let server = serve(DriverOptions::default());
        let address = backend.local_addr().expect("a bound socket");
        server.command(Command::Connect(Peer::tcp("backend", address)), "connect");
        let (mut stream, _) = backend.accept().expect("the server connects");
        stream.read_exact(&mut [0; 5]).expect("the handler sends");
        let last = Some((stream.into(), true));
        Gone { server, last }
    }

    fn speak_and_go(&mut self) {
        let (stream, is_tcp) = self.last.take().expect("it is still there");
        rustix::io::write(&stream, SWALLOWED).expect("there is room");
        if is_tcp {
            sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
        }
    }

    /// All that was said is heard, and then that it ended so.
    fn hear(self, how: Ended) {
        let next = || {
            let ends = |event: &Event| matches!(event, Event::Received(_) | Event::Ended(_));
            self.server.wait_for(ends)
        };
        assert_eq!(next(), Event::Received(SWALLOWED.len()));
        assert_eq!(next(), Event::Ended(how));
        self.server.finish();
    }
}

/// How the two of them end.
fn gone(name: &str) -> [(Gone, Ended); 2] {
    let reset = Ended::Failed(ErrorKind::ConnectionReset);
    [
        (Gone::over_unix(name), Ended::PeerFinished),
        (Gone::over_tcp(), reset),
    ]
}

#[test]
fn what_was_said_before_the_end_is_heard_after_a_pause() {
    for (mut gone, how) in gone("paused") {
        let server = &gone.server;
        server.command(Command::Pause, "pause");
        gone.speak_and_go();
        // Turns pass in which it could be told.
        let server = &gone.server;
        for _ in 0..3 {
            let wake = Command::WakeIn(Duration::from_millis(10));
            server.commands.send(wake).expect("the driver runs");
            server.waker.wake();
            let event = server.wait_for(|event| matches!(event, Event::Ticked | Event::Ended(_)));
            assert_eq!(event, Event::Ticked);
        }
        let resume = server.commands.send(Command::Resume);
        resume.expect("the driver runs");
        server.waker.wake();
        gone.hear(how);
    }
}

#[test]
fn what_was_said_before_the_end_is_heard_though_something_is_sent_before() {
    for (mut gone, how) in gone("sent-to") {
        let (done, until) = channel();
        gone.server.command(Command::Hold(until), "hold");
        gone.speak_and_go();
        let send = gone.server.commands.send(Command::Send);
        send.expect("the driver runs");
        drop(done);
        gone.hear(how);
    }
}
