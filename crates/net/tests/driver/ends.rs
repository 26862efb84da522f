//! What is sent to who does not read, and how connections end.

use crate::echo::*;
use rhythm_net::*;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

#[test]
fn a_reader_that_stalls_is_not_sent_more_than_fits_and_gets_all_in_the_end() {
    const LENGTH: usize = 24 << 20;
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    let mut writer = client.try_clone().expect("few files are open");
    let writing = std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..LENGTH).map(|n| (n / 251) as u8).collect();
        writer
            .write_all(&bytes)
            .expect("the server reads in the end");
        writer
            .shutdown(Shutdown::Write)
            .expect("a connected socket");
    });
    // The echo fills both sockets' buffers while nobody reads; the driver goes on serving others.
    server.wait_for(|event| *event == Event::Full);
    let mut other = server.client();
    echoed(&mut other, b"beside");
    let all = read_to_end(&mut client);
    writing.join().expect("the writer's assertions");
    assert_eq!(all.len(), LENGTH);
    assert!(
        all.iter()
            .enumerate()
            .all(|(n, byte)| *byte == (n / 251) as u8)
    );
    server.wait_for(|event| *event == Event::Writable);
    server.finish();
}

#[test]
fn closing_with_unread_input_still_delivers_the_answer() {
    let server = serve(DriverOptions {
        receive_bytes: 16,
        ..DriverOptions::default()
    });
    let mut client = server.client();
    server.command(Command::CloseOnInput, "on input");
    // The handler closes upon the first 16 bytes. A plain close would reset the connection for the
    // rest, and lose the answer.
    client
        .write_all(&[b'x'; 100_000])
        .expect("the kernel takes it");
    assert_eq!(read_to_end(&mut client), b"bye");
    drop(client);
    server.finish();
}

#[test]
fn a_closed_connection_whose_client_stays_is_dropped_in_time() {
    let linger = Duration::from_millis(20);
    let server = serve(DriverOptions {
        linger,
        connections_max: 1,
        ..DriverOptions::default()
    });
    let mut client = server.client();
    server.command(Command::CloseOnInput, "on input");
    client.write_all(b"please").expect("the server reads");
    assert_eq!(read_to_end(&mut client), b"bye");
    // The client keeps its end open. The only slot becomes free all the same.
    let mut other = server.client();
    echoed(&mut other, b"my turn");
    drop(client);
    server.finish();
}

#[test]
fn an_aborted_connection_is_reset() {
    let server = serve(DriverOptions::default());
    let mut client = server.client();
    server.command(Command::AbortOnInput, "on input");
    client.write_all(b"please").expect("the server reads");
    let error = client.read(&mut [0; 8]).expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    server.finish();
}
