//! A node dies under load: what is lost, and for how long clients wait.

use super::client::Client;
use super::report::Death;
use crate::reproduce::error::ReproduceError;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
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
/// How long nobody may answer before that is not a matter of one node any more.
const GIVES_UP_AFTER: Duration = Duration::from_secs(30);

/// Has clients write and read, kills a node, and says what became of what was confirmed.
///
/// # Errors
/// No node answers any more.
pub(super) fn watch(
    places: &[SocketAddr],
    victim: usize,
    kill: impl FnOnce(),
) -> Result<Death, ReproduceError> {
    let value = "x".repeat(64);
    let known: Vec<String> = (0..READ).map(|key| format!("known-{key}")).collect();
    let mut client = Client::new(places, 0, GIVES_UP_AFTER);
    (known.iter()).try_for_each(|key| client.set(key, &value))?;
    let ends = AtomicBool::new(false);
    let write = |writer: usize| {
        let mut client = Client::new(places, writer, GIVES_UP_AFTER);
        let (mut keys, mut longest) = (Vec::new(), Duration::ZERO);
        while !ends.load(Ordering::Relaxed) {
            let key = format!("{writer}-{}", keys.len());
            let began = Instant::now();
            client.set(&key, &value)?;
            longest = longest.max(began.elapsed());
            keys.push(key);
            thread::sleep(PAUSE);
        }
        Ok((keys, longest))
    };
    let read = |reader: usize| {
        let mut client = Client::new(places, reader, GIVES_UP_AFTER);
        let mut longest = Duration::ZERO;
        for key in known.iter().cycle() {
            if ends.load(Ordering::Relaxed) {
                break;
            }
            let began = Instant::now();
            // It may be lost itself, and is to be answered all the same.
            client.count(std::slice::from_ref(key))?;
            longest = longest.max(began.elapsed());
            thread::sleep(PAUSE);
        }
        Ok(longest)
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
        (all_of(writers), all_of(readers))
    });
    let (written, readers) = (written?, readers?);
    let rest: Vec<SocketAddr> = (places.iter().enumerate())
        .filter(|(node, _)| *node != victim)
        .map(|(_, place)| *place)
        .collect();
    let mut client = Client::new(&rest, 0, GIVES_UP_AFTER);
    let (mut confirmed, mut found) = (0, 0);
    for (keys, _) in &written {
        confirmed += keys.len();
        for batch in keys.chunks(BATCH) {
            found += client.count(batch)?;
        }
    }
    let longest =
        |all: &mut dyn Iterator<Item = Duration>| all.max().unwrap_or_default().as_secs_f64() * 1e3;
    Ok(Death {
        confirmed,
        lost: confirmed - found,
        write_wait_ms: longest(&mut written.iter().map(|(_, longest)| *longest)),
        read_wait_ms: longest(&mut readers.into_iter()),
    })
}

/// What each of these came to, or the first error.
fn all_of<T>(
    clients: Vec<ScopedJoinHandle<'_, Result<T, ReproduceError>>>,
) -> Result<Vec<T>, ReproduceError> {
    let ended = clients.into_iter().map(ScopedJoinHandle::join);
    // A mistake of ours is one here, too.
    (ended.map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))).collect()
}
