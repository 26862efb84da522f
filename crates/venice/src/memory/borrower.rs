//! The borrower's end of a loan: requests go out as they are made, many before the first answer;
//! answers come in the order of the requests.

use super::wire::{Answer, HEAD_BYTES, Hello, Malformed, PAYLOAD_BYTES_MAX, Request, parse_answer};
use crate::channel::frame::legible;
use crate::identity::{Sealing, Wire};
use crate::loan::{LoanId, LoanKey};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a donor may take to be connected to, and to answer the first message.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long it may take to answer what follows.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// So much of a time counts in which nobody looked: the pager looks more often. What is more, this
/// process was stopped, or kept from its core, and that is no silence of a donor's.
const LOOK_MAX: Duration = Duration::from_secs(2);
const INPUT_BYTES: usize = 2 * (PAYLOAD_BYTES_MAX + HEAD_BYTES);
/// What was sent is dropped when it is this much, and half of all, where more still waits.
const WRITTEN_MIN: usize = 64 * 1024;

/// Why a donor's memory cannot be used.
#[derive(Debug, Error)]
pub enum Lost {
    /// The connection cannot be made, or broke.
    #[error("the connection to it is lost: {0}")]
    Io(#[from] io::Error),
    /// The donor closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// It does not want to.
    #[error("it refuses: {0}")]
    Refused(String),
    /// It says what nobody asked for.
    #[error("it does not keep to the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// An answer that is not the one that is due.
    #[error("it answers what was not asked")]
    Unasked,
    /// A page that is not what was sent.
    #[error("a page came back otherwise than it was sent")]
    Damaged,
    /// It says nothing any more.
    #[error("it has not answered for {} s", .0.as_secs())]
    Silent(Duration),
    /// Who looks after loans says that it is over.
    #[error("{0}")]
    Broken(String),
}

/// A connection to a donor, with a loan.
#[derive(Debug)]
pub(super) struct Borrower {
    wire: Wire,
    donor: SocketAddr,
    loan: LoanId,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
    next_id: u64,
    /// Requests without an answer.
    asked: VecDeque<Asked>,
    watch: Watch,
    /// When something came last.
    heard: Duration,
}

/// The time, for as long as somebody looks at it: [`LOOK_MAX`] at most from one look to the next.
#[derive(Debug)]
struct Watch {
    looked: Instant,
    time: Duration,
}

impl Watch {
    fn look(&mut self, now: Instant) -> Duration {
        let gone = now.saturating_duration_since(self.looked);
        self.time += gone.min(LOOK_MAX);
        self.looked = self.looked.max(now);
        self.time
    }
}

/// A request without an answer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: u64,
    since: Duration,
    /// What answers it: so many bytes, or word that it is done.
    bytes: Option<u32>,
}

impl Asked {
    fn is_answered_by(&self, id: u64, answer: &Answer<'_>) -> bool {
        let fits = match (answer, self.bytes) {
            (Answer::Data(data), Some(bytes)) => data.len() == bytes as usize,
            (Answer::Done, None) => true,
            _ => false,
        };
        self.id == id && fits
    }
}

impl Borrower {
    /// Connects, and shows the key.
    ///
    /// # Errors
    /// [`Lost`].
    pub(super) fn connect(
        donor: SocketAddr,
        sealing: Option<&Sealing>,
        loan: LoanId,
        key: LoanKey,
        bytes: u64,
    ) -> Result<Self, Lost> {
        let until = Instant::now() + CONNECT_TIME;
        let mut wire = Wire::connect(donor, sealing, CONNECT_TIME)?;
        wire.socket().set_nodelay(true)?;
        let wait = ANSWER_TIME.as_millis() as u32;
        sockopt::set_tcp_user_timeout(wire.socket(), wait).map_err(io::Error::from)?;
        let hello = Hello {
            loan,
            key,
            session: fastrand::u64(..),
            bytes,
        };
        let mut output = Vec::new();
        Request::Hello(hello).put(0, &mut output);
        wire.write_all(&output)?;
        wire.flush()?;
        let mut input = vec![0; INPUT_BYTES];
        let mut filled = 0;
        let loan = loop {
            if let Some((answer, 0, used)) = parse_answer(&input[..filled])? {
                match answer {
                    Answer::Welcome { bytes: lent, .. } if lent < bytes => {
                        return Err(Lost::Refused(format!(
                            "{bytes} bytes are wanted, not {lent}"
                        )));
                    }
                    Answer::Welcome { loan, .. } if used == filled => break loan,
                    Answer::Refused(reason) => {
                        return Err(Lost::Refused(legible(reason.as_bytes())));
                    }
                    _ => return Err(Lost::Unasked),
                }
            }
            wire.wait_until(Some(until))?;
            match read(&mut wire, &mut input[filled..])? {
                0 => return Err(Lost::Closed),
                read => filled += read,
            }
        };
        wire.wait_until(None)?;
        wire.socket().set_nonblocking(true)?;
        Ok(Self::new(wire, (donor, loan), input))
    }

    /// By a connection that does not wait, and on which nothing is under way.
    fn new(wire: Wire, (donor, loan): (SocketAddr, LoanId), input: Vec<u8>) -> Self {
        let watch = Watch {
            looked: Instant::now(),
            time: Duration::ZERO,
        };
        Self {
            wire,
            donor,
            loan,
            input,
            filled: 0,
            output: Vec::new(),
            written: 0,
            next_id: 1,
            asked: VecDeque::new(),
            watch,
            heard: Duration::ZERO,
        }
    }

    /// The loan that it is.
    pub(super) fn loan(&self) -> LoanId {
        self.loan
    }

    /// Who lends it.
    pub(super) fn donor(&self) -> SocketAddr {
        self.donor
    }

    /// Both.
    pub(super) fn names(&self) -> (SocketAddr, LoanId) {
        (self.donor, self.loan)
    }

    /// Requests without an answer.
    pub(super) fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// For how long nothing had come of what it was asked when that was looked at last.
    pub(super) fn silence(&self) -> Duration {
        let since = self.asked.front().map(|first| first.since.max(self.heard));
        since.map_or(Duration::ZERO, |since| self.watch.time - since)
    }

    /// Asks something; its id. It leaves with [`flush`](Self::flush).
    pub(super) fn ask(&mut self, request: &Request<'_>, now: Instant) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        request.put(id, &mut self.output);
        let bytes = match request {
            Request::Read { length, .. } => Some(*length),
            _ => None,
        };
        let since = self.watch.look(now);
        self.asked.push_back(Asked { id, since, bytes });
        id
    }

    /// Sends what the connection takes now.
    ///
    /// # Errors
    /// [`Lost::Io`].
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        while self.written < self.output.len() {
            match self.wire.write(&self.output[self.written..]) {
                Ok(0) => return Err(Lost::Closed),
                Ok(wrote) => self.written += wrote,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.drop_written();
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.written = 0;
        match self.wire.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            flushed => Ok(flushed?),
        }
    }

    /// A connection that is behind for long is not to keep all that it ever sent.
    fn drop_written(&mut self) {
        if self.written >= WRITTEN_MIN && self.written >= self.output.len() / 2 {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// Bytes that the connection has not taken yet.
    pub(super) fn unsent(&self) -> usize {
        self.output.len() - self.written
    }

    /// Something waits to be sent.
    pub(super) fn is_behind(&self) -> bool {
        self.written < self.output.len() || self.wire.owes()
    }

    /// Calls `take` with each answer that has come, and the id of its request. It answers that
    /// request: its data is as long as was asked for.
    ///
    /// # Errors
    /// [`Lost`]: the memory is gone, or `take` says so.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        mut take: impl FnMut(u64, &Answer<'_>) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        let now = self.watch.look(now);
        // In TLS more than one part may have come at once, of which the socket says nothing.
        loop {
            let room = self.input.len() - self.filled;
            let read = match read(&mut self.wire, &mut self.input[self.filled..]) {
                Ok(0) => return Err(Lost::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.check_time(),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.filled += read;
            self.heard = now;
            let mut start = 0;
            while let Some((answer, id, used)) = parse_answer(&self.input[start..self.filled])? {
                if let Answer::Refused(reason) = answer {
                    return Err(Lost::Refused(legible(reason.as_bytes())));
                }
                match self.asked.pop_front() {
                    Some(asked) if asked.is_answered_by(id, &answer) => take(id, &answer)?,
                    _ => return Err(Lost::Unasked),
                }
                start += used;
            }
            self.input.copy_within(start..self.filled, 0);
            self.filled -= start;
            if matches!(self.wire, Wire::Plain(_)) {
                // What fills the room may not be all that has come.
                return if read < room {
                    self.check_time()
                } else {
                    Ok(())
                };
            }
        }
    }

    /// Whether what is due has come in time: to be asked when all that has come is read.
    fn check_time(&self) -> Result<(), Lost> {
        match self.asked.front() {
            Some(first) if self.watch.time - first.since > ANSWER_TIME => {
                Err(Lost::Silent(ANSWER_TIME))
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for Borrower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

/// Reads; a connection in TLS that ends is over, however it ends.
fn read(wire: &mut Wire, into: &mut [u8]) -> io::Result<usize> {
    match wire.read(into) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A borrower, and what the donor has of its connection.
    fn pair() -> (Borrower, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let donor = listener.local_addr().unwrap();
        let stream = TcpStream::connect(donor).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (other, _) = listener.accept().unwrap();
        let (wire, input) = (Wire::Plain(stream), vec![0; INPUT_BYTES]);
        (Borrower::new(wire, (donor, LoanId(1)), input), other)
    }

    #[test]
    fn what_was_sent_is_not_kept_where_more_waits() {
        let (mut borrower, mut slow) = pair();
        let now = Instant::now();
        let (offset, bytes) = (0, &[1; 4096][..]);
        let mut part = vec![0; 256 * 1024];
        let mut taken = 0;
        while taken < 32 << 20 {
            // More waits than the other end takes at a time.
            while borrower.output.len() - borrower.written < 512 * 1024 {
                borrower.ask(&Request::Write { offset, bytes }, now);
            }
            borrower.flush().unwrap();
            assert!(borrower.output.len() < 2 << 20);
            taken += slow.read(&mut part).unwrap();
        }
    }

    const FREE: Request<'static> = Request::Free {
        offset: 0,
        length: 4096,
    };

    /// Looks; how many answers had come.
    fn look(borrower: &mut Borrower, now: Instant) -> Result<usize, Lost> {
        let mut came = 0;
        let looked = borrower.receive(now, |_, _| {
            came += 1;
            Ok(())
        });
        looked.map(|()| came)
    }

    #[test]
    fn who_was_stopped_reads_what_came_meanwhile_and_takes_nobody_for_silent() {
        let (mut borrower, mut donor) = pair();
        let mut now = Instant::now();
        let id = borrower.ask(&FREE, now);
        borrower.ask(&FREE, now);
        let mut answer = Vec::new();
        Answer::Done.put(id, &mut answer);
        donor.write_all(&answer).unwrap();
        // Until it is there to be read.
        while borrower.wire.peek(&mut [0]).is_err() {
            std::thread::yield_now();
        }
        now += 4 * ANSWER_TIME;
        assert_eq!(look(&mut borrower, now).unwrap(), 1);
        now += 4 * ANSWER_TIME;
        assert_eq!(look(&mut borrower, now).unwrap(), 0);
        assert_eq!(borrower.silence(), LOOK_MAX);
    }

    #[test]
    fn who_says_nothing_is_silent_however_often_one_was_stopped() {
        let (mut borrower, _donor) = pair();
        let mut now = Instant::now();
        borrower.ask(&FREE, now);
        let mut looks = 0;
        let lost = loop {
            now += 10 * LOOK_MAX;
            match look(&mut borrower, now) {
                Ok(_) => looks += 1,
                Err(lost) => break lost,
            }
        };
        assert!(
            matches!(lost, Lost::Silent(time) if time == ANSWER_TIME),
            "{lost}"
        );
        assert_eq!(looks, ANSWER_TIME.as_secs() / LOOK_MAX.as_secs());
    }
}
