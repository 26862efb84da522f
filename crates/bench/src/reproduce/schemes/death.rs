//! A node dies under load: what is lost, and for how long clients wait.

use super::client::Client;
use super::report::Death;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that write, each a key after the other and each once; and clients that read.
const WRITERS: usize = 4;
const READERS: usize = 2;
/// How long a writer pauses between writes: what is stored is to have room.
const PAUSE: Duration = Duration::from_micros(250);
/// Keys that are read, of all ranges.
const READ: usize = 60;
/// How long clients are at it before a node dies, and after.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(4);
/// Keys that are asked for at a time when it is over.
const BATCH: usize = 50;

/// Has clients write and read, kills a node, and says what became of what was confirmed.
pub(super) fn watch(places: &[SocketAddr], victim: usize, kill: impl FnOnce()) -> Death {
    let value = "x".repeat(64);
    let known: Vec<String> = (0..READ).map(|key| format!("known-{key}")).collect();
    let mut client = Client::new(places, 0);
    known.iter().for_each(|key| client.set(key, &value));
    let ends = AtomicBool::new(false);
    let write = |writer: usize| {
        let mut client = Client::new(places, writer);
        let (mut keys, mut longest) = (Vec::new(), Duration::ZERO);
        while !ends.load(Ordering::Relaxed) {
            let key = format!("{writer}-{}", keys.len());
            let began = Instant::now();
            client.set(&key, &value);
            longest = longest.max(began.elapsed());
            keys.push(key);
            thread::sleep(PAUSE);
        }
        (keys, longest)
    };
    let read = |reader: usize| {
        let mut client = Client::new(places, reader);
        let mut longest = Duration::ZERO;
        for key in known.iter().cycle() {
            if ends.load(Ordering::Relaxed) {
                break;
            }
            let began = Instant::now();
            // It may be lost itself, and is to be answered all the same.
            client.count(std::slice::from_ref(key));
            longest = longest.max(began.elapsed());
            thread::sleep(PAUSE);
        }
        longest
    };
    let (written, readers) = thread::scope(|scope| {
        let (write, read) = (&write, &read);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|reader| scope.spawn(move || read(reader)))
            .collect();
        thread::sleep(BEFORE);
        kill();
        thread::sleep(AFTER);
        ends.store(true, Ordering::Relaxed);
        let written: Vec<_> = writers
            .into_iter()
            .filter_map(|of| of.join().ok())
            .collect();
        let readers: Vec<_> = readers
            .into_iter()
            .filter_map(|of| of.join().ok())
            .collect();
        (written, readers)
    });
    let rest: Vec<SocketAddr> = (places.iter().enumerate())
        .filter(|(node, _)| *node != victim)
        .map(|(_, place)| *place)
        .collect();
    let mut client = Client::new(&rest, 0);
    let (mut confirmed, mut found) = (0, 0);
    for (keys, _) in &written {
        confirmed += keys.len();
        for batch in keys.chunks(BATCH) {
            found += client.count(batch);
        }
    }
    let longest =
        |all: &mut dyn Iterator<Item = Duration>| all.max().unwrap_or_default().as_secs_f64() * 1e3;
    Death {
        confirmed,
        lost: confirmed - found,
        write_wait_ms: longest(&mut written.iter().map(|(_, longest)| *longest)),
        read_wait_ms: longest(&mut readers.into_iter()),
    }
}
