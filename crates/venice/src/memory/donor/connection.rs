//! One connection of a borrower, on a thread of its own.

use super::loans::{Loan, LoanState, OWN_LOANS, Shared, lock};
use super::places::Place;
use crate::identity::Wire;
use crate::loan::LoanId;
use crate::memory::mapping::Mapping;
use crate::memory::wire::{Answer, HEAD_BYTES, Hello, PAYLOAD_BYTES_MAX, Request, parse_request};
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::{debug, info};

/// How long a borrower may take no answers.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// Input is read in parts of this size; the longest message fits.
const INPUT_BYTES: usize = 4 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// Answers wait for each other while there are requests, up to this many bytes.
const OUTPUT_BYTES: usize = 128 * 1024;

/// How long who finds no room waits for what somebody had who has left, and how long for those of
/// whom that is not known yet.
const ZEROED_WITHIN: Duration = Duration::from_secs(10);
const HEARD_WITHIN: Duration = Duration::from_secs(3);
/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why a connection ends.
enum End {
    /// The borrower is told.
    Refused(String),
    /// There is nobody to tell.
    Gone,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

pub(super) fn serve(mut stream: Wire, place: &Place, until: Instant) {
    let peer = stream
        .socket()
        .peer_addr()
        .map_or_else(|_| "a borrower".to_owned(), |peer| peer.to_string());
    let mut connection = Connection {
        input: vec![0; INPUT_BYTES],
        start: 0,
        end: 0,
        output: Vec::new(),
        used: None,
    };
    let end = connection.run(&mut stream, place, until);
    if let Err(End::Refused(reason)) = &end {
        place.refused(&peer, reason);
        connection.output.clear();
        Answer::Refused(reason).put(0, &mut connection.output);
        let _ = send(&mut stream, &connection.output);
    }
    if let Some((loan, number)) = connection.used.take() {
        leave(&loan, number, place, &peer);
    }
}

/// A connection to a loan is gone; with the last goes what was written.
pub(super) fn leave(loan: &Arc<Loan>, number: u64, shared: &Shared, peer: &str) {
    let mut state = lock(&loan.state);
    state.connections.remove(&number);
    if state.connections.is_empty() {
        let memory = loan.take_memory(&mut state);
        // A share of an offer is over; nobody comes into it while it is zeroed.
        state.revoked |= loan.id.0 >= OWN_LOANS;
        drop(state);
        // Zeroed here: this thread has nothing else to do.
        drop(memory);
        shared.left(loan);
        info!("{peer} has left loan {}", loan.id);
    }
}

struct Connection {
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    /// The loan, and which of its connections this is.
    used: Option<(Arc<Loan>, u64)>,
}

impl Connection {
    fn run(&mut self, stream: &mut Wire, place: &Place, until: Instant) -> Result<(), End> {
        let socket = stream.socket();
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIME))?;
        // A machine that is switched off says nothing.
        sockopt::set_socket_keepalive(socket, true).map_err(io::Error::from)?;
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(20)).map_err(io::Error::from)?;
        sockopt::set_tcp_keepintvl(socket, Duration::from_secs(5)).map_err(io::Error::from)?;
        sockopt::set_tcp_keepcnt(socket, 4).map_err(io::Error::from)?;
        loop {
            self.execute(stream, place)?;
            if !self.output.is_empty() {
                send(stream, &self.output)?;
                self.output.clear();
            }
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.used.is_none() {
                // All together, however its bytes come.
                stream.wait_until(Some(until))?;
            }
            match stream.read(&mut self.input[self.end..]) {
                Ok(0) => return Ok(()),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
        }
    }

    /// Executes what has come whole.
    fn execute(&mut self, stream: &mut Wire, place: &Place) -> Result<(), End> {
        loop {
            let input = &self.input[self.start..self.end];
            let parsed = parse_request(input).map_err(|error| End::Refused(error.to_string()))?;
            let Some((request, id, used)) = parsed else {
                return Ok(());
            };
            match (&self.used, request) {
                (None, Request::Hello(hello)) => {
                    let entered = enter(&hello, stream.as_fd(), place).map_err(End::Refused)?;
                    stream.wait_until(None)?;
                    let (loan, bytes) = (entered.0.id, entered.0.bytes);
                    debug!("loan {loan} is used");
                    self.used = Some(entered);
                    Answer::Welcome { loan, bytes }.put(id, &mut self.output);
                }
                (None, _) => return Err(End::Refused("a connection begins with a key".into())),
                (Some(_), Request::Hello(_)) => {
                    return Err(End::Refused("this connection has a loan".into()));
                }
                (Some((loan, _)), request) => {
                    let mut state = lock(&loan.state);
                    let Some(memory) = state.memory.as_mut() else {
                        return Err(End::Refused(format!("loan {} is taken back", loan.id)));
                    };
                    if !answer(memory, &request, id, &mut self.output) {
                        let id = loan.id;
                        return Err(End::Refused(format!("that is not within loan {id}")));
                    }
                }
            }
            self.start += used;
            if self.output.len() >= OUTPUT_BYTES {
                send(stream, &self.output)?;
                self.output.clear();
            }
        }
    }
}

/// Sends all of it.
fn send(stream: &mut Wire, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn answer(memory: &mut Mapping, request: &Request<'_>, id: u64, output: &mut Vec<u8>) -> bool {
    match *request {
        Request::Read { offset, length } => match memory.get(offset, length as usize) {
            Some(bytes) => Answer::Data(bytes).put(id, output),
            None => return false,
        },
        Request::Write { offset, bytes } => {
            if !memory.put(offset, bytes) {
                return false;
            }
            Answer::Done.put(id, output);
        }
        Request::Free { offset, length } => {
            if !memory.free(offset, length) {
                return false;
            }
            Answer::Done.put(id, output);
        }
        Request::Hello(_) => return false,
    }
    true
}

/// One answer, so that it does not tell which loans there are.
fn wrong() -> String {
    "there is no such loan, or its key is another".to_owned()
}

/// The part of an offer that a borrower has, or has from now on. Where there is no room, that may
/// be since somebody has just left: what that one had is zeroed first, and waited for.
fn of_offer(hello: &Hello, shared: &Shared) -> Result<Arc<Loan>, String> {
    let begun = Instant::now();
    loop {
        let mut loans = lock(&shared.loans);
        let key = loans.offer.clone().filter(|key| key.is_same(&hello.key));
        let key = key.ok_or_else(wrong)?;
        let is_its =
            |loan: &&Arc<Loan>| loan.id.0 >= OWN_LOANS && lock(&loan.state).is_of(hello.session);
        if let Some(loan) = loans.granted.values().find(is_its) {
            return Ok(Arc::clone(loan));
        }
        let id = LoanId(OWN_LOANS + loans.next_own);
        let no_room = match shared.add(&mut loans, id, hello.bytes, key) {
            Ok(loan) => {
                loans.next_own += 1;
                return Ok(loan);
            }
            Err(no_room) => no_room,
        };
        // That a process has died, its connections' threads hear a moment later.
        let patience = match loans.has_leaving() {
            true => ZEROED_WITHIN,
            false => HEARD_WITHIN,
        };
        if no_room.wanted > no_room.all || begun.elapsed() >= patience {
            return Err(no_room.to_string());
        }
        drop(loans);
        thread::sleep(LOOK_EVERY);
    }
}

/// The loan that a borrower asks for, with this connection noted there.
pub(super) fn enter(
    hello: &Hello,
    stream: BorrowedFd<'_>,
    place: &Place,
) -> Result<(Arc<Loan>, u64), String> {
    let shared: &Shared = place;
    let loan = match hello.loan.0 {
        0 => of_offer(hello, shared)?,
        _ => {
            // Shares of an offer have no keys of their own, so nobody names one.
            let loan = lock(&shared.loans).granted.get(&hello.loan).cloned();
            loan.filter(|loan| loan.id.0 < OWN_LOANS && loan.key.is_same(&hello.key))
                .ok_or_else(wrong)?
        }
    };
    let entered = note(&loan, hello, stream);
    if entered.is_err() && lock(&loan.state).connections.is_empty() {
        shared.left(&loan);
    }
    let number = entered?;
    place.keep();
    Ok((loan, number))
}

fn note(loan: &Loan, hello: &Hello, stream: BorrowedFd<'_>) -> Result<u64, String> {
    let id = loan.id;
    if hello.bytes > loan.bytes {
        return Err(format!(
            "{} bytes are wanted, and loan {id} has {}",
            hello.bytes, loan.bytes
        ));
    }
    let copy = stream
        .try_clone_to_owned()
        .map_err(|error| error.to_string())?;
    let mut guard = lock(&loan.state);
    let state: &mut LoanState = &mut guard;
    if state.revoked {
        return Err(format!("loan {id} is taken back"));
    }
    if !state.connections.is_empty() && state.session != Some(hello.session) {
        return Err(format!("loan {id} is in use by another borrower"));
    }
    if state.memory.is_none() {
        let bytes = usize::try_from(loan.bytes).map_err(|error| error.to_string())?;
        let memory = Mapping::new(bytes);
        state.memory = Some(memory.map_err(|error| format!("the donor has no memory: {error}"))?);
    }
    state.session = Some(hello.session);
    let number = state.next_connection;
    state.next_connection += 1;
    state.connections.insert(number, copy);
    Ok(number)
}
