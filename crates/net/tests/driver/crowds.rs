//! A crowd of newcomers beside a handler that is busy.

use crate::echo::ROLE;
use rhythm_net::*;
use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;

const CROWD: usize = 400;

/// Works for a while in each turn, whoever is there, and counts turns until all of the crowd were
/// heard.
#[derive(Default)]
struct Busy {
    has_worked: bool,
    heard: usize,
    turns: usize,
}

impl Handler for Busy {
    fn opened(&mut self, _: &mut dyn Port, _: Accepted, _: Time) {}

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, _: &[u8], _: Time) {
        port.pause(id);
        self.heard += 1;
    }

    fn idle(&mut self, _: &mut dyn Port, _: Time) {
        if !std::mem::replace(&mut self.has_worked, true) {
            sleep(20 * TURN_MAX);
        }
    }

    fn turn_ended(&mut self, _: Time) {
        self.has_worked = false;
        self.turns += 1;
    }

    fn wake_at(&self) -> Option<Time> {
        Some(Time::ZERO)
    }

    fn finished(&self) -> bool {
        self.heard >= CROWD
    }
}

#[test]
fn long_turns_that_are_not_their_doing_do_not_keep_newcomers_waiting() {
    let listener = Listener::bind(
        "127.0.0.1:0".parse().expect("an address"),
        &ListenOptions::default(),
    );
    let listener = listener.expect("a free port");
    let address = listener.local_address();
    let mut driver = Driver::new(&DriverOptions::default()).expect("few files are open");
    driver
        .add_listener(listener, ROLE)
        .expect("there is memory");
    let mut crowd: Vec<TcpStream> = (0..CROWD)
        .map(|_| TcpStream::connect(address).expect("the queue is long"))
        .collect();
    for client in &mut crowd {
        client.write_all(b"at last").expect("the kernel takes it");
    }
    let mut busy = Busy::default();
    driver.run(&mut busy).expect("epoll works");
    // Two in a turn would take as many turns as half of them are.
    assert!(busy.turns < CROWD / 4, "{} turns", busy.turns);
}
