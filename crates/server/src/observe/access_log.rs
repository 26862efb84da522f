//! The access log: a line for each answer, written by a thread of its own.
//!
//! ```text
//!   worker: LogSink --- full buffers, bounded ---> LogWriter's thread ---> file, pipe
//!                  <--- empty ones, to be filled ---
//! ```
//!
//! A writer that cannot keep up, or whose lines cannot be written, costs lines, which are counted,
//! but never time: neither while the server runs nor when it ends.

use rhythm_engine::settings::AccessLogFormat;
use rhythm_http::Answered;
use rhythm_protocol::http::request::RequestHead;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// A buffer is handed over when it holds this many bytes.
const BUFFER_BYTES: usize = 16 * 1024;
/// Buffers on their way to the writer at most.
const BUFFERS_MAX: usize = 256;
/// Empty buffers on their way back to a worker at most; what a burst needed beyond is given up.
const BUFFERS_KEPT: usize = 4;
/// How long a server that ends waits for what is still to be written.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(3);

/// What a line tells of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEntry<'a> {
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// Method and target as they came, and the version. All of it is ASCII: the parser of heads
    /// lets nothing else through.
    pub(crate) request: &'a [u8],
}

impl LogEntry<'_> {
    /// Appends the text of [`LogEntry::request`] for a request whose head is complete.
    pub(crate) fn write(head: &RequestHead, bytes: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(head.method().name().as_bytes());
        to.push(b' ');
        to.extend_from_slice(head.target().of(bytes));
        let version = if head.is_http10() { "1.0" } else { "1.1" };
        to.extend_from_slice(b" HTTP/");
        to.extend_from_slice(version.as_bytes());
    }
}

/// What a line is made from.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    entry: LogEntry<'a>,
    answered: Answered,
    /// From the request's last byte to its answer.
    took: Duration,
    /// Seconds since 1970.
    at: u64,
}

/// Lines on their way to the writer.
#[derive(Debug)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
    /// Where the buffer goes when it is empty.
    back: SyncSender<Vec<u8>>,
}

/// Lines counted from all ends.
#[derive(Debug, Default)]
struct Counts {
    /// Handed over, and neither written nor lost yet.
    waiting: AtomicU64,
    /// Never written; a metric.
    dropped: Arc<AtomicU64>,
}

impl Counts {
    /// So many that were handed over are lost.
    fn lost(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }
}

/// A worker's end of the log.
#[derive(Debug)]
pub struct LogSink {
    format: AccessLogFormat,
    buffer: Vec<u8>,
    lines: u64,
    channel: SyncSender<Lines>,
    /// Buffers that come back, and what they come back by.
    empty: Receiver<Vec<u8>>,
    back: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
}

/// The writing thread.
#[derive(Debug)]
pub(crate) struct LogWriter {
    channel: SyncSender<Lines>,
    counts: Arc<Counts>,
    /// Nothing is ever sent: it is closed when the thread has ended.
    ended: Receiver<()>,
    format: AccessLogFormat,
}

impl LogWriter {
    /// Starts a thread that writes to `to`.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start(
        format: AccessLogFormat,
        to: Box<dyn Write + Send>,
    ) -> std::io::Result<LogWriter> {
        let (channel, lines) = sync_channel(BUFFERS_MAX);
        let (ends, ended) = sync_channel::<()>(0);
        let counts = Arc::new(Counts::default());
        let its_counts = counts.clone();
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || {
                write_all(lines, to, &its_counts);
                drop(ends);
            })?;
        Ok(LogWriter {
            channel,
            counts,
            ended,
            format,
        })
    }

    /// What makes ends for a worker, which keeps the log open.
    pub(crate) fn sinks(&self) -> impl Fn() -> LogSink + Send + Sync + use<> {
        let (format, channel, counts) = (self.format, self.channel.clone(), self.counts.clone());
        move || LogSink::new(format, channel.clone(), counts.clone())
    }

    /// Where lines are counted that were never written.
    pub(crate) fn dropped(&self) -> Arc<AtomicU64> {
        self.counts.dropped.clone()
    }

    /// Waits until everything is written, but no longer than this: whoever reads the log may be
    /// stuck, and the thread with it. All sinks must be gone.
    pub(crate) fn finish(self, patience: Duration) {
        drop(self.channel);
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let lines = self.counts.waiting.load(Ordering::Relaxed);
            self.counts.lost(lines);
            tracing::error!(lines, "the access log takes no more: lines are lost");
        }
    }
}

fn write_all(all: Receiver<Lines>, mut to: Box<dyn Write + Send>, counts: &Counts) {
    let mut broken = false;
    for lines in all {
        let Lines {
            mut bytes,
            count,
            back,
        } = lines;
        match to.write_all(&bytes).and_then(|()| to.flush()) {
            Ok(()) => drop(counts.waiting.fetch_sub(count, Ordering::Relaxed)),
            Err(error) => {
                counts.lost(count);
                if !std::mem::replace(&mut broken, true) {
                    tracing::error!(%error, "the access log cannot be written: lines are lost");
                }
            }
        }
        bytes.clear();
        // Its worker may have enough of them, or be gone.
        let _ = back.try_send(bytes);
    }
}

impl LogSink {
    /// Adds a line.
    pub(crate) fn entry(
        &mut self,
        entry: LogEntry<'_>,
        answered: Answered,
        took: Duration,
        at: u64,
    ) {
        let line = Line {
            entry,
            answered,
            took,
            at,
        };
        match self.format {
            AccessLogFormat::Common => write_common(&line, &mut self.buffer),
            AccessLogFormat::Json => write_json(&line, &mut self.buffer),
        }
        self.lines += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn new(format: AccessLogFormat, channel: SyncSender<Lines>, counts: Arc<Counts>) -> LogSink {
        let (back, empty) = sync_channel(BUFFERS_KEPT);
        LogSink {
            format,
            buffer: Vec::new(),
            lines: 0,
            channel,
            empty,
            back,
            counts,
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
        self.counts.waiting.fetch_add(count, Ordering::Relaxed);
        self.buffer = match self.channel.try_send(lines) {
            Ok(()) => (self.empty.try_recv()).unwrap_or_else(|_| Vec::with_capacity(BUFFER_BYTES)),
            Err(TrySendError::Full(mut lines) | TrySendError::Disconnected(mut lines)) => {
                self.counts.lost(count);
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

fn write_common(line: &Line<'_>, to: &mut Vec<u8>) {
    let (year, month, day, hour, minute, second) = civil(line.at);
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // Writing to a Vec cannot fail.
    let _ = write!(
        to,
        "{} - - [{day:02}/{}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000] \"",
        line.entry.peer,
        MONTHS[month as usize - 1],
    );
    for &byte in line.entry.request {
        // What could be mistaken for the end of the field, or for a line of its own, is written as
        // Apache does.
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', byte]),
            0x20..0x7f => to.push(byte),
            _ => drop(write!(to, "\\x{byte:02x}")),
        }
    }
    let _ = writeln!(
        to,
        "\" {} {}",
        line.answered.status, line.answered.body_length
    );
}

fn write_json(line: &Line<'_>, to: &mut Vec<u8>) {
    #[derive(serde::Serialize)]
    struct Json<'a> {
        time: u64,
        peer: IpAddr,
        request: &'a str,
        status: u16,
        bytes: u64,
        seconds: f64,
    }
    // Neither the values nor writing to a Vec can fail.
    let _ = serde_json::to_writer(
        &mut *to,
        &Json {
            time: line.at,
            peer: line.entry.peer,
            request: &String::from_utf8_lossy(line.entry.request),
            status: line.answered.status,
            bytes: line.answered.body_length,
            seconds: line.took.as_secs_f64(),
        },
    );
    to.push(b'\n');
}

/// Year, month, day, hour, minute and second of a moment, in UTC.
fn civil(seconds: u64) -> (i64, u32, u32, u32, u32, u32) {
    let (days, rest) = ((seconds / 86_400) as i64, (seconds % 86_400) as u32);
    // Days are counted from 1 March of year 0, so that a leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = (if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    }) as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day, rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_protocol::http::head::Progress;
    use rhythm_protocol::http::request::{HeadLimits, parse_head};

    fn entry(request: &str) -> LogEntry<'_> {
        LogEntry {
            peer: [192, 0, 2, 1].into(),
            request: request.as_bytes(),
        }
    }

    fn line(entry: LogEntry<'_>) -> Line<'_> {
        let answered = Answered {
            status: 200,
            body_length: 5,
        };
        Line {
            entry,
            answered,
            took: Duration::from_millis(2),
            at: 1_709_164_801,
        }
    }

    #[test]
    fn tells_the_request_line() {
        for (bytes, line) in [
            (
                &b"GET /a?b=%20 HTTP/1.1\r\nHost: h\r\n\r\n"[..],
                "GET /a?b=%20 HTTP/1.1",
            ),
            (b"HEAD / HTTP/1.0\r\n\r\n", "HEAD / HTTP/1.0"),
        ] {
            let mut head = RequestHead::new();
            let parsed = parse_head(&mut head, bytes, &HeadLimits::default());
            assert!(matches!(parsed, Ok(Progress::Complete { .. })), "{line}");
            let mut text = Vec::new();
            LogEntry::write(&head, bytes, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), line);
        }
    }

    #[test]
    fn writes_both_formats() {
        let mut out = Vec::new();
        write_common(&line(entry("GET /a\"b\n HTTP/1.1")), &mut out);
        write_json(&line(entry("GET / HTTP/1.1")), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "192.0.2.1 - - [29/Feb/2024:00:00:01 +0000] \"GET /a\\\"b\\x0a HTTP/1.1\" 200 5\n\
             {\"time\":1709164801,\"peer\":\"192.0.2.1\",\"request\":\"GET / HTTP/1.1\",\
             \"status\":200,\"bytes\":5,\"seconds\":0.002}\n"
        );
    }

    fn answer(sink: &mut LogSink) {
        let answered = Answered {
            status: 200,
            body_length: 5,
        };
        sink.entry(entry("GET / HTTP/1.1"), answered, Duration::ZERO, 0);
    }

    #[test]
    fn a_stuck_writer_costs_lines_not_time() {
        let (channel, stuck) = sync_channel(1);
        let counts = Arc::new(Counts::default());
        let mut sink = LogSink::new(AccessLogFormat::Common, channel, counts.clone());
        for _ in 0..3 {
            answer(&mut sink);
            answer(&mut sink);
            sink.flush();
        }
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 4);
        assert_eq!(counts.waiting.load(Ordering::Relaxed), 2);
        assert_eq!(stuck.try_iter().count(), 1);
    }

    /// Takes what is written once it is let, which is when the other end is gone.
    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_ends_does_not_wait_for_a_reader_that_is_stuck() {
        for (is_stuck, patience, lost) in [
            (true, Duration::from_millis(1), 3),
            (false, Duration::from_secs(60), 0),
        ] {
            let (let_go, held) = sync_channel(0);
            let mut let_go = Some(let_go);
            let log = LogWriter::start(AccessLogFormat::Common, Box::new(Stuck(held))).unwrap();
            let dropped = log.dropped();
            let mut sink = log.sinks()();
            answer(&mut sink);
            sink.flush();
            answer(&mut sink);
            answer(&mut sink);
            drop(sink);
            if !is_stuck {
                let_go = None;
            }
            log.finish(patience);
            assert_eq!(dropped.load(Ordering::Relaxed), lost);
            drop(let_go);
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_buffers_come_back() {
        let (channel, lines) = sync_channel(8);
        let counts = Arc::new(Counts::default());
        let mut sink = LogSink::new(AccessLogFormat::Common, channel, counts.clone());
        for _ in 0..2 {
            answer(&mut sink);
            sink.flush();
        }
        // It has room for less than a line, and for nothing beyond.
        let full: &mut [u8] = Box::leak(Box::new([0; 10]));
        let before = sink.buffer.as_ptr();
        sink.channel = sync_channel(1).0;
        write_all(lines, Box::new(full), &counts);
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 2);
        assert_eq!(counts.waiting.load(Ordering::Relaxed), 0);
        let (first, second) = (sink.empty.try_recv(), sink.empty.try_recv());
        let come_back = [first.unwrap(), second.unwrap()];
        assert!(
            come_back
                .iter()
                .all(|buffer| buffer.is_empty() && buffer.capacity() > 0)
        );
        assert!(come_back.iter().all(|buffer| buffer.as_ptr() != before));
    }
}
