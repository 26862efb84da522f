//! The thread that exports spans: it hands batches to a collector by OTLP over HTTP/1.1.
//!
//! A collector that is not there, slow, or answers nonsense costs its spans, which are counted, and
//! nothing else: a try takes `TRY_MAX` at most, and after one that fails the next comes after a
//! pause that grows, while what is beyond the queue's bound is dropped by those who have it.

use super::otlp;
use super::sink::{BATCHES_MAX, ExportState, SpanSink};
use super::span::Span;
use crate::timed::{self, left};
use rhythm_engine::settings::BackendUrl;
use rhythm_net::clock;
use rhythm_net::sparse::Sparse;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest that a try takes, from opening a connection to the answer's status.
const TRY_MAX: Duration = Duration::from_secs(5);

/// Pauses after tries that fail: the first, and the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a server that ends waits for what is to be exported.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(3);

/// Bytes of an answer's status line that are waited for.
const STATUS_BYTES: usize = 12;

/// The time between two lines of the log that say that it fails.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The clock on the wall is looked at anew where it is off by more.
const WALL_OFF_MAX: u64 = 10_000_000;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Exporter {
    /// Taken away when nothing more is to come.
    channel: Mutex<Option<SyncSender<Vec<Span>>>>,
    state: Arc<ExportState>,
    /// Dropped where pauses are to end.
    stop: Sender<()>,
    /// Nothing is ever sent: it is closed when the thread has ended.
    ended: Receiver<()>,
}

impl Exporter {
    /// Starts the thread, which exports for a service of this name.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(url: BackendUrl, service: &str) -> io::Result<Exporter> {
        let (sender, batches) = sync_channel::<Vec<Span>>(BATCHES_MAX);
        let (stop, stopped) = channel();
        let (ends, ended) = sync_channel::<()>(0);
        let state = Arc::<ExportState>::default();
        let mut thread = Exporting {
            url,
            service: service.to_owned(),
            state: state.clone(),
            stopped,
            until: None,
            pause: PAUSE_FIRST,
            complaints: Sparse::every(COMPLAIN_EVERY),
            wall_zero: wall_zero(),
            body: Vec::new(),
        };
        std::thread::Builder::new()
            .name("trace-export".into())
            .spawn(move || {
                for batch in batches {
                    thread.export(&batch);
                }
                drop(ends);
            })?;
        Ok(Exporter {
            channel: Mutex::new(Some(sender)),
            state,
            stop,
            ended,
        })
    }

    /// What makes ends for workers.
    pub(crate) fn sinks(&self) -> impl Fn() -> SpanSink + Send + Sync + use<> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channel.clone().expect("it is taken away at the end");
        let state = self.state.clone();
        move || SpanSink::new(channel.clone(), state.clone())
    }

    /// Where it is counted how it fares.
    pub(crate) fn state(&self) -> Arc<ExportState> {
        self.state.clone()
    }

    /// Waits until all is exported, but no longer than this. All sinks must be gone.
    pub(crate) fn finish(self, patience: Duration) {
        drop((self.channel.lock().unwrap_or_else(PoisonError::into_inner)).take());
        drop(self.stop);
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the collector of traces takes no more: spans are lost");
        }
    }
}

/// What the thread works with.
struct Exporting {
    url: BackendUrl,
    service: String,
    state: Arc<ExportState>,
    stopped: Receiver<()>,
    /// The server ends: until when something may be exported.
    until: Option<Instant>,
    pause: Duration,
    complaints: Sparse,
    /// Nanoseconds from 1970 to where our clock begins.
    wall_zero: u64,
    body: Vec<u8>,
}

impl Exporting {
    fn export(&mut self, spans: &[Span]) {
        let deadline = Instant::now() + TRY_MAX;
        let deadline = self.until.map_or(deadline, |until| until.min(deadline));
        let now = wall_zero();
        if now.abs_diff(self.wall_zero) > WALL_OFF_MAX {
            self.wall_zero = now;
        }
        self.body.clear();
        otlp::write(spans, &self.service, self.wall_zero, &mut self.body);
        let sent = match deadline > Instant::now() {
            true => post(&self.url, &self.body, deadline),
            false => Err(ErrorKind::TimedOut.into()),
        };
        match sent {
            Ok(200..=299) => {
                self.state.exported(spans.len());
                self.pause = PAUSE_FIRST;
                if self.complaints.end() {
                    tracing::info!("the collector of traces takes spans again");
                }
            }
            Ok(status) => {
                self.failed(spans.len(), &format!("it answered with status {status}"));
            }
            Err(error) => self.failed(spans.len(), &error.to_string()),
        }
        self.body.shrink_to(1 << 20);
    }

    /// A try has failed: the next is later, but not where the server ends.
    fn failed(&mut self, spans: usize, why: &str) {
        self.state.dropped(spans);
        self.state.failed();
        if self.complaints.line(clock::monotonic()).is_some() {
            let [_, dropped, failures] = self.state.counts();
            tracing::warn!(
                collector = self.url.authority,
                cause = why,
                dropped,
                failures,
                "spans of traces cannot be exported; see whether a collector takes OTLP over HTTP \
                 there (`trace.otlp`)"
            );
        }
        if self.until.is_none() {
            match self.stopped.recv_timeout(self.pause) {
                Err(RecvTimeoutError::Timeout) | Ok(()) => {
                    self.pause = (2 * self.pause).min(PAUSE_MAX);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.until = Some(Instant::now() + FINISH_MAX);
                }
            }
        }
    }
}

/// Nanoseconds from 1970 to where our clock begins.
fn wall_zero() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let wall = since.map_or(0, |since| since.as_nanos() as u64);
    wall.saturating_sub(clock::monotonic().as_nanos())
}

/// Posts a body, and gives the status of the answer. Whatever else is answered is not read.
fn post(url: &BackendUrl, body: &[u8], deadline: Instant) -> io::Result<u16> {
    let mut stream = timed::connect(&url.place, deadline)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        url.path,
        url.authority,
        body.len()
    );
    for part in [head.as_bytes(), body] {
        let mut rest = part;
        while !rest.is_empty() {
            stream.set_timeout(left(deadline)?)?;
            let written = again(|| stream.write(rest))?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
    }
    let mut line = [0; STATUS_BYTES];
    let mut read = 0;
    while read < line.len() {
        stream.set_timeout(left(deadline)?)?;
        match again(|| stream.read(&mut line[read..]))? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    let is_http = line.starts_with(b"HTTP/1.") && line[8] == b' ';
    let status = std::str::from_utf8(&line[9..]).ok();
    let status = status.and_then(|status| status.parse().ok());
    (status.filter(|_| is_http)).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn again(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// A collector that hangs has its queue filled by all who connect.
    #[test]
    fn a_full_queue_is_waited_at_for_no_longer_than_a_try_takes() {
        let path = std::env::temp_dir().join(format!("rhythm-export-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        // None waits in its queue beside the first.
        net::listen(&listener, 0).expect("it listens");
        let _first = UnixStream::connect(&path).expect("there is room for one");
        let place = path.clone();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let url = format!("http://unix:{}", place.display());
            let url = url.parse::<BackendUrl>().expect("a URL");
            let deadline = Instant::now() + Duration::from_millis(200);
            let _ = tell.send(post(&url, b"{}", deadline).map_err(|error| error.kind()));
        });
        let posted = told.recv_timeout(Duration::from_secs(10));
        // What still waits is refused now.
        drop(listener);
        let _ = std::fs::remove_file(&path);
        let failed = posted.expect("it gives up").expect_err("nobody took it");
        assert!(
            matches!(failed, ErrorKind::TimedOut | ErrorKind::WouldBlock),
            "{failed}"
        );
    }
}
