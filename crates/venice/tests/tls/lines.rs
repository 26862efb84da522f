//! The lines that strangers have a donor and an agent write to their logs: few, whatever they do.

use super::cluster::Agent;
use super::{Monitor, any_port, until};
use rhythm_venice::memory::donor::Donor;
use std::fmt::{Debug, Write as _};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// How many come.
const STRANGERS: usize = 60;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes down what is logged in this process.
struct Taking;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?};", field.name()).expect("room");
    }
}

impl Subscriber for Taking {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        *of.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// How many lines there are that are so.
fn count(is_so: impl Fn(&str) -> bool) -> usize {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| is_so(line)).count()
}

/// Says no greeting, and reads until the connection is closed.
fn say_garbage(stream: &mut (impl Read + Write)) {
    stream.write_all(&[0xff; 4]).expect("it listens");
    while matches!(stream.read(&mut [0; 100]), Ok(1..)) {}
}

/// There is a line, and hardly more than one a second.
fn are_few(is_so: impl Fn(&str) -> bool, begun: Instant) {
    until(|| match count(&is_so) {
        0 => Err("there is no line".to_owned()),
        _ => Ok(()),
    });
    // Those of the last that came.
    thread::sleep(Duration::from_millis(300));
    let (lines, seconds) = (count(&is_so), begun.elapsed().as_secs());
    assert!(lines as u64 <= seconds + 1, "{lines} in {seconds} s");
}

#[test]
fn strangers_have_few_lines_written() {
    tracing::subscriber::set_global_default(Taking).expect("the only one");
    let monitor = Monitor::start();
    let right = monitor.join("right");
    let donor = Donor::start_sealed(any_port(), 1 << 20, &right).expect("a port");
    let begun = Instant::now();
    let peers: Vec<String> = (0..STRANGERS)
        .map(|_| {
            let mut stream = TcpStream::connect(donor.addresses()[0]).expect("it listens");
            say_garbage(&mut stream);
            let peer = stream.local_addr().expect("it is connected");
            format!("{peer} is refused: ")
        })
        .collect();
    are_few(|line| peers.iter().any(|peer| line.contains(peer)), begun);
    let agent = Agent::of(&monitor, "left", false);
    let begun = Instant::now();
    for _ in 0..STRANGERS {
        say_garbage(&mut UnixStream::connect(agent.socket()).expect("it listens"));
    }
    are_few(|line| line.contains("a borrower is disconnected"), begun);
}
