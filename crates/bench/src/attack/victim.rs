//! A client that has nothing to do with an attack, and what it feels of it.
//!
//! One request a millisecond on a connection that is kept. Those that fall due before the answer
//! to the one before has come are not sent, and count all the same, each as if its answer had come
//! with that one (no coordinated omission; they would otherwise queue up behind each other, which
//! is not the server's doing).

use super::options::{AttackError, AttackOptions};
use super::priority::go_first;
use super::report::{Felt, Waits};
use crate::load::{AnswerReader, latency_histogram};
use hdrhistogram::Histogram;
use rustix::thread::set_current_timer_slack;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A request falls due so often.
const EVERY: Duration = Duration::from_millis(1);
/// An answer that has not come by then does not come.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// After what failed.
const RETRY: Duration = Duration::from_millis(20);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What a victim's waits count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Quiet,
    Beside,
    Over,
}

/// A victim at work, on a thread of its own.
#[derive(Debug)]
pub(super) struct Victim {
    target: String,
    phase: Arc<AtomicUsize>,
    thread: JoinHandle<Result<[Told; 2], AttackError>>,
}

impl Victim {
    /// Begins to ask for `target`.
    pub(super) fn start(target: &str, options: &AttackOptions) -> Result<Victim, AttackError> {
        let mut client = Client::connect(target, options.server)
            .map_err(|error| AttackError::Connect(options.server, error))?;
        (client.answer()).map_err(|error| AttackError::Unanswered(target.to_owned(), error))?;
        let phase = Arc::new(AtomicUsize::new(Phase::Quiet as usize));
        let goes_first = options.victims_first;
        let thread = thread::Builder::new().name(format!("victim {target}"));
        let thread = thread.spawn({
            let phase = phase.clone();
            move || {
                // Else the kernel may wake it 50 us late to save power.
                let _ = set_current_timer_slack(NonZeroU64::new(1_000));
                if goes_first {
                    go_first()?;
                }
                Ok(ask(client, &phase))
            }
        })?;
        Ok(Victim {
            target: target.to_owned(),
            phase,
            thread,
        })
    }

    /// What it feels counts for this phase from now on.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as usize, Ordering::Relaxed);
    }

    /// Whether it still asks; it stops only for want of a priority, which [`Victim::stop`] tells.
    pub(super) fn is_well(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Has it stop, and tells what it felt.
    pub(super) fn stop(self) -> Result<Felt, AttackError> {
        self.enter(Phase::Over);
        let [quiet, beside] = self.thread.join().expect("a victim does not panic")?;
        Ok(Felt {
            target: self.target,
            quiet: quiet.waits(),
            beside: beside.waits(),
        })
    }
}

/// Asks until it is over, and tells what it felt of each phase.
fn ask(mut client: Client, phase: &AtomicUsize) -> [Told; 2] {
    let mut told = [Told::new(), Told::new()];
    let mut due = Instant::now();
    loop {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let Some(told) = told.get_mut(phase.load(Ordering::Relaxed)) else {
            return told;
        };
        let sent = Instant::now();
        let outcome = client.answer();
        let now = Instant::now();
        match outcome {
            Ok(()) => told.answered(now - sent),
            Err(error) => told.fail(error),
        }
        due += EVERY;
        if now > due {
            due = now;
        }
        if client.stream.is_none() {
            // What fell due meanwhile would fail the same way, at once.
            due += RETRY;
        }
    }
}

/// What a victim felt in a phase.
#[derive(Debug)]
struct Told {
    nanos: Histogram<u64>,
    failed: u64,
    failure: Option<String>,
}

impl Told {
    fn new() -> Told {
        Told {
            nanos: latency_histogram(),
            failed: 0,
            failure: None,
        }
    }

    /// An answer came after so long, and with it those to the requests that fell due meanwhile.
    fn answered(&mut self, waited: Duration) {
        let [waited, every] = [waited, EVERY].map(|time| time.as_nanos() as u64);
        // What is longer than can be told of is told of as the longest.
        let waited = waited.min(self.nanos.high());
        let recorded = self.nanos.record_correct(waited, every);
        debug_assert!(recorded.is_ok(), "{waited} ns are not too long");
    }

    fn fail(&mut self, error: io::Error) {
        self.failed += 1;
        self.failure.get_or_insert(error.to_string());
    }

    fn waits(self) -> Waits {
        let micros = |nanos| nanos as f64 / 1e3;
        Waits {
            answers: self.nanos.len(),
            failed: self.failed,
            failure: self.failure,
            p50: micros(self.nanos.value_at_quantile(0.5)),
            p99: micros(self.nanos.value_at_quantile(0.99)),
            max: micros(self.nanos.max()),
        }
    }
}

/// One request at a time on a connection that is kept.
#[derive(Debug)]
struct Client {
    server: SocketAddr,
    request: Vec<u8>,
    /// `None` after a failure.
    stream: Option<TcpStream>,
    reader: AnswerReader,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(target: &str, server: SocketAddr) -> io::Result<Client> {
        Ok(Client {
            server,
            request: format!("GET {target} HTTP/1.1\r\nHost: {server}\r\n\r\n").into_bytes(),
            stream: Some(connect(server)?),
            reader: AnswerReader::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Asks, and waits for the whole answer.
    fn answer(&mut self) -> io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.server)?,
        };
        self.reader.clear();
        stream.write_all(&self.request)?;
        loop {
            let length = stream.read(&mut self.buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut data = std::mem::take(&mut self.reader.stored);
            data.extend_from_slice(&self.buffer[..length]);
            let whole = self.reader.next(&data, false, false);
            self.reader.stored = data;
            match whole.map_err(io::Error::other)? {
                None => {}
                Some(_) if self.reader.head.status() != 200 => {
                    let status = self.reader.head.status();
                    return Err(io::Error::other(format!("status {status}")));
                }
                Some(_) => break,
            }
        }
        self.stream = Some(stream);
        Ok(())
    }
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, ANSWER_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}
