//! What carries bytes between two ends: a connection over TCP (`tcp.rs`), or memory that two
//! processes of a machine share (`shared.rs`).

mod mapped;
pub(crate) mod shared;
pub(crate) mod tcp;

use super::broken::Lost;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What an end waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    /// Bytes from the other end: not where there is no place for them, since those that have come
    /// would end the wait at once.
    pub(crate) bytes: bool,
    /// That the other end takes more.
    pub(crate) room: bool,
    /// That the other end writes this one's credit word.
    pub(crate) credit: bool,
}

/// A stream of bytes each way. Nothing blocks but [`wait`](Self::wait) and
/// [`wait_beside`](Self::wait_beside).
pub(crate) trait Transport: std::fmt::Debug + Send {
    /// Bytes that came: how many, or none where there are none now.
    ///
    /// # Errors
    /// [`Lost`]: there will be no more.
    fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, Lost>;

    /// Bytes for the other end: how many went, or none where there is no room now.
    ///
    /// # Errors
    /// [`Lost`].
    fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Lost>;

    /// Until what `wait` says, or so long.
    ///
    /// # Errors
    /// [`Lost`].
    fn wait(&mut self, wait: Wait, at_most: Duration) -> Result<(), Lost> {
        self.wait_beside(wait, &[], at_most)
    }

    /// As [`wait`](Self::wait), or until one of these can be read.
    ///
    /// # Errors
    /// [`Lost`].
    fn wait_beside(
        &mut self,
        wait: Wait,
        others: &[BorrowedFd<'_>],
        at_most: Duration,
    ) -> Result<(), Lost>;

    /// Writes the other end's credit word; false where it can only be told by a frame.
    fn write_credit(&mut self, _until: u64) -> bool {
        false
    }

    /// This end's credit word, where it is another than when it was looked at last.
    fn read_credit(&mut self) -> Option<u64> {
        None
    }
}

impl Transport for Box<dyn Transport> {
    fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, Lost> {
        (**self).read(into)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, Lost> {
        (**self).write(bytes)
    }

    fn wait_beside(
        &mut self,
        wait: Wait,
        others: &[BorrowedFd<'_>],
        at_most: Duration,
    ) -> Result<(), Lost> {
        (**self).wait_beside(wait, others, at_most)
    }

    fn write_credit(&mut self, until: u64) -> bool {
        (**self).write_credit(until)
    }

    fn read_credit(&mut self) -> Option<u64> {
        (**self).read_credit()
    }
}

/// Writes all that is to go out from `written` on, as far as there is room.
///
/// # Errors
/// [`Lost`].
pub(crate) fn flush(
    transport: &mut (impl Transport + ?Sized),
    output: &mut Vec<u8>,
    written: &mut usize,
) -> Result<bool, Lost> {
    let before = *written;
    while *written < output.len() {
        match transport.write(&output[*written..])? {
            Some(wrote) => *written += wrote,
            None => return Ok(*written > before),
        }
    }
    let some = *written > before;
    output.clear();
    *written = 0;
    Ok(some)
}

/// Writes the last that there is to say, and waits until the other end closes the connection, which
/// it does when it has read that, or so long. What it says meanwhile is read and dropped: where
/// something is unread in the end, the kernel takes back what was said.
pub(crate) fn last_words(
    transport: &mut (impl Transport + ?Sized),
    output: &mut Vec<u8>,
    written: &mut usize,
    patience: Duration,
) {
    let start = Instant::now();
    let mut dropped = [0; 4096];
    loop {
        let left = patience.saturating_sub(start.elapsed());
        if left.is_zero() || flush(transport, output, written).is_err() {
            return;
        }
        let wait = Wait {
            bytes: true,
            room: !output.is_empty(),
            credit: false,
        };
        let went_on = match transport.read(&mut dropped) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => transport.wait(wait, left),
            Err(lost) => Err(lost),
        };
        if went_on.is_err() {
            return;
        }
    }
}

/// Two ends of each kind.
#[cfg(test)]
pub(in crate::channel) mod pairs {
    use super::shared::Shared;
    use super::tcp::Tcp;
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::unix::net::UnixStream;

    pub(in crate::channel) fn shared() -> (Shared, Shared) {
        let (one, other) = UnixStream::pair().unwrap();
        let offered = Shared::offer(one).unwrap();
        (offered, Shared::accept(other).unwrap())
    }

    pub(in crate::channel) fn tcp() -> (Tcp, Tcp) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = Tcp::connect(listener.local_addr().unwrap()).unwrap();
        (one, Tcp::of(listener.accept().unwrap().0).unwrap())
    }
}
