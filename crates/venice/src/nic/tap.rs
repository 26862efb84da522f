//! A TAP: an interface of this machine whose frames a program has.
//!
//! Each frame has a header (`struct virtio_net_hdr`) that says which of its checksums are missing
//! and into what it is to be cut, so that TCP gives and takes 64 KiB at a time where the kernel
//! may (`TUNSETOFFLOAD`). The interface is there as long as this is. The system calls are five, so
//! they are here by rustix, which the crate has anyway, and not by another crate.
#![allow(unsafe_code)]

use super::ip::is_name;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use thiserror::Error;

const DEVICE: &str = "/dev/net/tun";
/// `IFNAMSIZ`.
const NAME_BYTES: usize = 16;
/// `IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL`: one that there was is not taken.
const FLAGS: i16 = 0x0002 | 0x1000 | 0x4000 | i16::MIN;

// linux/if_tun.h
const GROUP: u8 = b'T';
const TUNSETIFF: Opcode = opcode::write::<c_int>(GROUP, 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<u32>(GROUP, 208);
const TUNSETVNETLE: Opcode = opcode::write::<c_int>(GROUP, 220);
const TUNSETCARRIER: Opcode = opcode::write::<c_int>(GROUP, 226);

/// `TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN`.
const OFFLOAD_TCP: usize = 0x01 | 0x02 | 0x04 | 0x08;
/// And `TUN_F_USO4 | TUN_F_USO6`, of Linux 6.2.
const OFFLOAD_ALL: usize = OFFLOAD_TCP | 0x20 | 0x40;

/// `struct ifreq`, as TUNSETIFF has it.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: i16,
    rest: [u8; 22],
}

/// Why there is no interface.
#[derive(Debug, Error)]
pub enum NoTap {
    /// It cannot have this name.
    #[error("an interface cannot be named {0:?}: 1 to 15 characters, no blank, slash or colon")]
    Name(String),
    /// The kernel or the container has no TAPs.
    #[error(
        "there is no {DEVICE}: {0}. Load it (modprobe tun), make it (mkdir -p /dev/net; mknod \
         {DEVICE} c 10 200), or give it to the container (--device {DEVICE})"
    )]
    NoDevice(io::Error),
    /// Who asks may not.
    #[error(
        "this may make no interface: {0}. It needs CAP_NET_ADMIN: be root, or, in a container, \
         --cap-add NET_ADMIN"
    )]
    NotAllowed(io::Error),
    /// It is there.
    #[error("there is an interface {0} already: name another, or remove it (ip link delete {0})")]
    Exists(String),
    /// Something else.
    #[error("cannot make interface {name}: {error}")]
    System {
        /// Which.
        name: String,
        /// What the kernel says.
        error: io::Error,
    },
}

/// An interface.
#[derive(Debug)]
pub(super) struct Tap {
    fd: OwnedFd,
    name: String,
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Tap {
    /// Makes one, which is down; a name that ends in `%d` gets the first number that is free.
    /// With offload, its frames are as large as the kernel makes them.
    ///
    /// # Errors
    /// [`NoTap`].
    pub(super) fn make(name: &str, offload: bool) -> Result<Self, NoTap> {
        if !is_name(name) {
            return Err(NoTap::Name(name.to_owned()));
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = open(DEVICE, flags, Mode::empty());
        let fd = opened.map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => NoTap::NotAllowed(errno.into()),
            _ => NoTap::NoDevice(errno.into()),
        })?;
        let mut request = Request {
            name: [0; NAME_BYTES],
            flags: FLAGS,
            rest: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, whose 40 bytes and layout `Request`
        // has; the name is ended by a zero, since it is shorter than its place.
        let made = unsafe { ioctl(&fd, Updater::<TUNSETIFF, Request>::new(&mut request)) };
        made.map_err(|errno| match errno {
            Errno::PERM => NoTap::NotAllowed(errno.into()),
            Errno::BUSY | Errno::EXIST => NoTap::Exists(name.to_owned()),
            _ => NoTap::System {
                name: name.to_owned(),
                error: errno.into(),
            },
        })?;
        let end = request.name.iter().position(|byte| *byte == 0);
        let name = &request.name[..end.unwrap_or(NAME_BYTES)];
        let tap = Self {
            fd,
            name: String::from_utf8_lossy(name).into_owned(),
        };
        tap.prepare(offload).map_err(|errno| NoTap::System {
            name: tap.name.clone(),
            error: errno.into(),
        })?;
        Ok(tap)
    }

    fn prepare(&self, offload: bool) -> Result<(), Errno> {
        // SAFETY: TUNSETVNETLE reads an int: numbers in headers are little-endian, at both ends.
        unsafe { ioctl(&self.fd, Setter::<TUNSETVNETLE, c_int>::new(1)) }?;
        if offload && self.offload(OFFLOAD_ALL).is_err() && self.offload(OFFLOAD_TCP).is_err() {
            tracing::warn!(interface = %self.name, "this kernel has no offload for it");
        }
        Ok(())
    }

    fn offload(&self, what: usize) -> Result<(), Errno> {
        // SAFETY: TUNSETOFFLOAD takes a number, and no pointer.
        unsafe { ioctl(&self.fd, IntegerSetter::<TUNSETOFFLOAD>::new_usize(what)) }
    }

    /// Plugs its cable in, or out. Linux before 5.0 cannot: then nothing happens.
    pub(super) fn set_carrier(&self, is_on: bool) {
        // SAFETY: TUNSETCARRIER reads an int.
        let set = unsafe { ioctl(&self.fd, Setter::<TUNSETCARRIER, c_int>::new(is_on.into())) };
        if let Err(error) = set {
            tracing::debug!(interface = %self.name, %error, "its carrier cannot be set");
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next frame that leaves by the interface, with its header; none where there is none now.
    ///
    /// # Errors
    /// The interface is no more.
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match read(&self.fd, into) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Has a frame, with its header, come in by the interface; false where the kernel does not take
    /// it: it is none, or the interface is down, or there is no memory for it.
    pub(super) fn write(&self, frame: &[u8]) -> bool {
        write(&self.fd, frame).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_is_refused_before_anything_is_made() {
        for name in ["", "0123456789abcdef", "a b", "../x"] {
            assert!(
                matches!(Tap::make(name, true), Err(NoTap::Name(_))),
                "{name}"
            );
        }
    }
}
