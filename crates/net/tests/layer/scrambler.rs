//! The toy codec.

use rhythm_net::*;
use std::io::{ErrorKind, IoSlice};

/// A record: its kind, the length of its bytes (16 bits), and these, scrambled.
pub(crate) const DATA: u8 = b'D';
pub(crate) const END: u8 = b'E';

pub(crate) const HEAD: usize = 3;

/// Bytes in a record, at most.
pub(crate) const RECORD_MAX: usize = 4000;
pub(crate) const GREETING: &[u8] = b"good day\n";

#[derive(Default)]
pub(crate) struct Scrambler {
    /// Input of which no whole record is made yet.
    pub(crate) partial: Vec<u8>,
    pub(crate) has_greeted: bool,
    pub(crate) is_greeted: bool,
    pub(crate) has_ended: bool,
    /// Bytes scrambled in each direction so far: a record lost or repeated makes nonsense of all
    /// that follows.
    pub(crate) sealed: u64,
    pub(crate) opened: u64,
}

pub(crate) fn scramble(bytes: &mut [u8], count: &mut u64) {
    for byte in bytes {
        *byte ^= (*count).wrapping_mul(0x9e37_79b9) as u8 ^ 0x5a;
        *count += 1;
    }
}

impl Scrambler {
    pub(crate) fn record(&mut self, kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        let start = out.len();
        out.extend_from_slice(bytes);
        scramble(&mut out[start..], &mut self.sealed);
    }
}

impl Codec for Scrambler {
    fn seal(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> usize {
        if !self.is_ready() {
            return 0;
        }
        let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
        let bytes: Vec<u8> = bytes.take(RECORD_MAX).collect();
        self.record(DATA, &bytes, out);
        bytes.len()
    }

    fn open(
        &mut self,
        input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorKind> {
        if !self.has_greeted {
            self.has_greeted = true;
            out.extend_from_slice(GREETING);
        }
        self.partial.extend_from_slice(input);
        if !self.is_greeted && self.partial.len() >= GREETING.len() {
            if !self.partial.starts_with(GREETING) {
                return Err(ErrorKind::InvalidData);
            }
            self.partial.drain(..GREETING.len());
            self.is_greeted = true;
        }
        while self.is_greeted && self.partial.len() >= HEAD {
            let length = usize::from(u16::from_be_bytes([self.partial[1], self.partial[2]]));
            if length > RECORD_MAX || self.has_ended {
                return Err(ErrorKind::InvalidData);
            }
            if self.partial.len() < HEAD + length {
                break;
            }
            let start = plain.len();
            plain.extend_from_slice(&self.partial[HEAD..HEAD + length]);
            scramble(&mut plain[start..], &mut self.opened);
            self.has_ended = self.partial[0] == END;
            self.partial.drain(..HEAD + length);
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.has_greeted && self.is_greeted
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.record(END, b"", out);
    }
}

pub(crate) const PLAIN: Role = Role(0);
pub(crate) const SCRAMBLED: Role = Role(1);

pub(crate) struct Scramblers;

impl Codecs for Scramblers {
    type Codec = Scrambler;

    fn accepted(&mut self, accepted: &Accepted) -> Option<Scrambler> {
        (accepted.role == SCRAMBLED).then(Scrambler::default)
    }

    fn connecting(&mut self, peer: &Peer) -> Option<Scrambler> {
        (&*peer.name == "scrambled").then(Scrambler::default)
    }
}

// ----- the handler -----
