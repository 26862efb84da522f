//! What the pager and the library in the program say to each other (preload/venice.h has the other
//! side), over two sockets that keep messages apart.
//!
//! Over *requests* the program's threads tell what they do to their mappings, one at a time. Over
//! *orders* the library's helper thread is told to evict pages, and answers each order.

use super::wire::cut;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Pages that one order is about, at most.
pub(super) const ORDER_PAGES: usize = 64;

const ORDER_BYTES: usize = 16 + 8 * ORDER_PAGES;
const ORDER_ATTACH: u32 = 1;
const ORDER_EVICT: u32 = 2;
const ORDER_END: u32 = 3;

/// What a thread of the program tells.
#[derive(Debug)]
pub(super) enum Request {
    /// The library is there.
    Hello {
        /// Where its region begins.
        region: u64,
        /// Bytes of it.
        bytes: u64,
        /// Its page faults.
        uffd: OwnedFd,
    },
    /// The sender is a child that was forked. It is told, over its requests, which byte of its
    /// first page it is to touch.
    Forked {
        /// The pager's ends of its sockets.
        orders: OwnedFd,
        /// See above.
        requests: OwnedFd,
    },
    /// A range loses its content, once this is answered.
    Discard {
        /// Its first address.
        address: u64,
        /// Bytes of it.
        bytes: u64,
    },
    /// It has lost its content.
    Discarded {
        /// Its first address.
        address: u64,
        /// Bytes of it.
        bytes: u64,
    },
}

/// What a socket had.
#[derive(Debug)]
pub(super) enum Received<T> {
    /// A message.
    Message(T),
    /// None now.
    Nothing,
    /// None ever again: the process is gone.
    End,
    /// Something that the library does not say.
    Nonsense,
}

/// What the helper did of an order to evict.
#[derive(Debug)]
pub(super) struct Answer {
    /// It was an order to evict.
    pub(super) evicted: bool,
    /// The helper's thread.
    pub(super) thread: u32,
    /// A bit a page of the order: it is gone from the process.
    pub(super) done: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// A message of `bytes.len()` bytes with the descriptors that came with it.
fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Received<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = bytes.len();
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags);
    match received {
        Ok(message) if message.bytes == 0 => Received::End,
        Ok(message) if message.bytes != length => Received::Nonsense,
        Ok(_) => {
            let mut fds = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    fds.extend(rights);
                }
            }
            Received::Message(fds)
        }
        Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
        Err(_) => Received::End,
    }
}

/// What a thread of the program tells, if any does.
pub(super) fn receive_request(socket: BorrowedFd<'_>) -> Received<Request> {
    let mut bytes = [0; 32];
    let mut fds = match receive(socket, &mut bytes) {
        Received::Message(fds) => fds.into_iter(),
        Received::Nothing => return Received::Nothing,
        Received::End => return Received::End,
        Received::Nonsense => return Received::Nonsense,
    };
    let [a, b] = [8, 16].map(|at| u64_at(&bytes, at));
    Received::Message(match (u32_at(&bytes, 0), fds.next(), fds.next()) {
        (1, Some(uffd), None) => Request::Hello {
            region: a,
            bytes: b,
            uffd,
        },
        (2, Some(orders), Some(requests)) => Request::Forked { orders, requests },
        (3, None, None) => Request::Discard {
            address: a,
            bytes: b,
        },
        (4, None, None) => Request::Discarded {
            address: a,
            bytes: b,
        },
        _ => return Received::Nonsense,
    })
}

/// Answers a request that waits, with a number.
pub(super) fn answer_request(socket: BorrowedFd<'_>, number: u32) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // Where the process is gone, its orders' socket tells.
    let _ = send(socket, &number.to_le_bytes(), flags);
}

/// What the helper did, if it did something.
pub(super) fn receive_answer(socket: BorrowedFd<'_>) -> Received<Answer> {
    let mut bytes = [0; 16];
    match receive(socket, &mut bytes) {
        Received::Message(_) => Received::Message(Answer {
            evicted: u32_at(&bytes, 0) == ORDER_EVICT,
            thread: u32_at(&bytes, 4),
            done: u64_at(&bytes, 8),
        }),
        Received::Nothing => Received::Nothing,
        Received::End => Received::End,
        Received::Nonsense => Received::Nonsense,
    }
}

fn order(kind: u32, count: u32, place: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ORDER_BYTES);
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&place.to_le_bytes());
    bytes
}

/// Hands the helper its process's page faults, and the buffer for what it evicts.
pub(super) fn attach(
    orders: BorrowedFd<'_>,
    uffd: BorrowedFd<'_>,
    buffer: BorrowedFd<'_>,
) -> io::Result<()> {
    let bytes = order(ORDER_ATTACH, 0, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [uffd.as_fd(), buffer.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(orders, &[IoSlice::new(&bytes)], &mut control, flags)?;
    Ok(())
}

/// Has the helper evict pages, in ascending order: with `true` those that are to be put into the
/// buffer, one after the other from `place` on.
pub(super) fn evict(
    orders: BorrowedFd<'_>,
    place: u64,
    pages: impl ExactSizeIterator<Item = (u64, bool)>,
) -> Result<(), Errno> {
    debug_assert!(pages.len() <= ORDER_PAGES);
    let mut bytes = order(ORDER_EVICT, pages.len() as u32, place);
    for (address, dirty) in pages {
        bytes.extend_from_slice(&(address | u64::from(dirty)).to_le_bytes());
    }
    send(orders, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Has the helper end the process by SIGBUS, after it has said why.
///
/// # Errors
/// The helper cannot be told now.
pub(super) fn end(orders: BorrowedFd<'_>, why: &str) -> Result<(), Errno> {
    let room = 8 * ORDER_PAGES - 1;
    let text = cut(why, room).as_bytes();
    let mut bytes = order(ORDER_END, text.len() as u32, 0);
    bytes.extend_from_slice(text);
    send(orders, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}
