//! The byte stream that h2 reads and writes: two buffers in memory, filled and emptied by hand.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes written that are not yet taken out.
pub(crate) const OUTPUT_MAX: usize = 32 * 1024;

/// What has come and is not yet read, and what was written and is not yet taken out.
#[derive(Debug, Default)]
struct Buffers {
    input: Vec<u8>,
    /// Bytes of the input that have been read.
    read: usize,
    /// Nothing comes behind the input.
    has_ended: bool,
    output: Vec<u8>,
    /// Nothing may be written: the socket is full.
    is_full: bool,
}

/// One end of it; both are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pipe(Rc<RefCell<Buffers>>);

impl Pipe {
    /// More has come.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut buffers = self.0.borrow_mut();
        let read = std::mem::take(&mut buffers.read);
        buffers.input.drain(..read);
        buffers.input.extend_from_slice(bytes);
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        self.0.borrow_mut().has_ended = true;
    }

    /// Bytes that wait to be read.
    pub(crate) fn unread(&self) -> usize {
        let buffers = self.0.borrow();
        buffers.input.len() - buffers.read
    }

    /// Whether bytes may be written.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.0.borrow_mut().is_full = is_full;
    }

    /// Gives what was written to `take`, and forgets it. Whether there was anything.
    pub(crate) fn take_output(&self, take: impl FnOnce(&[u8])) -> bool {
        let mut buffers = self.0.borrow_mut();
        if buffers.output.is_empty() {
            return false;
        }
        take(&buffers.output);
        buffers.output.clear();
        true
    }

    /// Gives memory back that nothing is in.
    pub(crate) fn shrink(&self) {
        let mut buffers = self.0.borrow_mut();
        if buffers.read == buffers.input.len() {
            (buffers.input, buffers.read) = (Vec::new(), 0);
        }
        if buffers.output.is_empty() {
            buffers.output = Vec::new();
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut buffers = self.0.borrow_mut();
        let (from, end) = (buffers.read, buffers.input.len());
        let length = into.remaining().min(end - from);
        into.put_slice(&buffers.input[from..from + length]);
        buffers.read += length;
        match length > 0 || buffers.has_ended {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffers = self.0.borrow_mut();
        let length = bytes.len().min(OUTPUT_MAX - buffers.output.len());
        if buffers.is_full || length == 0 {
            return Poll::Pending;
        }
        buffers.output.extend_from_slice(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
