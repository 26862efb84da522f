//! The thread that writes the access log.

use super::line::service_name;
use super::{BUFFERS_MAX, Lines, LogSink, LogState, Services};
use rhythm_engine::settings::AccessLogFormat;
use rhythm_net::clock;
use rhythm_net::sparse::Sparse;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines of the server's log that say that writing fails.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Opens what the access log is written to: at the start, and whenever it is to be opened again. It
/// is called on a thread that may wait.
pub type LogOpener = Box<dyn FnMut() -> io::Result<Box<dyn Write + Send>> + Send>;

/// The writing thread.
#[derive(Debug)]
pub(crate) struct LogWriter {
    /// Taken away when nothing more is to come.
    channel: Arc<Mutex<Option<SyncSender<Lines>>>>,
    state: Arc<LogState>,
    /// Nothing is ever sent: it is closed when the thread has ended.
    ended: Receiver<()>,
    format: AccessLogFormat,
    services: Services,
}

impl LogWriter {
    /// Opens the log and starts a thread that writes it. Where there are several services, these
    /// are their names.
    ///
    /// # Errors
    /// Where it cannot be opened, or no thread can be started.
    pub(crate) fn start(
        format: AccessLogFormat,
        services: &[&str],
        mut open: LogOpener,
    ) -> io::Result<LogWriter> {
        let (channel, lines) = sync_channel(BUFFERS_MAX);
        let (ends, ended) = sync_channel::<()>(0);
        let state = Arc::<LogState>::default();
        let mut writing = Writing {
            to: open()?,
            open,
            is_torn: false,
            complaints: Sparse::every(COMPLAIN_EVERY),
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
            services: services.iter().map(|name| service_name(name)).collect(),
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
        let (format, services) = (self.format, self.services.clone());
        let state = self.state.clone();
        move || LogSink::new(format, services.clone(), channel.clone(), state.clone())
    }

    /// Where lines are counted that were never written, and writes that failed.
    pub(crate) fn state(&self) -> Arc<LogState> {
        self.state.clone()
    }

    /// Has the thread end once everything is written. All sinks must be gone. Gives what waits for
    /// that, but no longer than until a time: whoever reads the log may be stuck, and the thread
    /// with it.
    pub(crate) fn finish(self) -> impl FnOnce(Instant) {
        drop((self.channel.lock().unwrap_or_else(PoisonError::into_inner)).take());
        move |until| {
            let patience = until.saturating_duration_since(Instant::now());
            if self.ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                let lines = self.state.waiting.load(Ordering::Relaxed);
                self.state.lost(lines);
                tracing::error!(lines, "the access log takes no more: lines are lost");
            }
        }
    }
}

/// What the thread works with.
struct Writing {
    to: Box<dyn Write + Send>,
    open: LogOpener,
    /// What was written last is no whole line.
    is_torn: bool,
    /// Lines of the server's log that say that writing fails.
    complaints: Sparse,
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
            if bytes.is_empty() {
                // Nothing was written, by which one could tell how the log fares.
                continue;
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
        if self.is_torn {
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
        if self.complaints.line(clock::monotonic()).is_none() {
            return;
        }
        let (lines_lost, failures) = self.state.lost_and_failed();
        tracing::error!(%error, failures, lines_lost, "the access log cannot be written");
    }

    fn well(&mut self) {
        if self.complaints.end() {
            let (lines_lost, failures) = self.state.lost_and_failed();
            tracing::warn!(failures, lines_lost, "the access log can be written again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::answer;
    use super::*;

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
            complaints: Sparse::every(COMPLAIN_EVERY),
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
            let log = LogWriter::start(AccessLogFormat::Common, &[], once(Stuck(held))).unwrap();
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
            log.finish()(Instant::now() + patience);
            assert_eq!(state.lost_and_failed().0, lost);
            drop(let_go);
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_and_buffers_come_back() {
        let (channel, lines) = sync_channel(8);
        let state = Arc::<LogState>::default();
        let mut sink = LogSink::new(AccessLogFormat::Common, [].into(), channel, state.clone());
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
        // As where the log is to be opened again, and cannot be.
        write("");
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
        let log = LogWriter::start(AccessLogFormat::Common, &[], open).unwrap();
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
            let limit = Instant::now() + Duration::from_secs(60);
            while written() < lines {
                assert!(Instant::now() < limit, "{} of {lines} lines", written());
                std::thread::yield_now();
            }
        };
        step(1);
        reopen();
        step(2);
        reopen();
        step(3);
        drop(sink);
        log.finish()(Instant::now() + Duration::from_secs(60));
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
