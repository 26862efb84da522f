//! Connections that the handler opens.

use crate::echo::*;
use rhythm_net::*;
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

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
