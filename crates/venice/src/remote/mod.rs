//! Memory of a donor for a program that knows of it: [`RemoteMemory`].
//!
//! It is reached by the paper's channels ([`crate::channel`]) over one connection: `choice.rs` says
//! which carries an access, `ahead.rs` has what was fetched ahead, `line.rs` is the connection.

mod ahead;
mod choice;
mod line;

use crate::channel::borrow::Came;
pub use crate::channel::broken::{Broken, Lost};
use crate::channel::crma::Answer;
use crate::channel::frame::{BULK_BYTES_MAX, CRMA_BYTES_MAX, u64_at};
pub use crate::channel::ramt::OutOfWindow;
use crate::channel::ramt::Ramt;
use crate::channel::serve::Map;
use crate::channel::transport::Transport;
use crate::channel::transport::shared::Shared;
use crate::channel::transport::tcp::Tcp;
use crate::identity::Sealing;
use crate::loan::{LoanId, LoanKey};
use crate::random;
use ahead::{Ahead, Found, STRETCH_BYTES_MAX};
pub(crate) use choice::Channel;
use choice::{Choice, Direction};
use line::Line;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

/// Between two windows' addresses there is as much at least: who goes beyond one finds none.
const WINDOW_UNIT: u64 = 1 << 30;

/// Where a donor is reached.
#[derive(Clone, Debug)]
pub enum Place {
    /// Over TCP. Nothing is encrypted on the way, the loan's key neither.
    Tcp(SocketAddr),
    /// Over TCP in TLS, by who this end is, to the node that the donor must be.
    Sealed(SocketAddr, Sealing),
    /// On this machine: the Unix socket by which it shares memory with borrowers.
    Local(PathBuf),
}

impl Place {
    /// Connects.
    ///
    /// # Errors
    /// [`Lost`]: it is not reached, or is another.
    pub(crate) fn connect(&self) -> Result<Box<dyn Transport>, Lost> {
        Ok(match self {
            Place::Tcp(donor) => Box::new(Tcp::connect(*donor)?),
            Place::Sealed(donor, sealing) => Box::new(Tcp::connect_sealed(*donor, sealing)?),
            Place::Local(path) => Box::new(Shared::connect(path)?),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) | Place::Sealed(address, _) => write!(f, "{address}"),
            Place::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Windows on loans of one donor, read and written to the byte.
///
/// Addresses are this value's own: [`map`](Self::map) says where a loan's begin. Reads see all that
/// was written before. Writes are on their way when the call returns; [`sync`](Self::sync) waits
/// for them. An access that is not wholly within a window is refused here, and would be by the
/// donor; the connection goes on. After any other error it is over, and so is the memory: what the
/// donor had is zeroed.
#[derive(Debug)]
pub struct RemoteMemory {
    line: Line,
    /// From addresses here to the donor's.
    ramt: Ramt<u64>,
    next_window: u64,
    session: u64,
    choice: Choice,
    ahead: Ahead,
}

impl RemoteMemory {
    /// Connects to a donor.
    ///
    /// # Errors
    /// [`Lost`]: it is not reached.
    pub fn connect(place: &Place) -> Result<Self, Lost> {
        Ok(Self::over(place.connect()?))
    }

    /// Over a connection that there is.
    pub(crate) fn over(transport: Box<dyn Transport>) -> Self {
        Self {
            line: Line::new(transport),
            ramt: Ramt::default(),
            next_window: WINDOW_UNIT,
            session: u64_at(&random::numbers(), 0),
            choice: Choice::default(),
            ahead: Ahead::default(),
        }
    }

    /// Makes a loan's memory reachable: the address of its first byte. Loan 0 is a share, of so
    /// many bytes, of what the donor offers to all who have the key; no bytes of another loan means
    /// all of it. It lasts as long as this value.
    ///
    /// # Errors
    /// [`Lost`]: the donor does not lend it so, and says why; or there are too many windows.
    pub fn map(&mut self, loan: LoanId, key: &LoanKey, bytes: u64) -> Result<u64, Lost> {
        let map = Map {
            loan,
            key: key.clone(),
            session: self.session,
            bytes,
        };
        self.wait_for_room(Channel::Crma)?;
        let (borrow, output) = self.line.ask();
        let asked = borrow.crma.map(output, &map.payload());
        let mut mapped = None;
        while mapped.is_none() {
            self.line.turn_or_wait(&mut |came| match came {
                Came::Operation(id, Answer::Mapped(address, bytes)) if id == asked => {
                    mapped = Some((address, bytes));
                }
                came => took(&mut self.ahead, came),
            })?;
        }
        let (donors, bytes) = mapped.unwrap_or_default();
        let start = self.next_window;
        let inserted = self.ramt.insert(start, bytes, donors);
        inserted.map_err(|error| Broken::Memory(error.to_string()))?;
        let end = start
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(WINDOW_UNIT));
        let next = end.and_then(|end| end.checked_add(WINDOW_UNIT));
        self.next_window = next.unwrap_or(u64::MAX);
        Ok(start)
    }

    /// Where it is at the donor.
    fn find(&self, address: u64, bytes: usize) -> Result<u64, OutOfWindow> {
        let (donors, offset) = self.ramt.find(address, bytes as u64)?;
        // A donor that says impossible addresses gets back impossible ones.
        Ok(donors.wrapping_add(offset))
    }

    fn wait_for_room(&mut self, channel: Channel) -> Result<(), Lost> {
        while !self.line.has_room(channel) {
            self.line
                .turn_or_wait(&mut |came| took(&mut self.ahead, came))?;
        }
        Ok(())
    }

    /// Reads.
    ///
    /// # Errors
    /// [`Lost`]; what `into` has then is not to be used.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Lost> {
        let donors = self.find(address, into.len())?;
        loop {
            match self.ahead.find(address, into) {
                Found::Here => return Ok(()),
                Found::Coming => self
                    .line
                    .turn_or_wait(&mut |came| took(&mut self.ahead, came))?,
                Found::Nowhere => break,
            }
        }
        let start = Instant::now();
        let channel = self.choice.channel(Direction::Read, into.len());
        self.read_by(channel, donors, into)?;
        let time = start.elapsed();
        self.choice.took(Direction::Read, into.len(), channel, time);
        Ok(())
    }

    /// Reads by one channel alone, as the benchmark does to compare them.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub(crate) fn read_over(
        &mut self,
        channel: Channel,
        address: u64,
        into: &mut [u8],
    ) -> Result<(), Lost> {
        let donors = self.find(address, into.len())?;
        self.read_by(channel, donors, into)
    }

    /// Writes by one channel alone.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub(crate) fn write_over(
        &mut self,
        channel: Channel,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), Lost> {
        let donors = self.find(address, bytes.len())?;
        self.ahead.written(address, bytes.len() as u64);
        self.write_by(channel, donors, bytes)
    }

    /// Reads by a channel that is given; `donors` is the donor's address.
    fn read_by(&mut self, channel: Channel, donors: u64, into: &mut [u8]) -> Result<(), Lost> {
        let unit = match channel {
            Channel::Crma => CRMA_BYTES_MAX,
            Channel::Rdma => BULK_BYTES_MAX,
        };
        let (mut asked, mut left) = (0, into.len());
        let mut first = None;
        while left > 0 {
            // As much as may be under way is asked for before anything is waited for.
            while asked < into.len() && self.line.has_room(channel) {
                let (borrow, output) = self.line.ask();
                let bytes = unit.min(into.len() - asked);
                let address = donors.wrapping_add(asked as u64);
                let id = match channel {
                    Channel::Crma => borrow.crma.read(output, address, bytes as u32),
                    Channel::Rdma => borrow.rdma.read(output, address, bytes),
                };
                first.get_or_insert(id);
                asked += bytes;
            }
            let of = |id: u64| Some(unit * usize::try_from(id.checked_sub(first?)?).ok()?);
            self.line.turn_or_wait(&mut |came| match came {
                Came::Operation(id, Answer::Data(bytes)) => {
                    if let Some(at) = of(id) {
                        into[at..at + bytes.len()].copy_from_slice(bytes);
                        left -= bytes.len();
                    }
                }
                Came::Transfer(chunk) if !self.ahead.came(&chunk) && !chunk.bytes.is_empty() => {
                    if let Some(at) = of(chunk.id).map(|at| at + chunk.at) {
                        into[at..at + chunk.bytes.len()].copy_from_slice(chunk.bytes);
                        left -= chunk.bytes.len();
                    }
                }
                _ => {}
            })?;
        }
        Ok(())
    }

    /// Writes.
    ///
    /// # Errors
    /// [`Lost`], also of writes before this.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Lost> {
        let donors = self.find(address, bytes.len())?;
        self.ahead.written(address, bytes.len() as u64);
        let start = Instant::now();
        let channel = self.choice.channel(Direction::Write, bytes.len());
        self.write_by(channel, donors, bytes)?;
        let time = start.elapsed();
        self.choice
            .took(Direction::Write, bytes.len(), channel, time);
        Ok(())
    }

    /// Writes by a channel that is given.
    fn write_by(&mut self, channel: Channel, donors: u64, bytes: &[u8]) -> Result<(), Lost> {
        let unit = match channel {
            Channel::Crma => CRMA_BYTES_MAX,
            Channel::Rdma => BULK_BYTES_MAX,
        };
        for (number, part) in bytes.chunks(unit).enumerate() {
            let address = donors.wrapping_add((number * unit) as u64);
            self.wait_for_room(channel)?;
            match channel {
                Channel::Crma => {
                    let (borrow, output) = self.line.ask();
                    borrow.crma.write(output, address, part);
                }
                Channel::Rdma => {
                    let id = self.line.begin_write(part.len());
                    let mut at = 0;
                    while at < part.len() {
                        at = self.line.put_chunk(id, address, part, at);
                        while self.line.is_full() {
                            self.line
                                .turn_or_wait(&mut |came| took(&mut self.ahead, came))?;
                        }
                    }
                }
            }
        }
        self.line.turn(&mut |came| took(&mut self.ahead, came))?;
        Ok(())
    }

    /// Replaces the 8 bytes at an address that is a multiple of 8, a little-endian number, by
    /// `new`, if they are `expected`: what they were. Nobody else's access comes between.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn compare_and_swap(&mut self, address: u64, expected: u64, new: u64) -> Result<u64, Lost> {
        let donors = self.find(address, 8)?;
        if !address.is_multiple_of(8) {
            let error = format!("a compare-and-swap at {address:#x}, which is no multiple of 8");
            return Err(io::Error::new(ErrorKind::InvalidInput, error).into());
        }
        self.ahead.written(address, 8);
        self.wait_for_room(Channel::Crma)?;
        let (borrow, output) = self.line.ask();
        let asked = borrow.crma.compare_and_swap(output, donors, expected, new);
        let mut was = None;
        loop {
            if let Some(was) = was {
                return Ok(was);
            }
            self.line.turn_or_wait(&mut |came| match came {
                Came::Operation(id, Answer::Swapped(there)) if id == asked => was = Some(there),
                came => took(&mut self.ahead, came),
            })?;
        }
    }

    /// Has bytes come that will be read soon, without waiting for them: 768 KiB at most are kept or
    /// on their way, and what is beyond is not fetched. What is written meanwhile through another
    /// window on the same loan may not be seen in them.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn prefetch(&mut self, address: u64, bytes: usize) -> Result<(), Lost> {
        self.find(address, bytes)?;
        let mut at = 0;
        while at < bytes && self.line.has_room(Channel::Rdma) && self.ahead.make_room() {
            let part = STRETCH_BYTES_MAX.min(bytes - at);
            let here = address + at as u64;
            let donors = self.find(here, part)?;
            let (borrow, output) = self.line.ask();
            let id = borrow.rdma.read(output, donors, part);
            self.ahead.asked(id, here, part);
            at += part;
        }
        self.line.turn(&mut |came| took(&mut self.ahead, came))?;
        Ok(())
    }

    /// Has whole pages (of 4096 bytes, from a multiple of these in the loan) read as zeros from now
    /// on, and gives their memory back to the donor.
    ///
    /// # Errors
    /// [`Lost`]; where the pages are not whole, the donor ends the connection.
    pub fn free(&mut self, address: u64, bytes: u64) -> Result<(), Lost> {
        let (donors, offset) = self.ramt.find(address, bytes)?;
        let donors = donors.wrapping_add(offset);
        self.ahead.written(address, bytes);
        self.wait_for_room(Channel::Crma)?;
        let (borrow, output) = self.line.ask();
        borrow.crma.free(output, donors, bytes);
        self.line.turn(&mut |came| took(&mut self.ahead, came))?;
        Ok(())
    }

    /// Waits until the donor has all that was written.
    ///
    /// # Errors
    /// [`Lost`]: it may not have.
    pub fn sync(&mut self) -> Result<(), Lost> {
        while self.line.is_waiting() {
            self.line
                .turn_or_wait(&mut |came| took(&mut self.ahead, came))?;
        }
        Ok(())
    }
}

/// What comes for nobody in particular.
fn took(ahead: &mut Ahead, came: Came<'_>) {
    if let Came::Transfer(chunk) = came {
        ahead.came(&chunk);
    }
}
