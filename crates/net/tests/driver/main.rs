//! A handler that echoes, driven on real loopback sockets.
//!
//! Each test runs the driver on its own thread turn by turn, so clients are plain blocking sockets.
//! Nothing sleeps: a client's read, or a message from the handler, says that something happened.

mod accepting;
mod connecting;
mod crowds;
mod echo;
mod ends;
mod input;

use echo::*;
use rhythm_net::*;
use std::time::Duration;

#[test]
fn a_wake_up_comes_with_nothing_else_happening() {
    let server = serve(DriverOptions::default());
    for wait in [
        Duration::ZERO,
        Duration::from_micros(300),
        Duration::from_millis(3),
    ] {
        server.command(Command::WakeIn(wait), "wake");
        server.wait_for(|event| *event == Event::Ticked);
    }
    server.finish();
}

#[test]
fn a_waker_wakes_from_any_thread_with_its_token() {
    let server = serve(DriverOptions::default());
    let waker = server.waker.clone();
    for _ in 0..100 {
        let waker = waker.clone();
        std::thread::spawn(move || waker.wake())
            .join()
            .expect("waking cannot fail");
        assert_eq!(server.wait_for(|_| true), Event::Notified(COMMANDS));
    }
    server.finish();
}
