//! The binary protocol: a header of 24 bytes, then extras, key and value.
//!
//! ```text
//!   0      1       2          4         5         6             8           12       16
//!   magic  opcode  key bytes  extras'   datatype  status, or    body bytes  opaque   CAS id
//!                             bytes               bucket
//! ```
//!
//! As in memcached, a request is taken when its header, extras and key are there; only a value is
//! waited for besides. What a wrong request has beyond them is taken for the next one.

use super::command::{Commands, KEY_MAX, Key, Kind, Mode, Request, Span, Status, Store, What};
use super::stream::{Rules, State, Step, Stream};

/// The first byte of each request.
pub(crate) const MAGIC_REQUEST: u8 = 0x80;
/// The first byte of each response.
pub(crate) const MAGIC_RESPONSE: u8 = 0x81;
/// The length of a header, in bytes.
const HEADER: usize = 24;

/// DELETEQ.
const DELETE_QUIETLY: u8 = 0x14;

/// The request that drops a key, whatever the bytes of that are.
pub(crate) fn drop_key(key: &[u8]) -> Vec<u8> {
    let mut request = vec![0; HEADER];
    (request[0], request[1]) = (MAGIC_REQUEST, DELETE_QUIETLY);
    request[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    request[8..12].copy_from_slice(&(key.len() as u32).to_be_bytes());
    request.extend_from_slice(key);
    request
}

/// The opcode of the same request with an answer, if this one is quiet.
fn loud(opcode: u8) -> Option<u8> {
    Some(match opcode {
        0x09 => 0x00,               // GETQ
        0x0d => 0x0c,               // GETKQ
        0x11..=0x18 => opcode - 16, // SETQ to FLUSHQ
        0x19 | 0x1a => opcode - 11, // APPENDQ, PREPENDQ
        0x1e => 0x1d,               // GATQ
        0x24 => 0x23,               // GATKQ
        _ => return None,
    })
}

/// Takes one request at `at`.
pub(super) fn parse(
    stream: &mut Stream,
    rules: &Rules,
    bytes: &[u8],
    at: usize,
    out: &mut Commands,
) -> Step {
    let rest = &bytes[at..];
    let Some((header, _)) = rest.split_first_chunk::<HEADER>() else {
        return Step::Need(HEADER);
    };
    if header[0] != MAGIC_REQUEST {
        return close(stream, bytes, at, out);
    }
    let opcode = header[1];
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras_len = usize::from(header[4]);
    let body_len = be32(&header[8..]) as usize;
    let head_len = HEADER + extras_len + key_len;
    let Some(extras) = rest.get(HEADER..head_len) else {
        return Step::Need(head_len);
    };
    let extras = &extras[..extras_len];
    let mut request = Request {
        opcode,
        quiet: loud(opcode).is_some(),
        opaque: be32(&header[12..]),
        cas: be64(&header[16..]),
        what: What::Refused(Status::UnknownCommand),
    };
    if key_len + extras_len > body_len {
        out.request(at, Key::default(), request);
        return close(stream, bytes, at, out);
    }
    let key_at = at + HEADER + extras_len;
    let value_len = body_len - key_len - extras_len;
    let parts = Parts {
        opcode: loud(opcode).unwrap_or(opcode),
        extras,
        key_len,
        value_len,
        // Without CAS ids there is none that an item must have to be replaced.
        cas: if rules.with_cas { request.cas } else { 0 },
    };
    match (key_len <= KEY_MAX).then(|| parts.what()).flatten() {
        None => {
            request.what = What::Refused(Status::Invalid);
            out.request(at, Key::default(), request);
            return close(stream, bytes, at, out);
        }
        Some(what) => request.what = what,
    }
    let key = Key::new(Span::new(key_at..key_at + key_len));
    let done = Step::Done(head_len);
    match &mut request.what {
        What::Store(store) => {
            if !rules.item_fits(key_len, store.flags, value_len as u64) {
                request.what = What::Refused(Status::TooLarge);
                if parts.opcode == 0x01 {
                    out.push(at, key, Kind::Drop);
                }
                out.request(at, key, request);
                stream.state = match value_len {
                    0 => State::Between,
                    bytes => State::Swallow(bytes as u64),
                };
                return done;
            }
            if rest.len() < head_len + value_len {
                return Step::Need(head_len + value_len);
            }
            let start = at + head_len;
            store.value = Span::new(start..start + value_len);
            out.request(at, key, request);
            return Step::Done(head_len + value_len);
        }
        What::Flush { .. } if !rules.may_flush => {
            request.what = What::Refused(Status::Auth);
        }
        // memcached has taken extras and key, and passes over the whole body behind them.
        What::Refused(_) if matches!(parts.opcode, 0x20..=0x22) => {
            stream.state = swallowing(body_len - key_len);
        }
        What::Refused(_) => stream.state = swallowing(body_len),
        _ => {}
    }
    out.request(at, key, request);
    if request.what == What::Quit {
        return close(stream, bytes, at, out);
    }
    done
}

/// What follows an unknown request with so many bytes behind it. memcached counts them with a sign:
/// from 2 GiB on there are none.
fn swallowing(bytes: usize) -> State {
    match i32::try_from(bytes) {
        Ok(0) | Err(_) => State::Between,
        Ok(bytes) => State::Swallow(bytes as u64),
    }
}

fn close(stream: &mut Stream, bytes: &[u8], at: usize, out: &mut Commands) -> Step {
    out.push(at, Key::default(), Kind::Close);
    stream.state = State::Closed;
    Step::Done(bytes.len() - at)
}

fn be32(bytes: &[u8]) -> u32 {
    bytes[..4]
        .iter()
        .fold(0, |n, byte| n << 8 | u32::from(*byte))
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from(be32(bytes)) << 32 | u64::from(be32(&bytes[4..]))
}

impl Commands {
    fn request(&mut self, start: usize, key: Key, request: Request) {
        let index = self.binary.len() as u32;
        self.binary.push(request);
        self.push(start, key, Kind::Binary { index });
    }
}

/// What tells what a request wants.
struct Parts<'a> {
    /// The one with an answer.
    opcode: u8,
    extras: &'a [u8],
    key_len: usize,
    value_len: usize,
    cas: u64,
}

impl Parts<'_> {
    /// What the request wants; `None` if the lengths do not go with that.
    fn what(&self) -> Option<What> {
        let has_key = self.key_len > 0;
        let (extras, value) = (self.extras.len(), self.value_len);
        let is_bare = !has_key && extras == 0 && value == 0;
        let (fits, what) = match self.opcode {
            0x00 | 0x0c => (
                has_key && extras == 0 && value == 0,
                What::Get {
                    touch: None,
                    with_key: self.opcode == 0x0c,
                    with_value: true,
                },
            ),
            0x1c | 0x1d | 0x23 if extras == 4 && has_key => {
                let get = What::Get {
                    touch: Some(be32(self.extras)),
                    with_key: self.opcode == 0x23,
                    with_value: self.opcode != 0x1c,
                };
                (true, get)
            }
            0x01..=0x03 if extras == 8 && has_key => {
                let mode = match self.opcode {
                    _ if self.cas != 0 => Mode::Cas,
                    0x01 => Mode::Set,
                    0x02 => Mode::Add,
                    _ => Mode::Replace,
                };
                let (flags, exptime) = (be32(self.extras), be32(&self.extras[4..]));
                (true, self.store(mode, flags, exptime))
            }
            0x0e | 0x0f => {
                let mode = match self.opcode {
                    0x0e => Mode::Append,
                    _ => Mode::Prepend,
                };
                (has_key && extras == 0, self.store(mode, 0, 0))
            }
            0x04 => (has_key && extras == 0 && value == 0, What::Delete),
            0x05 | 0x06 if extras == 20 && has_key && value == 0 => {
                let arithmetic = What::Arithmetic {
                    up: self.opcode == 0x05,
                    delta: be64(self.extras),
                    initial: be64(&self.extras[8..]),
                    exptime: be32(&self.extras[16..]),
                };
                (true, arithmetic)
            }
            0x08 if !has_key && value == 0 && matches!(extras, 0 | 4) => {
                let exptime = if extras == 4 { be32(self.extras) } else { 0 };
                (true, What::Flush { exptime })
            }
            0x0a => (is_bare, What::Noop),
            0x0b => (is_bare, What::Version),
            0x10 => (extras == 0, What::Stat),
            0x07 => (is_bare, What::Quit),
            // SASL, which there is none of.
            0x20 => (is_bare, What::Refused(Status::UnknownCommand)),
            0x21 | 0x22 => {
                let fits = extras == 0 && has_key;
                (fits, What::Refused(Status::UnknownCommand))
            }
            0x01..=0x08 | 0x1c | 0x1d | 0x23 => return None,
            _ => (true, What::Refused(Status::UnknownCommand)),
        };
        fits.then_some(what)
    }

    fn store(&self, mode: Mode, flags: u32, exptime: u32) -> What {
        What::Store(Store {
            mode,
            flags,
            exptime: exptime.into(),
            cas: self.cas,
            new_cas: None,
            vivify: None,
            value: Span::default(),
        })
    }
}
