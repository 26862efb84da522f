//! The access log: a line for each answer, written by a thread of its own.
//!
//! ```text
//!   worker: LogSink --- full buffers, bounded ---> LogWriter's thread ---> file, pipe
//!                  <--- empty ones, to be filled ---
//! ```
//!
//! A writer that cannot keep up, or whose lines cannot be written, costs lines, which are counted,
//! but never time: neither while the server runs nor when it ends. The file is opened again where
//! that is asked for, as who rotates logs does; that is the thread's work, too.
//!
//! A line tells the bytes of an answer's body that were handed to its connection; of an answer in
//! pieces, those that the socket took.

mod line;
mod writer;

pub(crate) use line::LogEntry;
pub use writer::LogOpener;
pub(crate) use writer::LogWriter;

use line::{Line, line_max, write_common, write_json};
use rhythm_engine::settings::AccessLogFormat;
use rhythm_http::Answered;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// A buffer is handed over when it holds this many bytes, or before a line that would not fit.
const BUFFER_BYTES: usize = 16 * 1024;
/// Buffers on their way to the writer at most.
const BUFFERS_MAX: usize = 256;
/// Empty buffers on their way back to a worker at most; what a burst needed beyond is given up.
const BUFFERS_KEPT: usize = 4;

/// The most that the log of so many workers keeps of lines that are not written yet, of requests
/// whose heads are so long.
pub(crate) fn bytes_max(format: AccessLogFormat, workers: usize, head_max: usize) -> usize {
    let buffers = BUFFERS_MAX + 1 + workers * (BUFFERS_KEPT + 1);
    buffers.saturating_mul(BUFFER_BYTES.max(line_max(format, head_max)))
}

/// Lines on their way to the writer.
#[derive(Debug)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
    /// Where the buffer goes when it is empty.
    back: SyncSender<Vec<u8>>,
}

/// What all ends of the log have in common: how it fares.
#[derive(Debug, Default)]
pub struct LogState {
    /// Handed over, and neither written nor lost yet.
    waiting: AtomicU64,
    /// Never written.
    dropped: AtomicU64,
    /// Writes that failed.
    failures: AtomicU64,
    /// The file is to be opened again.
    reopen: AtomicBool,
}

impl LogState {
    /// Lines that were never written, and writes that failed: metrics.
    pub(crate) fn lost_and_failed(&self) -> (u64, u64) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (get(&self.dropped), get(&self.failures))
    }

    /// So many that were handed over are lost.
    fn lost(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The names of services, as lines have them; none where there is one.
type Services = Arc<[String]>;

/// A worker's end of the log.
#[derive(Debug)]
pub struct LogSink {
    format: AccessLogFormat,
    services: Services,
    buffer: Vec<u8>,
    lines: u64,
    channel: SyncSender<Lines>,
    /// Buffers that come back, and what they come back by.
    empty: Receiver<Vec<u8>>,
    back: SyncSender<Vec<u8>>,
    state: Arc<LogState>,
}

impl LogSink {
    /// What lines are like.
    pub(crate) fn format(&self) -> AccessLogFormat {
        self.format
    }

    /// Adds a line.
    pub(crate) fn entry(
        &mut self,
        entry: LogEntry<'_>,
        answered: Answered,
        took: Duration,
        at: u64,
    ) {
        let room = line_max(self.format, entry.request.len());
        if self.buffer.len() + room > BUFFER_BYTES {
            self.flush();
            self.buffer.reserve_exact(room);
        }
        let services = (!self.services.is_empty()).then_some(&self.services);
        let line = Line {
            entry,
            service: services.map(|all| entry.site.map_or("-", |site| &all[site])),
            answered,
            took,
            at,
        };
        match self.format {
            AccessLogFormat::Common => write_common(&line, false, &mut self.buffer),
            AccessLogFormat::Combined => write_common(&line, true, &mut self.buffer),
            AccessLogFormat::Json => write_json(&line, &mut self.buffer),
        }
        self.lines += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn new(
        format: AccessLogFormat,
        services: Services,
        channel: SyncSender<Lines>,
        state: Arc<LogState>,
    ) -> LogSink {
        let (back, empty) = sync_channel(BUFFERS_KEPT);
        LogSink {
            format,
            services,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            lines: 0,
            channel,
            empty,
            back,
            state,
        }
    }

    /// Hands over what there is.
    pub(crate) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let count = std::mem::take(&mut self.lines);
        let lines = Lines {
            bytes: std::mem::take(&mut self.buffer),
            count,
            back: self.back.clone(),
        };
        // Before it may be written.
        self.state.waiting.fetch_add(count, Ordering::Relaxed);
        self.buffer = match self.channel.try_send(lines) {
            Ok(()) => (self.empty.try_recv()).unwrap_or_else(|_| Vec::with_capacity(BUFFER_BYTES)),
            Err(TrySendError::Full(mut lines) | TrySendError::Disconnected(mut lines)) => {
                self.state.lost(count);
                lines.bytes.clear();
                lines.bytes
            }
        };
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::line::service_name;
    use super::line::tests::entry;
    use super::*;
    use crate::trace::RequestId;

    const FORMATS: [AccessLogFormat; 3] = [
        AccessLogFormat::Common,
        AccessLogFormat::Combined,
        AccessLogFormat::Json,
    ];

    pub(super) fn answer(sink: &mut LogSink) {
        let answered = Answered {
            status: 200,
            body_length: 5,
        };
        sink.entry(entry("GET / HTTP/1.1"), answered, Duration::ZERO, 0);
    }

    #[test]
    fn no_buffer_is_larger_than_its_bound_whatever_lines_are() {
        const REQUEST_MAX: usize = 12 << 10;
        let longest = "\"".repeat(REQUEST_MAX);
        let id = RequestId::taken(&[b'x'; RequestId::BYTES_MAX]);
        let answered = Answered {
            status: 200,
            body_length: u64::MAX,
        };
        let services: Services = [service_name(&"\"\u{7}".repeat(99))].into();
        for format in FORMATS {
            let (channel, handed) = sync_channel(1000);
            let mut sink = LogSink::new(format, services.clone(), channel, Arc::default());
            for length in (0..REQUEST_MAX).step_by(1000).chain([REQUEST_MAX; 3]) {
                let entry = LogEntry {
                    site: Some(0),
                    id,
                    ..entry(&longest[..length])
                };
                sink.entry(entry, answered, Duration::MAX, u64::MAX >> 8);
            }
            drop(sink);
            let (mut lines, mut sizes) = (0, Vec::new());
            for buffer in handed.try_iter() {
                lines += buffer.count;
                sizes.push(buffer.bytes.capacity());
            }
            assert_eq!(lines, 13 + 3);
            let bound = BUFFER_BYTES.max(line_max(format, REQUEST_MAX));
            assert!(sizes.iter().all(|size| *size <= bound), "{sizes:?}");
        }
    }

    #[test]
    fn lines_of_several_services_have_their_names() {
        let (channel, handed) = sync_channel(1);
        let services: Services = ["bank", "a shop"].map(service_name).into();
        for format in FORMATS {
            let mut sink = LogSink::new(format, services.clone(), channel.clone(), Arc::default());
            for site in [Some(0), Some(1), None] {
                let entry = LogEntry {
                    site,
                    ..entry("GET / HTTP/1.1")
                };
                sink.entry(entry, Answered::bare(200), Duration::ZERO, 0);
            }
            drop(sink);
            let lines = handed.try_recv().expect("they are handed over");
            let text = String::from_utf8(lines.bytes).expect("text");
            let all = text.lines().zip(["bank", "a_shop", "-"]);
            for (line, name) in all {
                let begins = match format {
                    AccessLogFormat::Common | AccessLogFormat::Combined => {
                        format!("{name} 192.0.2.1 - - [")
                    }
                    AccessLogFormat::Json => format!("{{\"time\":0,\"service\":\"{name}\","),
                };
                assert!(line.starts_with(&begins), "{line}");
            }
        }
    }

    #[test]
    fn a_stuck_writer_costs_lines_not_time() {
        let (channel, stuck) = sync_channel(1);
        let state = Arc::<LogState>::default();
        let mut sink = LogSink::new(AccessLogFormat::Common, [].into(), channel, state.clone());
        for _ in 0..3 {
            answer(&mut sink);
            answer(&mut sink);
            sink.flush();
        }
        assert_eq!(state.dropped.load(Ordering::Relaxed), 4);
        assert_eq!(state.waiting.load(Ordering::Relaxed), 2);
        assert_eq!(stuck.try_iter().count(), 1);
    }
}
