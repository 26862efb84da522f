//! The thread that exports spans: it hands batches to a collector by OTLP over HTTP/1.1.
//!
//! A collector that is not there, slow, or answers nonsense costs spans, which are counted, and
//! nothing else: a try takes `TRY_MAX` at most, beside what the system takes to look up a name, and
//! after one that fails the next comes after a pause that grows. It is of the same spans, for
//! `KEPT_MAX` at most, unless the collector has said that it will not take them (OTLP/HTTP,
//! *Failures*); meanwhile what is beyond the queue's bound is dropped by those who have it.

mod answer;

use super::otlp;
use super::sink::{Batch, ExportState, POST_SPANS, SpanSink};
use crate::timed::{self, again, left};
use answer::Answer;
use rhythm_engine::settings::BackendUrl;
use rhythm_net::clock;
use rhythm_net::sparse::Sparse;
use rhythm_net::tls::Connector;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest that a try takes, from opening a connection to the end of the answer.
const TRY_MAX: Duration = Duration::from_secs(5);

/// Pauses after tries that fail: the first, and the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// For how long the same spans are tried.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Batches that come within this time of the first are posted with it.
const GATHERED_FOR: Duration = Duration::from_millis(500);

/// The time between two lines of the log that say that it fails.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The clock on the wall is looked at anew where it is off by more.
const WALL_OFF_NS_MAX: u64 = 10_000_000;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Exporter {
    channel: Sender<Batch>,
    state: Arc<ExportState>,
    /// Dropped where pauses are to end.
    stop: Sender<()>,
    /// Nothing is ever sent: it is closed when the thread has ended.
    ended: Receiver<()>,
}

impl Exporter {
    /// Starts the thread, which exports for a service of this name: over TLS where there is whom
    /// the collector must be. Once the server ends it has so long to finish.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(
        url: BackendUrl,
        tls: Option<Arc<Connector>>,
        service: &str,
        finish: Duration,
    ) -> io::Result<Exporter> {
        let (sender, batches) = channel::<Batch>();
        let (stop, stopped) = channel();
        let (ends, ended) = sync_channel::<()>(0);
        let state = Arc::<ExportState>::default();
        let mut thread = Exporting {
            url,
            tls,
            service: service.to_owned(),
            state: state.clone(),
            stopped,
            finish,
            until: None,
            pause: PAUSE_FIRST,
            complaints: Sparse::every(COMPLAIN_EVERY),
            wall_zero: wall_zero(),
            body: Vec::new(),
        };
        std::thread::Builder::new()
            .name("trace-export".into())
            .spawn(move || {
                while let Ok(mut batch) = batches.recv() {
                    // What comes in a moment goes with it: each try is a connection.
                    let until = Instant::now() + GATHERED_FOR;
                    while batch.weight < POST_SPANS
                        && let Ok(more) =
                            batches.recv_timeout(until.saturating_duration_since(Instant::now()))
                    {
                        batch.extend(more);
                    }
                    thread.export(&batch);
                }
                drop(ends);
            })?;
        Ok(Exporter {
            channel: sender,
            state,
            stop,
            ended,
        })
    }

    /// What makes ends for workers.
    pub(crate) fn sinks(&self) -> impl Fn() -> SpanSink + Send + Sync + use<> {
        let (channel, state) = (self.channel.clone(), self.state.clone());
        move || SpanSink::new(channel.clone(), state.clone())
    }

    /// Where it is counted how it fares.
    pub(crate) fn state(&self) -> Arc<ExportState> {
        self.state.clone()
    }

    /// Has the thread end once all is exported. All sinks must be gone. Gives what waits for that,
    /// but no longer than until a time.
    pub(crate) fn finish(self) -> impl FnOnce(Instant) {
        drop((self.channel, self.stop));
        let ended = self.ended;
        move |until| {
            let patience = until.saturating_duration_since(Instant::now());
            if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("the collector of traces takes no more: spans are lost");
            }
        }
    }
}

/// What the thread works with.
struct Exporting {
    url: BackendUrl,
    tls: Option<Arc<Connector>>,
    service: String,
    state: Arc<ExportState>,
    stopped: Receiver<()>,
    finish: Duration,
    /// The server ends: until when something may be exported.
    until: Option<Instant>,
    pause: Duration,
    complaints: Sparse,
    /// Nanoseconds from 1970 to where our clock begins.
    wall_zero: u64,
    body: Vec<u8>,
}

impl Exporting {
    /// Exports spans, or drops them.
    fn export(&mut self, batch: &Batch) {
        let (spans, began) = (batch.spans.len(), Instant::now());
        loop {
            let (why, may_be_taken, after) = match self.post(batch) {
                Ok(Answer {
                    status: 200..=299,
                    rejected,
                    ..
                }) => {
                    let rejected = spans.min(rejected);
                    self.state.left(batch.weight);
                    self.state.exported(spans - rejected);
                    self.state.dropped(rejected);
                    self.pause = PAUSE_FIRST;
                    if rejected > 0 {
                        self.tell_rejected(rejected);
                    } else if self.complaints.end() {
                        tracing::info!("the collector of traces takes spans again");
                    }
                    return;
                }
                Ok(Answer { status, after, .. }) => {
                    let why = format!("it answered with status {status}");
                    (why, matches!(status, 429 | 502..=504), after)
                }
                Err(error) => (cause(&error), true, Duration::ZERO),
            };
            let is_kept = may_be_taken && self.until.is_none() && began.elapsed() < KEPT_MAX;
            if !is_kept {
                // Before a pause, during which others may take its room.
                self.state.left(batch.weight);
                self.state.dropped(spans);
            }
            self.failed(&why, after);
            if !is_kept {
                return;
            }
        }
    }

    /// Posts spans, and gives what is answered.
    fn post(&mut self, batch: &Batch) -> io::Result<Answer> {
        let deadline = Instant::now() + TRY_MAX;
        let deadline = self.until.map_or(deadline, |until| until.min(deadline));
        let now = wall_zero();
        if now.abs_diff(self.wall_zero) > WALL_OFF_NS_MAX {
            self.wall_zero = now;
        }
        self.body.clear();
        otlp::write(&batch.spans, &self.service, self.wall_zero, &mut self.body);
        let sent = match deadline > Instant::now() {
            true => post(&self.url, self.tls.as_ref(), &self.body, deadline),
            false => Err(ErrorKind::TimedOut.into()),
        };
        self.body.shrink_to(1 << 20);
        sent
    }

    /// Some of what it took it has not kept (OTLP, *Partial Success*).
    fn tell_rejected(&mut self, rejected: usize) {
        if self.complaints.line(clock::monotonic()).is_some() {
            let [_, dropped, _] = self.state.counts();
            tracing::warn!(
                collector = self.url.authority,
                rejected,
                dropped,
                "the collector of traces rejects spans; its own log may say why"
            );
        }
    }

    /// A try has failed: the next is later, and not before the collector wants it, but not where
    /// the server ends.
    fn failed(&mut self, why: &str, after: Duration) {
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
            match self.stopped.recv_timeout(self.pause.max(after)) {
                Err(RecvTimeoutError::Timeout) | Ok(()) => {
                    self.pause = (2 * self.pause).min(PAUSE_MAX);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.until = Some(Instant::now() + self.finish);
                }
            }
        }
    }
}

/// Why a try failed, in words.
fn cause(error: &io::Error) -> String {
    match error.kind() {
        // Whichever a socket says whose time is over.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("it did not answer within {} s", TRY_MAX.as_secs())
        }
        _ => error.to_string(),
    }
}

/// Nanoseconds from 1970 to where our clock begins.
fn wall_zero() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let wall = since.map_or(0, |since| since.as_nanos() as u64);
    wall.saturating_sub(clock::monotonic().as_nanos())
}

/// Posts a body, and gives what is answered.
fn post(
    url: &BackendUrl,
    tls: Option<&Arc<Connector>>,
    body: &[u8],
    deadline: Instant,
) -> io::Result<Answer> {
    let mut stream = timed::connect(&url.place, tls, deadline)?;
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
    answer::read(&mut *stream, deadline)
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
            let _ = tell.send(post(&url, None, b"{}", deadline).map_err(|error| error.kind()));
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
