//! Borrowers that do not speak TLS, at a donor that speaks nothing else: they are told so, in what
//! they speak.

use crate::channel::frame;
use crate::identity::{ONLY_TLS, hear_out};
use crate::memory::wire::Answer;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How long such a borrower has to take that.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

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
    let until = Instant::now() + REFUSAL_TIME;
    let _ = stream.set_write_timeout(Some(REFUSAL_TIME));
    // It is short, and goes in one piece where there is room for it.
    if stream.write_all(&bytes).is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        hear_out(stream, until);
    }
}
