//! A borrower's connection that speaks the channels' protocol: windows on loans, read and written
//! to the byte.

use super::connection::{HELLO_TIME, OUTPUT_BYTES, WRITE_TIME, enter, leave};
use super::loans::{Loan, Shared, lock};
use crate::channel::broken::Lost;
use crate::channel::frame::{self, HEAD_BYTES, MAGIC, PAYLOAD_BYTES_MAX, parse};
use crate::channel::serve::{self, Act, Loans, Map, Serve};
use crate::channel::transport::tcp::Tcp;
use crate::channel::transport::{Transport, Wait, flush};
use crate::memory::mapping::Mapping;
use crate::memory::wire::Hello;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::info;

/// Input is read in parts of this size; the longest frame fits.
const INPUT_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// How long a borrower that was refused is waited for to take the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// How often a connection on which nothing happens is looked at.
const IDLE_TIME: Duration = Duration::from_secs(3600);

impl serve::Memory for Mapping {
    fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.get(offset, length)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.put(offset, bytes)
    }

    fn free(&mut self, offset: u64, length: u64) -> bool {
        self.free(offset, length)
    }
}

/// Whether what a connection begins with is of the channels. It is left there.
pub(super) fn are_asked_for(stream: &TcpStream) -> bool {
    let mut begins = [0; MAGIC.len()];
    let start = Instant::now();
    // Where this cannot be set, the connection is broken, and reading says so.
    let _ = stream.set_read_timeout(Some(HELLO_TIME));
    while start.elapsed() < HELLO_TIME {
        match stream.peek(&mut begins) {
            Ok(0) | Err(_) => return false,
            Ok(bytes) if begins[..bytes] != MAGIC[..bytes] => return false,
            Ok(bytes) if bytes == MAGIC.len() => return true,
            // Some of it only, which comes once in a long time.
            Ok(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    false
}

pub(super) fn serve_tcp(stream: TcpStream, shared: &Shared) {
    let peer = stream.peer_addr();
    let peer = peer.map_or_else(|_| "a borrower".to_owned(), |peer| peer.to_string());
    let Ok(copy) = stream.try_clone() else {
        return;
    };
    if let Ok(transport) = Tcp::of(stream) {
        serve(transport, copy.as_fd(), shared, &peer);
    }
}

/// Serves a connection until it ends. `socket` is what ends it when it is shut down.
pub(super) fn serve(
    transport: impl Transport,
    socket: BorrowedFd<'_>,
    shared: &Shared,
    peer: &str,
) {
    let mut connection = Connection {
        transport,
        serve: Serve::default(),
        input: vec![0; INPUT_BYTES],
        filled: 0,
        output: Vec::new(),
        written: 0,
    };
    let mut used = Used {
        shared,
        socket,
        loans: Vec::new(),
    };
    if let Err(Lost::Broken(broken)) = connection.run(&mut used) {
        info!("{peer} is refused: {broken}");
        connection.refuse(&broken.to_string());
    }
    for (loan, number) in &used.loans {
        leave(loan, *number, shared, peer);
    }
}

/// The loans of a connection.
struct Used<'a> {
    shared: &'a Shared,
    socket: BorrowedFd<'a>,
    loans: Vec<(Arc<Loan>, u64)>,
}

impl Loans for Used<'_> {
    fn map(&mut self, map: &Map) -> Result<(usize, u64), String> {
        let hello = Hello {
            loan: map.loan,
            key: map.key.clone(),
            session: map.session,
            bytes: map.bytes,
        };
        let entered = enter(&hello, self.socket, self.shared)?;
        let bytes = entered.0.bytes;
        self.loans.push(entered);
        Ok((self.loans.len() - 1, bytes))
    }

    fn access(&mut self, number: usize, act: Act<'_>) -> Result<bool, String> {
        let Some((loan, _)) = self.loans.get(number) else {
            return Err("there is no such loan".into());
        };
        let mut state = lock(&loan.state);
        match state.memory.as_mut() {
            Some(memory) => Ok(act(memory)),
            None => Err(format!("loan {} is taken back", loan.id)),
        }
    }
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
    fn run(&mut self, used: &mut Used<'_>) -> Result<(), Lost> {
        let mut since = Instant::now();
        loop {
            let mut some = self.execute(used)?;
            self.serve.stream(used, &mut self.output, OUTPUT_BYTES)?;
            some |= flush(&mut self.transport, &mut self.output, &mut self.written)?;
            if let Some(read) = self.transport.read(&mut self.input[self.filled..])? {
                self.filled += read;
                some = true;
            }
            if some || self.serve.is_streaming() && self.output.is_empty() {
                since = Instant::now();
                continue;
            }
            let patience = match (self.output.is_empty(), used.loans.is_empty()) {
                (false, _) => WRITE_TIME,
                (true, true) => HELLO_TIME,
                (true, false) => IDLE_TIME,
            };
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                match patience {
                    IDLE_TIME => since = Instant::now(),
                    _ => return Err(Lost::Silent(patience)),
                }
            }
            let room = !self.output.is_empty();
            let wait = Wait {
                room,
                credit: false,
            };
            self.transport
                .wait(wait, left.max(HELLO_TIME.min(patience)))?;
        }
    }

    /// Executes what has come whole, while there is room for answers.
    fn execute(&mut self, used: &mut Used<'_>) -> Result<bool, Lost> {
        let mut start = 0;
        while self.output.len() < OUTPUT_BYTES
            && let Some((frame, bytes)) = parse(&self.input[start..self.filled])?
        {
            self.serve.came(&frame, used, &mut self.output)?;
            start += bytes;
        }
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(start > 0)
    }

    /// Tells why, as far as the borrower takes it.
    fn refuse(&mut self, reason: &str) {
        let start = Instant::now();
        // Answers to what came before are whole, but for one that has gone in part.
        frame::put_refusal(&mut self.output, reason);
        while start.elapsed() < REFUSAL_TIME {
            match flush(&mut self.transport, &mut self.output, &mut self.written) {
                Ok(_) if self.output.is_empty() => return,
                Ok(_) => {}
                Err(_) => return,
            }
            let wait = Wait {
                room: true,
                credit: false,
            };
            if self.transport.wait(wait, REFUSAL_TIME).is_err() {
                return;
            }
        }
    }
}
