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

use rhythm_engine::settings::AccessLogFormat;
use rhythm_http::Answered;
use rhythm_protocol::http::request::RequestHead;
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A buffer is handed over when it holds this many bytes.
const BUFFER_BYTES: usize = 16 * 1024;
/// Buffers on their way to the writer at most.
const BUFFERS_MAX: usize = 256;
/// Empty buffers on their way back to a worker at most; what a burst needed beyond is given up.
const BUFFERS_KEPT: usize = 4;
/// The time between two lines of the server's log that say that writing fails.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// How long a server that ends waits for what is still to be written.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(3);

/// Opens what the access log is written to: at the start, and whenever it is to be opened again. It
/// is called on a thread that may wait.
pub type LogOpener = Box<dyn FnMut() -> io::Result<Box<dyn Write + Send>> + Send>;

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
    state: Arc<LogState>,
}

/// The writing thread.
#[derive(Debug)]
pub(crate) struct LogWriter {
    /// Taken away when nothing more is to come.
    channel: Arc<Mutex<Option<SyncSender<Lines>>>>,
    state: Arc<LogState>,
    /// Nothing is ever sent: it is closed when the thread has ended.
    ended: Receiver<()>,
    format: AccessLogFormat,
}

impl LogWriter {
    /// Opens the log and starts a thread that writes it.
    ///
    /// # Errors
    /// Where it cannot be opened, or no thread can be started.
    pub(crate) fn start(format: AccessLogFormat, mut open: LogOpener) -> io::Result<LogWriter> {
        let (channel, lines) = sync_channel(BUFFERS_MAX);
        let (ends, ended) = sync_channel::<()>(0);
        let state = Arc::<LogState>::default();
        let mut writing = Writing {
            to: open()?,
            open,
            is_torn: false,
            complained: None,
            state: state.clone(),
        };
        std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || {
                writing.write_all(lines);
                drop(ends);
            })?;
        Ok(LogWriter {
            channel: Arc::new(Mutex::new(Some(channel))),
            state,
            ended,
            format,
        })
    }

    /// What has the log opened again.
    pub(crate) fn reopening(&self) -> impl Fn() + Send + Sync + use<> {
        let (state, channel) = (self.state.clone(), self.channel.clone());
        move || {
            state.reopen.store(true, Ordering::Release);
            // Nothing, so that the thread looks. Where it is behind, it looks all the same.
            let nothing = Lines {
                bytes: Vec::new(),
                count: 0,
                back: sync_channel(1).0,
            };
            let channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(channel) = &*channel {
                let _ = channel.try_send(nothing);
            }
        }
    }

    /// What makes ends for a worker, which keeps the log open.
    pub(crate) fn sinks(&self) -> impl Fn() -> LogSink + Send + Sync + use<> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channel.clone().expect("it is taken away at the end");
        let (format, state) = (self.format, self.state.clone());
        move || LogSink::new(format, channel.clone(), state.clone())
    }

    /// Where lines are counted that were never written, and writes that failed.
    pub(crate) fn state(&self) -> Arc<LogState> {
        self.state.clone()
    }

    /// Waits until everything is written, but no longer than this: whoever reads the log may be
    /// stuck, and the thread with it. All sinks must be gone.
    pub(crate) fn finish(self, patience: Duration) {
        drop((self.channel.lock().unwrap_or_else(PoisonError::into_inner)).take());
        if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let lines = self.state.waiting.load(Ordering::Relaxed);
            self.state.lost(lines);
            tracing::error!(lines, "the access log takes no more: lines are lost");
        }
    }
}

/// What the thread works with.
struct Writing {
    to: Box<dyn Write + Send>,
    open: LogOpener,
    /// What was written last is no whole line.
    is_torn: bool,
    /// When it was last said that writing fails; `None` while it does not.
    complained: Option<Instant>,
    state: Arc<LogState>,
}

impl Writing {
    /// Writes what comes, until nothing can come any more.
    fn write_all(&mut self, all: Receiver<Lines>) {
        for lines in all {
            let Lines {
                mut bytes,
                count,
                back,
            } = lines;
            if self.state.reopen.swap(false, Ordering::AcqRel) {
                self.reopen();
            }
            let (whole, ended) = self.write(&bytes);
            let lost = count - whole.min(count);
            self.state
                .waiting
                .fetch_sub(count - lost, Ordering::Relaxed);
            match ended {
                Ok(()) => self.well(),
                Err(error) => {
                    self.state.failures.fetch_add(1, Ordering::Relaxed);
                    self.state.lost(lost);
                    self.complain(&error);
                }
            }
            bytes.clear();
            // Its worker may have enough of them, or be gone.
            let _ = back.try_send(bytes);
        }
    }

    /// Writes as much as can be, and gives how many whole lines that is.
    fn write(&mut self, bytes: &[u8]) -> (u64, io::Result<()>) {
        if self.is_torn && !bytes.is_empty() {
            // What follows is not to join what there is of a line.
            match self.to.write_all(b"\n") {
                Ok(()) => self.is_torn = false,
                Err(error) => return (0, Err(error)),
            }
        }
        let mut rest = bytes;
        let ended = loop {
            if rest.is_empty() {
                break self.to.flush();
            }
            match self.to.write(rest) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let written = &bytes[..bytes.len() - rest.len()];
        self.is_torn = written.last().is_some_and(|last| *last != b'\n');
        (memchr::memchr_iter(b'\n', written).count() as u64, ended)
    }

    fn reopen(&mut self) {
        match (self.open)() {
            Ok(to) => {
                (self.to, self.is_torn) = (to, false);
                tracing::info!("the access log was opened again");
            }
            Err(error) => {
                self.state.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    %error,
                    "the access log cannot be opened again; the old one is kept"
                );
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if (self.complained).is_some_and(|said| said.elapsed() < COMPLAIN_EVERY) {
            return;
        }
        self.complained = Some(Instant::now());
        let (lines_lost, failures) = self.state.lost_and_failed();
        tracing::error!(%error, failures, lines_lost, "the access log cannot be written");
    }

    fn well(&mut self) {
        if self.complained.take().is_some() {
            let (lines_lost, failures) = self.state.lost_and_failed();
            tracing::warn!(failures, lines_lost, "the access log can be written again");
        }
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

    fn new(format: AccessLogFormat, channel: SyncSender<Lines>, state: Arc<LogState>) -> LogSink {
        let (back, empty) = sync_channel(BUFFERS_KEPT);
        LogSink {
            format,
            buffer: Vec::new(),
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
    let Answered {
        status,
        body_length,
    } = line.answered;
    // As the format has it, no bytes are a dash.
    let _ = match body_length {
        0 => writeln!(to, "\" {status} -"),
        length => writeln!(to, "\" {status} {length}"),
    };
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
        let state = Arc::<LogState>::default();
        let mut sink = LogSink::new(AccessLogFormat::Common, channel, state.clone());
        for _ in 0..3 {
            answer(&mut sink);
            answer(&mut sink);
            sink.flush();
        }
        assert_eq!(state.dropped.load(Ordering::Relaxed), 4);
        assert_eq!(state.waiting.load(Ordering::Relaxed), 2);
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

    /// Opens this once.
    fn once(to: impl Write + Send + 'static) -> LogOpener {
        let mut to = Some(to);
        Box::new(move || match to.take() {
            Some(to) => Ok(Box::new(to)),
            None => Err(ErrorKind::NotFound.into()),
        })
    }

    fn writing(to: impl Write + Send + 'static, state: &Arc<LogState>) -> Writing {
        Writing {
            to: Box::new(to),
            open: once(io::sink()),
            is_torn: false,
            complained: None,
            state: state.clone(),
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
            let log = LogWriter::start(AccessLogFormat::Common, once(Stuck(held))).unwrap();
            let state = log.state();
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
            assert_eq!(state.lost_and_failed().0, lost);
            drop(let_go);
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_buffers_come_back() {
        let (channel, lines) = sync_channel(8);
        let state = Arc::<LogState>::default();
        let mut sink = LogSink::new(AccessLogFormat::Common, channel, state.clone());
        for _ in 0..2 {
            answer(&mut sink);
            sink.flush();
        }
        // It has room for less than a line, and for nothing beyond.
        let full: &mut [u8] = Box::leak(Box::new([0; 10]));
        let before = sink.buffer.as_ptr();
        sink.channel = sync_channel(1).0;
        writing(full, &state).write_all(lines);
        assert_eq!(state.lost_and_failed(), (2, 2));
        assert_eq!(state.waiting.load(Ordering::Relaxed), 0);
        let (first, second) = (sink.empty.try_recv(), sink.empty.try_recv());
        let come_back = [first.unwrap(), second.unwrap()];
        assert!(
            come_back
                .iter()
                .all(|buffer| buffer.is_empty() && buffer.capacity() > 0)
        );
        assert!(come_back.iter().all(|buffer| buffer.as_ptr() != before));
    }

    /// Takes so many bytes, and after that none until it is emptied.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (held, room) = &mut *self.0.lock().unwrap();
            let taken = bytes.len().min(*room);
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            held.extend_from_slice(&bytes[..taken]);
            *room -= taken;
            Ok(taken)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(text: &str) -> Lines {
        Lines {
            bytes: text.into(),
            count: text.lines().count() as u64,
            back: sync_channel(1).0,
        }
    }

    #[test]
    fn a_full_disk_costs_the_lines_that_do_not_fit_and_tears_none_after_them() {
        let disk = Disk(Arc::new(Mutex::new((Vec::new(), 9))));
        let state = Arc::<LogState>::default();
        let mut writing = writing(disk.clone(), &state);
        let mut write = |text: &str| {
            let (channel, all) = sync_channel(1);
            let lines = lines(text);
            state.waiting.fetch_add(lines.count, Ordering::Relaxed);
            channel.send(lines).unwrap();
            drop(channel);
            writing.write_all(all);
        };
        write("one\ntwo\nthree\n");
        write("four\n");
        assert_eq!(state.lost_and_failed(), (2, 2));
        disk.0.lock().unwrap().1 = 100;
        write("five\n");
        assert_eq!(state.lost_and_failed(), (2, 2));
        assert_eq!(state.waiting.load(Ordering::Relaxed), 0);
        assert_eq!(disk.0.lock().unwrap().0, b"one\ntwo\nt\nfive\n");
    }

    #[test]
    fn it_is_opened_again_where_that_is_asked_for_or_stays_as_it_is() {
        let new = || Disk(Arc::new(Mutex::new((Vec::new(), 1000))));
        let disks = [new(), new()];
        let mut left = disks.clone().into_iter();
        let open: LogOpener = Box::new(move || match left.next() {
            Some(disk) => Ok(Box::new(disk)),
            None => Err(ErrorKind::NotFound.into()),
        });
        let log = LogWriter::start(AccessLogFormat::Common, open).unwrap();
        let (state, reopen) = (log.state(), log.reopening());
        let mut sink = log.sinks()();
        let mut step = |lines: usize| {
            answer(&mut sink);
            sink.flush();
            let written = || {
                let held = |disk: &Disk| disk.0.lock().unwrap().0.clone();
                disks
                    .iter()
                    .flat_map(held)
                    .filter(|byte| *byte == b'\n')
                    .count()
            };
            while written() < lines {
                std::thread::yield_now();
            }
        };
        step(1);
        reopen();
        step(2);
        reopen();
        step(3);
        drop(sink);
        log.finish(Duration::from_secs(60));
        let count = |disk: &Disk| {
            disk.0
                .lock()
                .unwrap()
                .0
                .iter()
                .filter(|b| **b == b'\n')
                .count()
        };
        assert_eq!(disks.each_ref().map(count), [1, 2]);
        assert_eq!(state.lost_and_failed(), (0, 1));
    }
}
