//! What machines lend each other, and how much of it a loan has.
//!
//! Memory is counted in bytes, and what does jobs in *shares*: an accelerator has [`SHARES`]. Who
//! shares one in turn with others has one share, and who has one alone has all of one. So one
//! number says what is idle, whatever it is of, and the last accelerator is not lent alone while
//! somebody shares it.

use std::fmt;
use std::str::FromStr;

/// Shares of one accelerator: so many borrowers have it in turn at most.
pub const SHARES: u64 = 16;

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Memory, in bytes.
    Memory,
    /// Accelerators for Fourier transforms, by mailboxes.
    Fft,
    /// Accelerators for AES-GCM, by mailboxes.
    Aes,
    /// What runs the stages of Rhythm's cohorts: `rhythm device`.
    Device,
}

/// Another name than a kind has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is called {0} that machines lend: there are memory, fft, aes and device")]
pub struct NoKind(String);

impl Kind {
    /// All there are.
    pub const ALL: [Kind; 4] = [Kind::Memory, Kind::Fft, Kind::Aes, Kind::Device];

    /// Its name, in flags, tables and figures.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Fft => "fft",
            Kind::Aes => "aes",
            Kind::Device => "device",
        }
    }

    /// Whether a loan can have so much of it.
    pub(crate) fn is_lent_by(self, amount: u64) -> bool {
        match self {
            Kind::Memory => amount > 0,
            Kind::Fft | Kind::Aes | Kind::Device => amount == 1 || amount == SHARES,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = NoKind;

    fn from_str(name: &str) -> Result<Kind, NoKind> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| NoKind(name.to_owned()))
    }
}

/// So much of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Of what.
    pub kind: Kind,
    /// Bytes of memory; else shares.
    pub amount: u64,
}

impl Share {
    /// So many bytes of memory.
    pub const fn memory(bytes: u64) -> Share {
        let (kind, amount) = (Kind::Memory, bytes);
        Share { kind, amount }
    }

    /// One of what does jobs, alone or in turn with others.
    pub const fn of_one(kind: Kind, is_alone: bool) -> Share {
        let amount = if is_alone { SHARES } else { 1 };
        Share { kind, amount }
    }

    /// All of so many of what does jobs.
    pub const fn of_all(kind: Kind, count: u64) -> Share {
        let amount = count.saturating_mul(SHARES);
        Share { kind, amount }
    }

    /// Whether who has it shares it with nobody.
    pub const fn is_alone(self) -> bool {
        self.amount >= SHARES
    }

    /// Whether a loan can have so much.
    pub fn is_lent(self) -> bool {
        self.kind.is_lent_by(self.amount)
    }
}

/// As people read it: `64.0 MiB`, `3`, or `2 15/16`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Memory {
            return f.write_str(&crate::units::bytes(self.amount));
        }
        match (self.amount / SHARES, self.amount % SHARES) {
            (whole, 0) => write!(f, "{whole}"),
            (0, part) => write!(f, "{part}/{SHARES}"),
            (whole, part) => write!(f, "{whole} {part}/{SHARES}"),
        }
    }
}

/// What a node lends of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Of what.
    pub kind: Kind,
    /// The most that it lends.
    pub size: u64,
    /// What of that is idle now.
    pub idle: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_people_count() {
        let shown = |amount| {
            let kind = Kind::Fft;
            Share { kind, amount }.to_string()
        };
        assert_eq!([0, 1, 16, 47].map(shown), ["0", "1/16", "1", "2 15/16"]);
        assert_eq!(Share::memory(64 << 20).to_string(), "64.0 MiB");
    }

    #[test]
    fn a_loan_has_one_accelerator_or_a_share_of_one() {
        for kind in [Kind::Fft, Kind::Aes, Kind::Device] {
            assert!(Share::of_one(kind, true).is_lent() && Share::of_one(kind, true).is_alone());
            assert!(Share::of_one(kind, false).is_lent() && !Share::of_one(kind, false).is_alone());
            let wrong = [0, 2, SHARES - 1, SHARES + 1, u64::MAX];
            assert!(wrong.iter().all(|amount| !kind.is_lent_by(*amount)));
        }
        assert!(Share::memory(2).is_lent() && !Share::memory(0).is_lent());
    }

    #[test]
    fn kinds_have_names() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "gpu".parse::<Kind>().expect_err("there is none");
        assert!(error.to_string().contains("fft"), "{error}");
    }
}
