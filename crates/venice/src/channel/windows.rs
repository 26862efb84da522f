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
            let wait = Wait {
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
