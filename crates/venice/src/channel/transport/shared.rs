//! Two rings of bytes in memory that two processes share, one each way.
//!
//! Who reads and who writes a ring move positions that only grow; a position that is impossible
//! ends the connection. An end that has nothing to do looks for a few microseconds, then says in
//! the memory what it waits for and sleeps on a Unix socket, the *bell*: the other end rings it
//! only then, so that ends that are busy make no system calls. The socket also tells that the other
//! process died, and who shuts it down ends the connection; an end that never sleeps looks at it
//! now and then. Each end has a *credit word*, which the other writes: CRMA at its plainest, a
//! store.

use super::mapped::Mapped;
use super::tcp::wait_for;
use super::{Transport, Wait};
use crate::channel::broken::{Broken, Lost};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Bytes of a ring.
const RING_BYTES: usize = 256 * 1024;
/// How long an end looks before it sleeps, where it is not the only processor's only thread.
const LOOK_TIME: Duration = Duration::from_micros(8);
/// How long the other end may take to say which memory it is.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// After how many reads the bell is looked at by an end that never sleeps.
const BELL_EVERY: u32 = 256;

/// Numbers of a ring, or of an end: the first end's begin at 0, the second's at 8.
mod word {
    /// Bytes that the end has written to its ring.
    pub(super) const WRITTEN: usize = 0;
    /// Bytes that the other end has read of them.
    pub(super) const READ: usize = 1;
    /// What the end sleeps for: bits, see [`super::reason`].
    pub(super) const ASLEEP: usize = 2;
    /// The end's credit word.
    pub(super) const CREDIT: usize = 3;
    pub(super) const OF_END: usize = 8;
}

mod reason {
    pub(super) const BYTES: u64 = 1;
    pub(super) const ROOM: u64 = 2;
    pub(super) const CREDIT: u64 = 4;
}

/// One end.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Mapped,
    bell: UnixStream,
    /// 0 or 1.
    end: usize,
    written: u64,
    read: u64,
    /// The credit word when it was looked at last.
    credit: u64,
    /// Since the bell was looked at.
    reads: u32,
    /// How many bytes the other end had written when it was gone, or this one's connection was
    /// ended: what comes behind them is not taken.
    last: Option<u64>,
}

impl Shared {
    /// The end that makes the memory, and hands it over by the socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn offer(bell: UnixStream) -> io::Result<Self> {
        let (memory, file) = Mapped::create(2 * RING_BYTES)?;
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(
            &bell,
            &[IoSlice::new(&[1])],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Self::new(memory, bell, 0)
    }

    /// The end that is handed the memory.
    ///
    /// # Errors
    /// What comes is something else, or nothing.
    pub(crate) fn accept(bell: UnixStream) -> io::Result<Self> {
        bell.set_read_timeout(Some(HANDSHAKE_TIME))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        recvmsg(
            &bell,
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            flags,
        )?;
        let mut files = Vec::<OwnedFd>::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        let file = files.pop();
        let file = file.ok_or_else(|| io::Error::other("no shared memory is offered there"))?;
        Self::new(Mapped::open(&file, 2 * RING_BYTES)?, bell, 1)
    }

    /// Connects to a socket at which a donor of this machine offers memory.
    ///
    /// # Errors
    /// As of [`accept`](Self::accept).
    pub(crate) fn connect(to: &Path) -> Result<Self, Lost> {
        Ok(Self::accept(UnixStream::connect(to)?)?)
    }

    fn new(memory: Mapped, bell: UnixStream, end: usize) -> io::Result<Self> {
        bell.set_nonblocking(true)?;
        Ok(Self {
            memory,
            bell,
            end,
            written: 0,
            read: 0,
            credit: 0,
            reads: 0,
            last: None,
        })
    }

    fn own(&self, which: usize) -> usize {
        self.end * word::OF_END + which
    }

    fn theirs(&self, which: usize) -> usize {
        (1 - self.end) * word::OF_END + which
    }

    fn load(&self, place: usize) -> u64 {
        self.memory.word(place).load(Ordering::Acquire)
    }

    /// Bytes that came and were not read.
    fn waiting(&self) -> Result<usize, Lost> {
        let written = || self.load(self.theirs(word::WRITTEN));
        let waiting = self.last.unwrap_or_else(written).wrapping_sub(self.read);
        match waiting <= RING_BYTES as u64 {
            true => Ok(waiting as usize),
            false => Err(Broken::Ring.into()),
        }
    }

    /// Bytes that may be written.
    fn room(&self) -> Result<usize, Lost> {
        let under_way = self.written.wrapping_sub(self.load(self.own(word::READ)));
        match under_way <= RING_BYTES as u64 {
            true => Ok(RING_BYTES - under_way as usize),
            false => Err(Broken::Ring.into()),
        }
    }

    /// Rings if the other end sleeps for this. What it sleeps for was written before, and the fence
    /// has either that or this end's change seen by the other. Between a look at that and its being
    /// taken away, the other end may have waked, and sleep for something else: so whatever is taken
    /// away, it is rung for.
    fn ring(&mut self, reason: u64) {
        fence(Ordering::SeqCst);
        let asleep = self.memory.word(self.theirs(word::ASLEEP));
        if asleep.load(Ordering::Relaxed) & reason != 0 && asleep.swap(0, Ordering::AcqRel) != 0 {
            // A full socket has enough to wake it; one that is closed is seen when it is read.
            let _ = (&self.bell).write(&[1]);
        }
    }

    fn is_ready(&self, wait: Wait) -> Result<bool, Lost> {
        let credit = wait.credit && self.load(self.own(word::CREDIT)) != self.credit;
        let bytes = wait.bytes && self.waiting()? > 0;
        Ok(credit || bytes || wait.room && self.room()? > 0)
    }

    /// Takes what rang, and sees whether the bell is closed.
    fn drain_bell(&mut self) {
        self.reads = 0;
        let mut bytes = [0; 64];
        let is_gone = match self.bell.read(&mut bytes) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if is_gone && self.last.is_none() {
            self.last = Some(self.load(self.theirs(word::WRITTEN)));
        }
    }
}

/// Where a position is in a ring, and how many of so many bytes fit before its end.
fn part(position: u64, bytes: usize) -> (usize, usize) {
    let at = (position % RING_BYTES as u64) as usize;
    (at, bytes.min(RING_BYTES - at))
}

/// How long to look before sleeping: with one processor the other end can do nothing meanwhile.
fn look_time() -> Duration {
    static LOOK: OnceLock<Duration> = OnceLock::new();
    *LOOK.get_or_init(|| match available_parallelism() {
        Ok(processors) if processors.get() > 1 => LOOK_TIME,
        _ => Duration::ZERO,
    })
}

impl Transport for Shared {
    fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, Lost> {
        self.reads += 1;
        if self.reads >= BELL_EVERY {
            self.drain_bell();
        }
        let bytes = self.waiting()?.min(into.len());
        if bytes == 0 {
            return match self.last.is_some() && !into.is_empty() && self.waiting()? == 0 {
                true => Err(Lost::Closed),
                false => Ok(None),
            };
        }
        let ring = (1 - self.end) * RING_BYTES;
        let (at, first) = part(self.read, bytes);
        self.memory.copy_out(ring + at, &mut into[..first]);
        self.memory.copy_out(ring, &mut into[first..bytes]);
        self.read += bytes as u64;
        let read = self.memory.word(self.theirs(word::READ));
        read.store(self.read, Ordering::Release);
        self.ring(reason::ROOM);
        Ok(Some(bytes))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Lost> {
        let count = self.room()?.min(bytes.len());
        if count == 0 {
            return match self.last.is_some() {
                true => Err(Lost::Closed),
                false => Ok(None),
            };
        }
        let ring = self.end * RING_BYTES;
        let (at, first) = part(self.written, count);
        self.memory.copy_in(ring + at, &bytes[..first]);
        self.memory.copy_in(ring, &bytes[first..count]);
        self.written += count as u64;
        let written = self.memory.word(self.own(word::WRITTEN));
        written.store(self.written, Ordering::Release);
        self.ring(reason::BYTES);
        Ok(Some(count))
    }

    fn wait_beside(
        &mut self,
        wait: Wait,
        others: &[BorrowedFd<'_>],
        at_most: Duration,
    ) -> Result<(), Lost> {
        let start = Instant::now();
        let look = look_time();
        loop {
            if self.is_ready(wait)? || self.last.is_some() {
                return Ok(());
            }
            if start.elapsed() >= look {
                break;
            }
            std::hint::spin_loop();
        }
        let mut reasons = 0;
        if wait.bytes {
            reasons |= reason::BYTES;
        }
        if wait.room {
            reasons |= reason::ROOM;
        }
        if wait.credit {
            reasons |= reason::CREDIT;
        }
        let asleep = self.memory.word(self.own(word::ASLEEP));
        asleep.store(reasons, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let waited = match self.is_ready(wait)? {
            true => Ok(()),
            false => wait_for(PollFd::new(&self.bell, PollFlags::IN), others, at_most),
        };
        self.memory
            .word(self.own(word::ASLEEP))
            .store(0, Ordering::Relaxed);
        self.drain_bell();
        waited
    }

    fn write_credit(&mut self, until: u64) -> bool {
        let credit = self.memory.word(self.theirs(word::CREDIT));
        credit.store(until, Ordering::Release);
        self.ring(reason::CREDIT);
        true
    }

    fn read_credit(&mut self) -> Option<u64> {
        let credit = self.load(self.own(word::CREDIT));
        let is_new = credit != self.credit;
        self.credit = credit;
        is_new.then_some(credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Long enough to mean never: with it a test that would hang fails.
    const NEVER: Duration = Duration::from_secs(20);

    #[test]
    fn a_connection_that_is_ended_ends_though_the_other_end_never_rests() {
        let (one, other) = UnixStream::pair().unwrap();
        let bell = one.try_clone().unwrap();
        let mut ours = Shared::offer(one).unwrap();
        let mut theirs = Shared::accept(other).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let says = thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                theirs.write(&[7; 100]).unwrap();
                thread::yield_now();
            }
        });
        let mut bytes = [0; 100];
        while ours.read(&mut bytes).unwrap().is_none() {
            thread::yield_now();
        }
        bell.shutdown(Shutdown::Both).unwrap();
        let start = Instant::now();
        let ended = loop {
            // There is always something to read, so nothing is waited for.
            let read = ours.read(&mut bytes);
            if read.is_err() || start.elapsed() >= NEVER {
                break read;
            }
        };
        is_over.store(true, Ordering::SeqCst);
        says.join().unwrap();
        assert!(matches!(ended, Err(Lost::Closed)), "{ended:?}");
    }
}
