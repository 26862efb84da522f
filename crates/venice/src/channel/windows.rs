//! The donor's end of CRMA and RDMA over a transport: what drives `serve.rs`.

use super::broken::Lost;
use super::frame::{self, HEAD_BYTES, PAYLOAD_BYTES_MAX, parse};
use super::serve::{Loans, Serve};
use super::transport::{Transport, Wait, flush, last_words};
use std::time::{Duration, Instant};

/// Input is read in parts of this size; the longest frame fits.
const INPUT_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// Answers wait for each other while there are requests, up to this many bytes.
const OUTPUT_BYTES: usize = 128 * 1024;
/// How long a borrower may take no answers.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// How long a borrower that was refused is waited for to take the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How often a connection on which nothing happens is looked at.
const IDLE_TIME: Duration = Duration::from_secs(3600);

/// Serves a connection until it ends, or until a time, where it has no window by then. A borrower
/// that is refused is told why.
///
/// # Errors
/// [`Lost`]: how it ended, which it always does.
pub(crate) fn serve(
    transport: impl Transport,
    loans: &mut impl Loans,
    until: Instant,
) -> Result<(), Lost> {
    let mut connection = Connection {
        transport,
        serve: Serve::default(),
        input: vec![0; INPUT_BYTES],
        filled: 0,
        output: Vec::new(),
        written: 0,
    };
    let ended = connection.run(loans, until);
    if let Err(Lost::Broken(broken)) = &ended {
        connection.refuse(&broken.to_string());
    }
    ended
}

struct Connection<T> {
    transport: T,
    serve: Serve,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
}

impl<T: Transport> Connection<T> {
    fn run(&mut self, loans: &mut impl Loans, until: Instant) -> Result<(), Lost> {
        let start = Instant::now();
        let mut since = start;
        loop {
            let mut some = self.execute(loans)?;
            self.serve.stream(loans, &mut self.output, OUTPUT_BYTES)?;
            some |= flush(&mut self.transport, &mut self.output, &mut self.written)?;
            if let Some(read) = self.transport.read(&mut self.input[self.filled..])? {
                self.filled += read;
                some = true;
            }
            let is_used = loans.is_used();
            // Whatever it says until then.
            if !is_used && Instant::now() >= until {
                return Err(Lost::Silent(start.elapsed()));
            }
            if some || self.serve.is_streaming() && self.output.is_empty() {
                since = Instant::now();
                continue;
            }
            let room = !self.output.is_empty();
            let left = match (is_used, room) {
                (false, _) => until.saturating_duration_since(Instant::now()),
                (true, false) => IDLE_TIME,
                (true, true) => WRITE_TIME.saturating_sub(since.elapsed()),
            };
            if room && is_used && left.is_zero() {
                return Err(Lost::Silent(WRITE_TIME));
            }
            // Who takes no answers asks for no more than these, and the input has its end.
            let wait = Wait {
                bytes: self.filled < self.input.len(),
                room,
                credit: false,
            };
            self.transport.wait(wait, left)?;
        }
    }

    /// Executes what has come whole, while there is room for answers.
    fn execute(&mut self, loans: &mut impl Loans) -> Result<bool, Lost> {
        let mut start = 0;
        while self.output.len() < OUTPUT_BYTES
            && let Some((frame, bytes)) = parse(&self.input[start..self.filled])?
        {
            self.serve.came(&frame, loans, &mut self.output)?;
            start += bytes;
        }
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(start > 0)
    }

    /// Tells why, as far as the borrower takes it.
    fn refuse(&mut self, reason: &str) {
        // Answers to what came before are whole, but for one that has gone in part.
        frame::put_refusal(&mut self.output, reason);
        let (transport, output) = (&mut self.transport, &mut self.output);
        last_words(transport, output, &mut self.written, REFUSAL_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Kind;
    use super::super::serve::{Act, Map};
    use super::super::transport::pairs::{shared, tcp};
    use super::*;
    use crate::loan::{LoanId, LoanKey};
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    /// Long enough to mean never: with it a test that would hang fails.
    const NEVER: Duration = Duration::from_secs(60);
    const PAGE: usize = 4096;

    /// A transport, and how often it is waited for.
    #[derive(Debug)]
    struct Counted<T>(T, Arc<AtomicUsize>);

    impl<T: Transport> Transport for Counted<T> {
        fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, Lost> {
            self.0.read(into)
        }

        fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Lost> {
            self.0.write(bytes)
        }

        fn wait_beside(
            &mut self,
            wait: Wait,
            others: &[BorrowedFd<'_>],
            at_most: Duration,
        ) -> Result<(), Lost> {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.wait_beside(wait, others, at_most)
        }
    }

    /// What is lent.
    struct Page(Vec<u8>);

    impl Loans for Page {
        fn map(&mut self, _: &Map) -> Result<(usize, u64), String> {
            Ok((0, PAGE as u64))
        }

        fn access(&mut self, _: usize, act: Act<'_>) -> Result<bool, String> {
            Ok(act(&mut self.0))
        }

        fn is_used(&self) -> bool {
            true
        }
    }

    /// So many bytes, once they have come.
    fn read(from: &mut impl Transport, bytes: usize) -> Vec<u8> {
        let (mut came, mut filled) = (vec![0; bytes], 0);
        let start = Instant::now();
        while filled < bytes {
            match from.read(&mut came[filled..]).unwrap() {
                Some(read) => filled += read,
                None => thread::sleep(Duration::from_millis(1)),
            }
            assert!(start.elapsed() < NEVER, "{filled} bytes came");
        }
        came
    }

    fn asks_and_reads_nothing<T: Transport + 'static>((donor, mut borrower): (T, T)) {
        let waits = Arc::new(AtomicUsize::new(0));
        let counted = Counted(donor, Arc::clone(&waits));
        let serving = thread::spawn(move || {
            let mut page = Page(vec![7; PAGE]);
            serve(counted, &mut page, Instant::now() + NEVER)
        });
        let map = Map {
            loan: LoanId(1),
            key: LoanKey([1; 32]),
            session: 1,
            bytes: PAGE as u64,
        };
        let mut asked = Vec::new();
        frame::put(&mut asked, Kind::Map, 0, 0, &map.payload());
        assert_eq!(borrower.write(&asked).unwrap(), Some(asked.len()));
        let mapped = read(&mut borrower, HEAD_BYTES + 8);
        let base = parse(&mapped).unwrap().unwrap().0.address;
        // Until nothing more is taken.
        asked.clear();
        frame::put_want(&mut asked, Kind::Read, 1, base, PAGE as u32);
        let asked = asked.repeat(1000);
        let (mut at, mut refusals) = (0, 0);
        while refusals < 50 {
            match borrower.write(&asked[at..]).unwrap() {
                Some(wrote) => (at, refusals) = ((at + wrote) % asked.len(), 0),
                None => {
                    refusals += 1;
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
        let before = waits.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(300));
        let waits = waits.load(Ordering::SeqCst) - before;
        assert!(waits < 10, "it sleeps, and has waked {waits} times");
        // When they are read, it goes on.
        let answer = HEAD_BYTES + PAGE;
        let came = read(&mut borrower, 2000 * answer);
        for answer in came.chunks(answer) {
            let (frame, _) = parse(answer).unwrap().unwrap();
            assert_eq!((frame.kind, frame.payload), (Kind::Data, &[7; PAGE][..]));
        }
        drop(borrower);
        assert!(serving.join().unwrap().is_err());
    }

    #[test]
    fn who_asks_and_reads_no_answers_costs_no_time() {
        asks_and_reads_nothing(tcp());
        asks_and_reads_nothing(shared());
    }
}
