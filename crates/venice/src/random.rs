//! Numbers that nobody can guess, from the system.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// One.
///
/// # Panics
/// The system has none, which it always has once it has started (getrandom(2)).
pub fn numbers() -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => panic!("the system gives no random numbers: {errno}"),
        }
    }
    bytes
}
