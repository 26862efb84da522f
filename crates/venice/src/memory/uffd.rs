//! userfaultfd(2), as much of it as a pager needs: page faults of another process, answered here.
//!
//! The descriptor is made in that process and handed over. The library `userfaultfd` on crates.io
//! lacks copying with write protection. Numbers and layouts are those of linux/userfaultfd.h.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of a page: the kernel's smallest, on the machines this is for.
pub(super) const PAGE: usize = 4096;

const GROUP: u8 = 0xAA;
const MESSAGE_BYTES: usize = 32;
const MESSAGES: usize = 64;

const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_FORK: u8 = 0x13;
const FLAG_WRITE: u64 = 1;
const FLAG_PROTECTED: u64 = 2;
const COPY_PROTECTED: u64 = 2;
const PROTECT_WRITES: u64 = 1;
/// Faults on protected pages, forks, which thread it was, and which byte.
const FEATURES: u64 = 1 | 1 << 1 | 1 << 8 | 1 << 11;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

#[repr(C)]
struct Range {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Protect {
    range: Range,
    mode: u64,
}

const API: Opcode = opcode::read_write::<Api>(GROUP, 0x3f);
const WAKE: Opcode = opcode::read::<Range>(GROUP, 0x02);
const COPY: Opcode = opcode::read_write::<Copy>(GROUP, 0x03);
const PROTECT: Opcode = opcode::read_write::<Protect>(GROUP, 0x06);
const NEW: Opcode = opcode::none(GROUP, 0);

/// What happened in the process.
#[derive(Debug)]
pub(super) enum Event {
    /// A thread waits for a page.
    Fault {
        /// Where it reads or writes, to the byte.
        address: u64,
        /// It writes.
        write: bool,
        /// The page is there, and protected against writes.
        protected: bool,
        /// The thread's number in its own namespace.
        thread: u32,
    },
    /// It forked: this is the child's.
    Fork(Uffd),
}

/// How much was brought in, and why no more.
#[derive(Debug)]
pub(super) struct Copied {
    /// Whole pages that are there now and were not before.
    pub(super) pages: usize,
    /// Why not all are.
    pub(super) error: Option<Errno>,
}

/// The page faults of a process.
#[derive(Debug)]
pub(super) struct Uffd {
    fd: OwnedFd,
}

impl From<OwnedFd> for Uffd {
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Uffd {
    /// Brings pages in at an address where none are; who waits for them goes on. Protected, a
    /// write to them is an [`Event::Fault`].
    pub(super) fn copy(&self, address: u64, pages: &[u8], protected: bool) -> Copied {
        debug_assert!(pages.len().is_multiple_of(PAGE));
        let mut argument = Copy {
            to: address,
            from: pages.as_ptr().addr() as u64,
            length: pages.len() as u64,
            mode: if protected { COPY_PROTECTED } else { 0 },
            copied: 0,
        };
        // SAFETY: the opcode is UFFDIO_COPY, whose argument this is; the kernel reads `length`
        // bytes of `pages`, which is borrowed meanwhile, and writes to a process that handed over
        // its descriptor for this.
        let result = unsafe { ioctl(&self.fd, Updater::<COPY, Copy>::new(&mut argument)) };
        let copied = usize::try_from(argument.copied).unwrap_or(0) / PAGE;
        Copied {
            pages: if result.is_ok() {
                pages.len() / PAGE
            } else {
                copied
            },
            error: result.err(),
        }
    }

    /// Lets a page be written; who waits for that goes on, also where something else is mapped
    /// there by now.
    pub(super) fn unprotect(&self, address: u64) -> Result<(), Errno> {
        match self.set_protection(address, 0) {
            Err(Errno::NOENT) => self.wake(address, PAGE as u64),
            result => result,
        }
    }

    /// Has a write to a page that is there be an [`Event::Fault`].
    pub(super) fn protect(&self, address: u64) -> Result<(), Errno> {
        self.set_protection(address, PROTECT_WRITES)
    }

    fn set_protection(&self, address: u64, mode: u64) -> Result<(), Errno> {
        let mut argument = Protect {
            range: Range {
                start: address,
                length: PAGE as u64,
            },
            mode,
        };
        // SAFETY: the opcode is UFFDIO_WRITEPROTECT, whose argument this is.
        unsafe { ioctl(&self.fd, Updater::<PROTECT, Protect>::new(&mut argument)) }
    }

    /// Has who waits for whole pages try again.
    pub(super) fn wake(&self, address: u64, bytes: u64) -> Result<(), Errno> {
        let mut argument = Range {
            start: address,
            length: bytes,
        };
        // SAFETY: the opcode is UFFDIO_WAKE, whose argument this is.
        unsafe { ioctl(&self.fd, Updater::<WAKE, Range>::new(&mut argument)) }
    }

    /// Appends what happened, as far as there is something: forks first. The kernel tells of
    /// faults before them, but a page that is brought in now is not in a child that was forked
    /// before, so that child is to be known by then.
    ///
    /// # Errors
    /// What the kernel says of the descriptor.
    pub(super) fn read(&self, events: &mut Vec<Event>) -> io::Result<()> {
        let mut bytes = [0; MESSAGES * MESSAGE_BYTES];
        let read = match rustix::io::read(&self.fd, &mut bytes) {
            Ok(read) => read,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for message in bytes[..read].chunks_exact(MESSAGE_BYTES) {
            let number = |at: usize, bytes: usize| {
                let mut number = [0; 8];
                number[..bytes].copy_from_slice(&message[at..at + bytes]);
                u64::from_le_bytes(number)
            };
            match message[0] {
                EVENT_PAGEFAULT => {
                    let flags = number(8, 8);
                    events.push(Event::Fault {
                        address: number(16, 8),
                        write: flags & FLAG_WRITE != 0,
                        protected: flags & FLAG_PROTECTED != 0,
                        thread: number(24, 4) as u32,
                    });
                }
                EVENT_FORK => {
                    // SAFETY: the kernel made this descriptor for the reader of the message, who
                    // alone has it.
                    let fd = unsafe { OwnedFd::from_raw_fd(number(8, 4) as i32) };
                    events.push(Event::Fork(fd.into()));
                }
                // None that was asked for.
                _ => {}
            }
        }
        events.sort_by_key(|event| !matches!(event, Event::Fork(_)));
        Ok(())
    }
}

/// Whether a process of this user may have its faults answered, forks included.
///
/// # Errors
/// What the kernel says of that.
pub(super) fn probe() -> io::Result<()> {
    // SAFETY: nothing is registered with this descriptor, so nobody waits for it.
    let made = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK) };
    let fd = match made {
        Ok(fd) => fd,
        Err(refused) => {
            let device = OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/userfaultfd");
            let device = device.map_err(|_| io::Error::from(refused))?;
            new_of(&device)?
        }
    };
    let mut argument = Api {
        api: GROUP.into(),
        features: FEATURES,
        ioctls: 0,
    };
    // SAFETY: the opcode is UFFDIO_API, whose argument this is.
    unsafe { ioctl(&fd, Updater::<API, Api>::new(&mut argument)) }?;
    Ok(())
}

fn new_of(device: &impl AsFd) -> io::Result<OwnedFd> {
    /// USERFAULTFD_IOC_NEW, which takes flags and yields a descriptor.
    struct New;
    // SAFETY: the opcode takes a number, which `as_ptr` is, and yields a new descriptor.
    unsafe impl rustix::ioctl::Ioctl for New {
        type Output = OwnedFd;
        const IS_MUTATING: bool = false;
        fn opcode(&self) -> Opcode {
            NEW
        }
        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            std::ptr::without_provenance_mut(
                rustix::fs::OFlags::CLOEXEC.bits() as usize
                    | rustix::fs::OFlags::NONBLOCK.bits() as usize,
            )
        }
        unsafe fn output_from_ptr(
            output: rustix::ioctl::IoctlOutput,
            _: *mut std::ffi::c_void,
        ) -> rustix::io::Result<OwnedFd> {
            // SAFETY: on success the kernel yields a descriptor that nobody else has.
            Ok(unsafe { OwnedFd::from_raw_fd(output) })
        }
    }
    // SAFETY: see above.
    Ok(unsafe { ioctl(device, New) }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::IntoRawFd;

    #[test]
    fn forks_are_told_before_the_faults_that_were_read_with_them() {
        let (reader, mut writer) = io::pipe().unwrap();
        let child = File::open("/dev/null").unwrap().into_raw_fd();
        let mut messages = [0; 3 * MESSAGE_BYTES];
        for (fault, at) in [(1u64, 0), (2, 2 * MESSAGE_BYTES)] {
            messages[at] = EVENT_PAGEFAULT;
            messages[at + 16..at + 24].copy_from_slice(&(fault * PAGE as u64).to_le_bytes());
        }
        messages[MESSAGE_BYTES] = EVENT_FORK;
        messages[MESSAGE_BYTES + 8..MESSAGE_BYTES + 12].copy_from_slice(&child.to_le_bytes());
        writer.write_all(&messages).unwrap();
        let mut events = Vec::new();
        Uffd::from(OwnedFd::from(reader)).read(&mut events).unwrap();
        let faults = events.iter().map(|event| match event {
            Event::Fork(_) => 0,
            Event::Fault { address, .. } => address / PAGE as u64,
        });
        assert_eq!(faults.collect::<Vec<_>>(), [0, 1, 2]);
    }
}
