//! What is read, and when.

use crate::echo::*;
use rhythm_net::*;
use rustix::net::SendFlags;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn bytes_come_back_however_they_are_split() {
    let server = serve(DriverOptions {
        receive_bytes: 100,
        ..DriverOptions::default()
    });
    let mut client = server.client();
    client.set_nodelay(true).expect("a TCP socket");
    let peer = client.local_addr().expect("a connected socket");
    server.wait_for(|event| *event == Event::Opened(Client::At(peer)));
    for chunk in b"byte by byte".chunks(1) {
        echoed(&mut client, chunk);
        assert_eq!(server.wait_for(|_| true), Event::Received(1));
    }
    // More than the driver's buffer takes at once.
    let long: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
    echoed(&mut client, &long);
    assert!(matches!(
        server.wait_for(|_| true),
        Event::Received(1..=100)
    ));
    server.finish();
}

#[test]
fn a_client_that_finished_sending_still_gets_its_answer() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    client.write_all(b"last words").expect("the server reads");
    client
        .shutdown(Shutdown::Write)
        .expect("a connected socket");
    assert_eq!(read_to_end(&mut client), b"last words");
    server.wait_for(|event| *event == Event::Ended(Ended::PeerFinished));
    server.finish();
}

/// Makes dropping the socket reset the connection.
fn reset(client: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("a TCP socket");
}

#[test]
fn a_reset_is_told_once_even_while_paused() {
    for paused in [false, true] {
        let server = serve(DriverOptions::default());
        let client = server.client();
        server.wait_for(|event| matches!(event, Event::Opened(_)));
        if paused {
            server.command(Command::Pause, "pause");
        }
        reset(client);
        let failed = Event::Ended(Ended::Failed(ErrorKind::ConnectionReset));
        assert_eq!(
            server.wait_for(|event| matches!(event, Event::Ended(_))),
            failed
        );
        // Others are served as before, and the handler heard nothing more of the one that failed.
        let mut other = server.client();
        echoed(&mut other, b"still there");
        let Server { events, .. } = &server;
        assert!(
            events
                .try_iter()
                .all(|event| !matches!(event, Event::Ended(_)))
        );
        server.finish();
    }
}

#[test]
fn a_paused_connection_is_not_read_until_resumed() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    server.wait_for(|event| matches!(event, Event::Opened(_)));
    server.command(Command::Pause, "pause");
    client.write_all(b"unread").expect("the kernel takes it");
    client
        .shutdown(Shutdown::Write)
        .expect("a connected socket");
    // Another client's bytes make the driver turn; were the first one read, its event would come
    // before the other's.
    let mut other = server.client();
    echoed(&mut other, b"between");
    server.wait_for(|event| matches!(event, Event::Opened(_)));
    assert_eq!(
        server.wait_for(|event| matches!(event, Event::Received(_) | Event::Ended(_))),
        Event::Received(7)
    );
    server.command(Command::Resume, "resume");
    assert_eq!(read_to_end(&mut client), b"unread");
    server.finish();
}

#[test]
fn what_came_during_a_pause_within_a_turn_is_read_after_it() {
    let server = serve(DriverOptions::default());
    let mut clients = [server.client(), server.client()];
    for _ in &clients {
        server.wait_for(|event| matches!(event, Event::Opened(_)));
    }
    server.command(Command::PauseOnInput, "on input");
    // The driver learns of both in one turn: one is read, the other is paused by then.
    let (let_go, held) = channel();
    server.command(Command::Hold(held), "hold");
    for client in &mut clients {
        client.write_all(b"both").expect("the kernel takes it");
        client.shutdown(Shutdown::Write).expect("a socket");
    }
    drop(let_go);
    for client in &mut clients {
        assert_eq!(read_to_end(client), b"both");
    }
    server.finish();
}

#[test]
fn what_stands_behind_urgent_data_is_read_without_more_coming() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    server.wait_for(|event| matches!(event, Event::Opened(_)));
    server.command(Command::Pause, "pause");
    client.write_all(b"before").expect("the kernel takes it");
    rustix::net::send(&client, b"!", SendFlags::OOB).expect("the kernel takes it");
    client.write_all(b"behind").expect("the kernel takes it");
    // So that all of it is there when the first is read.
    let mut other = server.client();
    echoed(&mut other, b"between");
    server.command(Command::Resume, "resume");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).expect("both come back");
    assert_eq!(&answer, b"beforebehind");
    server.finish();
}

#[test]
fn what_came_before_a_time_that_is_over_is_told_of_first() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    echoed(&mut client, b"here");
    // While the loop is kept from looking, the time comes, and bytes do.
    let (release, hold) = channel();
    server.command(Command::Hold(hold), "hold");
    client.write_all(b"in time").expect("room in the buffers");
    let wakes = server.commands.send(Command::WakeIn(Duration::ZERO));
    wakes.expect("the driver runs");
    drop(release);
    let what = |event: &Event| matches!(event, Event::Received(_) | Event::Ticked);
    server.wait_for(|event| *event == Event::Done("wake"));
    assert_eq!(server.wait_for(what), Event::Received(7));
    assert_eq!(server.wait_for(what), Event::Ticked);
    server.finish();
}
