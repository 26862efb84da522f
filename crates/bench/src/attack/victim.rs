//! A client that has nothing to do with an attack, and what it feels of it.
//!
//! One request a millisecond on a connection that is kept. Those that fall due before the answer to
//! the one before has come are not sent, and count all the same, each as if its answer had come
//! with that one (no coordinated omission; they would otherwise queue up behind each other, which
//! is not the server's doing). A wait counts from sending: that the victim's thread is let run
//! late, beside an attack's, is not the server's doing either. Who gets no answer, or another than
//! is due, waits on until there is one: a server that answers nobody is not a fast one.

use super::options::{AttackError, AttackOptions};
use super::priority::go_first;
use super::report::{Felt, Waits};
use crate::load::{AnswerReader, BODY_MAX, latency_histogram};
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
    /// Until it is stopped.
    thread: Option<JoinHandle<Result<[Told; 2], AttackError>>>,
}

impl Drop for Victim {
    /// Where others could not begin, it does not go on for ever.
    fn drop(&mut self) {
        self.enter(Phase::Over);
    }
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
            thread: Some(thread),
        })
    }

    /// What it feels counts for this phase from now on.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as usize, Ordering::Relaxed);
    }

    /// Whether it still asks; it stops only for want of a priority, which [`Victim::stop`] tells.
    pub(super) fn is_well(&self) -> bool {
        (self.thread.as_ref()).is_some_and(|thread| !thread.is_finished())
    }

    /// Has it stop, and tells what it felt.
    pub(super) fn stop(mut self) -> Result<Felt, AttackError> {
        self.enter(Phase::Over);
        let thread = self.thread.take().expect("it is stopped once");
        let [quiet, beside] = thread.join().expect("a victim does not panic")?;
        Ok(Felt {
            target: std::mem::take(&mut self.target),
            quiet: quiet.waits(),
            beside: beside.waits(),
        })
    }
}

/// Asks until it is over, and tells what it felt of each phase.
fn ask(mut client: Client, phase: &AtomicUsize) -> [Told; 2] {
    let mut told = [Told::new(), Told::new()];
    let mut due = Instant::now();
    let mut current = Phase::Quiet as usize;
    // Since when it asks in vain.
    let mut since = None;
    loop {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        let before = std::mem::replace(&mut current, phase.load(Ordering::Relaxed));
        if before != current
            && let Some(since) = since.take()
        {
            told[before].waited(sent - since);
        }
        let Some(told) = told.get_mut(current) else {
            return told;
        };
        let outcome = client.answer();
        let now = Instant::now();
        match outcome {
            Ok(()) => told.answered(now - since.take().unwrap_or(sent)),
            Err(error) => {
                since.get_or_insert(sent);
                told.fail(error);
            }
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
    answers: u64,
    failed: u64,
    failure: Option<String>,
}

impl Told {
    fn new() -> Told {
        Told {
            nanos: latency_histogram(),
            answers: 0,
            failed: 0,
            failure: None,
        }
    }

    /// An answer came after so long, and with it those to the requests that fell due meanwhile.
    fn answered(&mut self, waited: Duration) {
        self.answers += 1;
        self.waited(waited);
    }

    /// So long it waited, and so did those whose requests fell due meanwhile.
    fn waited(&mut self, waited: Duration) {
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
            answers: self.answers,
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
            reader: AnswerReader::new(BODY_MAX),
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
        // A server that says a little now and then has not answered.
        let until = Instant::now() + ANSWER_MAX;
        stream.write_all(&self.request)?;
        loop {
            let length = stream.read(&mut self.buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
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
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;

    /// Answers so many requests with status 200, and all others with 503.
    fn serve(listener: &TcpListener, rightly: usize, answers: &AtomicUsize) {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 4096];
            while let Ok(1..) = stream.read(&mut buffer) {
                let before = answers.fetch_add(1, Ordering::Relaxed);
                let status = if before < rightly { 200 } else { 503 };
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_server_that_refuses_everybody_has_let_them_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let answers = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&answers);
        thread::spawn(move || serve(&listener, 1, &counts));
        let client = Client::connect("/", server).expect("it listens");
        let phase = AtomicUsize::new(Phase::Quiet as usize);
        let [quiet, beside] = thread::scope(|scope| {
            let asking = scope.spawn(|| ask(client, &phase));
            while answers.load(Ordering::Relaxed) < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            phase.store(Phase::Beside as usize, Ordering::Relaxed);
            thread::sleep(Duration::from_secs(1));
            phase.store(Phase::Over as usize, Ordering::Relaxed);
            asking.join().expect("it does not panic").map(Told::waits)
        });
        assert_eq!(quiet.answers, 1, "{quiet:?}");
        assert!(beside.answers == 0 && beside.failed > 1, "{beside:?}");
        assert!(beside.max > 300_000.0, "{beside:?}");
        let target = String::new();
        let felt = Felt {
            target,
            quiet,
            beside,
        };
        assert_eq!(felt.ratio(), Some(f64::INFINITY));
    }
}
