//! Datagrams by which agents test their links: small ones that are answered, and short bursts of
//! long ones, each answered by a small one. No answer is longer than what is answered.
//!
//! ```text
//!   | magic 4 | kind 1 | sequence 8 | number in a burst 2 | proof 16 | zeros, in a burst
//! ```

use super::bytes::{Put, Taker};
use crate::secret::{Prover, Secret};

const MAGIC: &[u8; 4] = b"RhVp";
/// Bytes of a proof.
const PROOF: usize = 16;
/// Bytes of one that is short.
const SHORT: usize = 4 + 1 + 8 + 2 + PROOF;
/// Bytes of one of a burst: what every network takes whole, with room for tunnels.
pub(crate) const LONG: usize = 1200;
/// Datagrams of a burst.
pub(crate) const BURST: u16 = 32;

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) kind: Kind,
    /// Which test it is of; the asker's own.
    pub(crate) sequence: u64,
    /// Which of a burst.
    pub(crate) number: u16,
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ask,
    Answer,
    Burst,
    BurstAnswer,
}

impl Probe {
    /// Its bytes.
    pub(crate) fn bytes(self, secret: &Secret) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(self.kind as u8);
        out.put_u64(self.sequence);
        out.put_u16(self.number);
        let proof = secret.prove(Prover::Probe, &[&out]);
        out.extend_from_slice(&proof[..PROOF]);
        if self.kind == Kind::Burst {
            out.resize(LONG, 0);
        }
        out
    }

    /// What these bytes are, if they are of somebody who has the secret.
    pub(crate) fn read(bytes: &[u8], secret: &Secret) -> Option<Probe> {
        let (said, proof) = bytes.get(..SHORT)?.split_at(SHORT - PROOF);
        let mut taker = Taker(said);
        if taker.slice(MAGIC.len())? != MAGIC {
            return None;
        }
        let kind = match taker.u8()? {
            0 => Kind::Ask,
            1 => Kind::Answer,
            2 => Kind::Burst,
            3 => Kind::BurstAnswer,
            _ => return None,
        };
        let length = if kind == Kind::Burst { LONG } else { SHORT };
        let probe = Probe {
            kind,
            sequence: taker.u64()?,
            number: taker.u16()?,
        };
        (bytes.len() == length && secret.is_proven(Prover::Probe, &[said], proof)).then_some(probe)
    }

    /// What it is answered with, if with anything.
    pub(crate) fn answer(self) -> Option<Probe> {
        let kind = match self.kind {
            Kind::Ask => Kind::Answer,
            Kind::Burst => Kind::BurstAnswer,
            Kind::Answer | Kind::BurstAnswer => return None,
        };
        Some(Probe { kind, ..self })
    }
}
