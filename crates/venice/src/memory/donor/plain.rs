//! Borrowers that do not speak TLS, at a donor that speaks nothing else: they are told so, in what
//! they speak.

use crate::channel::frame;
use crate::identity::ONLY_TLS;
use crate::memory::wire::Answer;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// How long such a borrower has to take that.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Parts that are read of what it says meanwhile.
const PARTS_MAX: usize = 64;

/// Tells one, as far as it takes it.
pub(super) fn refuse(mut stream: &TcpStream) {
    let mut begins = [0; frame::MAGIC.len()];
    let came = stream.peek(&mut begins).unwrap_or(0);
    let mut bytes = Vec::new();
    match came == begins.len() && begins == frame::MAGIC {
        true => frame::put_refusal(&mut bytes, ONLY_TLS),
        false => Answer::Refused(ONLY_TLS).put(0, &mut bytes),
    }
    // Where it cannot be told, the connection's end tells.
    let _ = stream.set_write_timeout(Some(REFUSAL_TIME));
    let _ = stream.set_read_timeout(Some(REFUSAL_TIME));
    if stream.write_all(&bytes).is_err() || stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    // Where something is unread in the end, the kernel takes back what was said.
    let mut dropped = [0; 4096];
    for _ in 0..PARTS_MAX {
        if !matches!(stream.read(&mut dropped), Ok(1..)) {
            return;
        }
    }
}
