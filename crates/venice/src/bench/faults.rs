//! The least that a page fault answered from elsewhere costs: a userfaultfd handler that asks for
//! one page at a time and evicts nothing. It shares no code with the pager that it is compared
//! with.
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{MapFlags, ProtFlags, UserfaultfdFlags, mmap_anonymous, munmap, userfaultfd};
use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

const GROUP: u8 = 0xAA;
const MESSAGE_BYTES: usize = 32;
const EVENT_PAGEFAULT: u8 = 0x12;
const REGISTER_MISSING: u64 = 1;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
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

const API: Opcode = opcode::read_write::<Api>(GROUP, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(GROUP, 0x00);
const COPY: Opcode = opcode::read_write::<Copy>(GROUP, 0x03);

/// Memory none of whose pages are there, until they are touched and the handler brings them.
struct Region {
    start: *mut c_void,
    bytes: usize,
    faults: OwnedFd,
}

// SAFETY: the region is read by volatile reads of single bytes, and written by the kernel alone.
unsafe impl Sync for Region {}

impl Region {
    fn new(bytes: usize) -> io::Result<Self> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: what is registered with it is this region alone, whose faults are answered.
        let faults = unsafe { userfaultfd(flags) }?;
        let mut api = Api {
            api: GROUP.into(),
            features: 0,
            ioctls: 0,
        };
        // SAFETY: the opcode is UFFDIO_API, whose argument this is.
        unsafe { ioctl(&faults, Updater::<API, Api>::new(&mut api)) }?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        let region = Self {
            start,
            bytes,
            faults,
        };
        let mut register = Register {
            start: start.addr() as u64,
            length: bytes as u64,
            mode: REGISTER_MISSING,
            ioctls: 0,
        };
        // SAFETY: the opcode is UFFDIO_REGISTER, whose argument this is; the range is the region.
        unsafe {
            ioctl(
                &region.faults,
                Updater::<REGISTER, Register>::new(&mut register),
            )
        }?;
        Ok(region)
    }

    /// Touches a page: one byte of it.
    fn touch(&self, page: usize) -> u8 {
        assert!(page < self.bytes / PAGE);
        // SAFETY: the byte is within the mapping, which is readable and lives as long as `self`.
        unsafe { self.start.cast::<u8>().add(page * PAGE).read_volatile() }
    }

    /// Brings a page in.
    fn bring(&self, page: usize, bytes: &[u8; PAGE]) -> io::Result<()> {
        let mut copy = Copy {
            to: (self.start.addr() + page * PAGE) as u64,
            from: bytes.as_ptr().addr() as u64,
            length: PAGE as u64,
            mode: 0,
            copied: 0,
        };
        // SAFETY: the opcode is UFFDIO_COPY, whose argument this is; the kernel reads a page of
        // `bytes` and makes one of the region, of which nothing is borrowed.
        unsafe { ioctl(&self.faults, Updater::<COPY, Copy>::new(&mut copy)) }?;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own, and not used after.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// Has `touch` run with a function that touches pages of a fresh region; `fetch` gets each page
/// when it is touched, on the handler's thread.
///
/// # Errors
/// What the kernel says of userfaultfd, or what `fetch` says: pages after that are zeros.
pub(super) fn with_raw_handler<R>(
    pages: usize,
    mut fetch: impl FnMut(usize, &mut [u8; PAGE]) -> io::Result<()> + Send,
    touch: impl FnOnce(&dyn Fn(usize) -> u8) -> R,
) -> io::Result<R> {
    let region = Region::new(pages * PAGE)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (region, is_over) = (&region, &is_over);
        let handler = scope.spawn(move || {
            let mut failed = Ok(());
            let mut page = [0; PAGE];
            while !is_over.load(Ordering::Acquire) {
                let Some(wanted) = next_fault(region)? else {
                    continue;
                };
                if failed.is_ok() {
                    failed = fetch(wanted, &mut page);
                }
                // Who waits goes on in any case.
                region.bring(wanted, &page)?;
            }
            failed
        });
        let result = touch(&|page| region.touch(page));
        is_over.store(true, Ordering::Release);
        match handler.join() {
            Ok(handled) => handled.map(|()| result),
            Err(_) => Err(io::Error::other("the handler has panicked")),
        }
    })
}

/// The page of the next fault; none where there is none for a moment.
fn next_fault(region: &Region) -> io::Result<Option<usize>> {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut fds = [PollFd::new(&region.faults, PollFlags::IN)];
    match poll(&mut fds, Some(&moment)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut message = [0; MESSAGE_BYTES];
    match rustix::io::read(&region.faults, &mut message) {
        Ok(MESSAGE_BYTES) if message[0] == EVENT_PAGEFAULT => {
            let mut address = [0; 8];
            address.copy_from_slice(&message[16..24]);
            let address = u64::from_le_bytes(address) as usize;
            Ok(Some((address - region.start.addr()) / PAGE))
        }
        Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
