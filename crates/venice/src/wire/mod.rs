//! Messages as bytes: a length of four bytes, little-endian, then as many bytes, of which the first
//! says what it is. Nothing here does I/O, and nothing is allocated for a length that is only said.

pub(crate) mod bytes;
mod join;
mod local;
mod message;
pub(crate) mod probe;
mod reason;
mod register;
#[cfg(test)]
mod tests;

pub use join::{JOIN_MAX, Join};
pub use local::{Local, SealedBy};
pub use message::{Message, VERSION};
pub use reason::{NotLent, Reason, TurnedAway};
pub use register::{LinkReport, NODE_LOANS_MAX, NODES_MAX, PeerNode, Register, is_place};

/// Bytes of a length.
const HEAD: usize = 4;
/// Most bytes of a message.
pub const MESSAGE_MAX: usize = 256 << 10;
/// Most bytes of a message from somebody who has proven nothing yet, or from a borrower.
pub const SMALL_MAX: usize = 128;
/// Most bytes of a message from an agent to a borrower.
pub const LOCAL_MAX: usize = 8 << 10;

/// What is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbage {
    /// It is longer than any may be there.
    #[error("a message of {0} bytes, which is more than may be")]
    TooLong(usize),
    /// It cannot be read.
    #[error("a message that cannot be read")]
    Unread,
    /// Somebody greets in TLS.
    #[error(
        "a greeting in TLS, which this monitor does not speak: it was started with --key-file; \
         start it without, or the agent with that file instead of --identity"
    )]
    Tls,
}

/// What can be framed: [`Message`] and [`Local`].
pub trait Framed: Sized {
    /// Appends it, without a length.
    fn put_into(&self, out: &mut Vec<u8>);
    /// What all of these bytes are.
    fn take_from(bytes: &[u8]) -> Option<Self>;
}

impl Framed for Message {
    fn put_into(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    fn take_from(bytes: &[u8]) -> Option<Message> {
        Message::take(bytes)
    }
}

impl Framed for Local {
    fn put_into(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    fn take_from(bytes: &[u8]) -> Option<Local> {
        Local::take(bytes)
    }
}

/// Appends a message behind its length.
pub fn put<M: Framed>(message: &M, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    message.put_into(out);
    let length = (out.len() - start - HEAD) as u32;
    out[start..start + HEAD].copy_from_slice(&length.to_le_bytes());
}

/// The first message in these bytes and where it ends; nothing: it is not all there yet.
///
/// # Errors
/// What begins there is none, or longer than `most`.
pub fn first<M: Framed>(bytes: &[u8], most: usize) -> Result<Option<(M, usize)>, Garbage> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*head) as usize;
    // No message is as long as the greeting of a TLS record (RFC 8446, section 5.1) would say.
    if length > most && head.starts_with(&[22, 3]) {
        return Err(Garbage::Tls);
    }
    if length > most {
        return Err(Garbage::TooLong(length));
    }
    match rest.get(..length) {
        Some(message) => match M::take_from(message) {
            Some(message) => Ok(Some((message, HEAD + length))),
            None => Err(Garbage::Unread),
        },
        None => Ok(None),
    }
}
