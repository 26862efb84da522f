//! Which processes have a memory whose page faults are answered here.
//!
//! A thread's number tells that only within its own namespace of processes, and one that waits for
//! nothing tells none. So the memory's first page, which is nobody's, is protected against writes:
//! whose page tables show that, and do not any more when it is taken back, has that memory.

use super::uffd::{PAGE, Uffd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// A page is protected, in an entry of /proc/PID/pagemap.
const PROTECTED: u64 = 1 << 57;

/// Those processes, of the memory that begins at `start`, with descriptors that name no others.
///
/// # Errors
/// What the kernel says; `EAGAIN` while one of them forks.
pub(super) fn find(uffd: &Uffd, start: u64) -> io::Result<Vec<OwnedFd>> {
    // The page may be there already.
    let _ = uffd.copy(start, &[0; PAGE], true);
    uffd.protect(start)?;
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let folder = entry?;
        let number = folder.file_name().to_str().and_then(|it| it.parse().ok());
        let Some(process) = number.and_then(Pid::from_raw) else {
            continue;
        };
        // In this order: where the number is another's by now, the descriptor names who is gone.
        if let Ok(process) = pidfd_open(process, PidfdFlags::empty())
            && let Ok(pages) = File::open(folder.path().join("pagemap"))
            && is_protected(&pages, start)
        {
            found.push((process, pages));
        }
    }
    uffd.unprotect(start)?;
    found.retain(|(_, pages)| !is_protected(pages, start));
    Ok(found.into_iter().map(|(process, _)| process).collect())
}

fn is_protected(pages: &File, address: u64) -> bool {
    let mut entry = [0; 8];
    let read = pages.read_exact_at(&mut entry, address / PAGE as u64 * 8);
    read.is_ok() && u64::from_ne_bytes(entry) & PROTECTED != 0
}
