//! How the figures are made, and which.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// BerkeleyDB over links of other machines' memory.
    Three,
    /// PageRank and BerkeleyDB over channels.
    Five,
    /// The same with a router on the way.
    Six,
    /// Redis, of which most is remote, in front of a database.
    Fourteen,
    /// Programs of which three quarters are remote.
    Fifteen,
    /// Accelerators and NICs of others.
    Sixteen,
    /// The channels beside each other.
    Seventeen,
    /// Credits by messages and by CRMA.
    Eighteen,
}

impl Figure {
    /// All of them, in the paper's order.
    pub const ALL: [Figure; 8] = [
        Figure::Three,
        Figure::Five,
        Figure::Six,
        Figure::Fourteen,
        Figure::Fifteen,
        Figure::Sixteen,
        Figure::Seventeen,
        Figure::Eighteen,
    ];

    /// Its number in the paper.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Figure::Three => 3,
            Figure::Five => 5,
            Figure::Six => 6,
            Figure::Fourteen => 14,
            Figure::Fifteen => 15,
            Figure::Sixteen => 16,
            Figure::Seventeen => 17,
            Figure::Eighteen => 18,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Figure {}", self.number())
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Figure, String> {
        let number = text.parse().ok();
        let found = Figure::ALL.into_iter();
        let found = found
            .into_iter()
            .find(|figure| Some(figure.number()) == number);
        found.ok_or_else(|| {
            let numbers = Figure::ALL.map(|figure| figure.number().to_string());
            format!("the figures that are made are {}", numbers.join(", "))
        })
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct VeniceEffort {
    /// How often programs are run each way; the median counts.
    pub rounds: usize,
    /// Graphs have 2^scale vertices, texts 2^scale times 64 bytes.
    pub scale: u32,
    /// Keys of redis, and records of BerkeleyDB.
    pub keys: u32,
    /// Requests to redis, and transactions of BerkeleyDB.
    pub requests: u32,
    /// Turns of each channel and accelerator.
    pub turns: usize,
    /// Queries of Figure 14: the paper has 10,000.
    pub queries: u32,
    /// How long a NIC is measured each time, in milliseconds.
    pub nic_ms: u64,
}

impl VeniceEffort {
    /// What figures are worth.
    pub const FULL: VeniceEffort = VeniceEffort {
        rounds: 3,
        scale: 20,
        keys: 200_000,
        requests: 200_000,
        turns: 15,
        queries: 10_000,
        nic_ms: 2000,
    };
    /// For a first look.
    pub const QUICK: VeniceEffort = VeniceEffort {
        rounds: 3,
        scale: 15,
        keys: 20_000,
        requests: 10_000,
        turns: 9,
        queries: 2000,
        nic_ms: 500,
    };
}

/// How the figures are made.
#[derive(Clone, Debug)]
pub struct VeniceOptions {
    /// The `rhythm` program, whose commands are run.
    pub program: PathBuf,
    /// Where charts and tables go; made if it is not there.
    pub out: PathBuf,
    /// Which figures.
    pub figures: Vec<Figure>,
    /// How much is done.
    pub effort: VeniceEffort,
    /// The redis-server to run.
    pub redis: PathBuf,
    /// The perl whose DB_File is BerkeleyDB.
    pub perl: PathBuf,
    /// The machine, which the report tells.
    pub machine: String,
    /// The commit of the program and its version, which the report tells.
    pub commit: String,
    /// The command line, which the report tells.
    pub command: String,
}

#[cfg(test)]
impl VeniceOptions {
    /// For a test, whose programs are in this folder.
    pub(super) fn made_up(folder: &std::path::Path) -> VeniceOptions {
        VeniceOptions {
            program: folder.join("rhythm"),
            out: folder.to_owned(),
            figures: Figure::ALL.into(),
            effort: VeniceEffort::QUICK,
            redis: "redis-server".into(),
            perl: "perl".into(),
            machine: String::new(),
            commit: String::new(),
            command: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_by_their_numbers() {
        for figure in Figure::ALL {
            assert_eq!(figure.number().to_string().parse(), Ok(figure));
        }
        for wrong in ["4", "", "x", "fifteen"] {
            assert!(wrong.parse::<Figure>().is_err());
        }
    }
}
