//! What victims felt, as a table.

use crate::load::Micros;
use std::fmt;

/// How long a victim waited in a phase, for answers of status 200 and for those that did not come;
/// in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    /// Answers of status 200.
    pub answers: u64,
    /// Other answers, and those that did not come.
    pub failed: u64,
    /// What the first of these was.
    pub failure: Option<String>,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// What a victim felt.
#[derive(Clone, Debug, PartialEq)]
pub struct Felt {
    /// What it asked for.
    pub target: String,
    /// While nothing else happened.
    pub quiet: Waits,
    /// Beside the attack.
    pub beside: Waits,
}

impl Felt {
    /// How many times its quiet p99 is its p99 beside the attack: infinite where nothing was
    /// answered beside it, and `None` where nothing was while it was quiet.
    pub fn ratio(&self) -> Option<f64> {
        match (self.quiet.answers, self.beside.answers) {
            (0, _) => None,
            (_, 0) => Some(f64::INFINITY),
            _ => Some(self.beside.p99 / self.quiet.p99),
        }
    }
}

/// What became of the server's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peak {
    /// The most memory that it had resident, in bytes.
    Bytes(u64),
    /// It has ended.
    Gone,
}

/// One attack, and what was felt of it: some rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub attack: &'static str,
    /// By each victim.
    pub felt: Vec<Felt>,
    /// What it did: connections opened and closed, and sends of which something was taken.
    pub actions: u64,
    /// Connections that it could not open.
    pub refused: u64,
    /// What became of the server meanwhile, where its process is known.
    pub peak: Option<Peak>,
}

impl Row {
    /// The table's head: over which columns rows are printed.
    pub const HEAD: &'static str = concat!(
        "                                       quiet                        beside\n",
        "attack          actions victim           p50       p99       max",
        "       p50       p99       max    ratio  peak",
    );
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, felt) in self.felt.iter().enumerate() {
            if index == 0 {
                write!(f, "{:<14}{:>9} ", self.attack, self.actions)?;
            } else {
                write!(f, "\n{:<24}", "")?;
            }
            let name = felt.target.rsplit('/').next().unwrap_or_default();
            write!(f, "{name:<10.10}")?;
            for waits in [&felt.quiet, &felt.beside] {
                for value in [waits.p50, waits.p99, waits.max] {
                    write!(f, "{:>10}", Micros(value))?;
                }
            }
            match felt.ratio() {
                Some(ratio) => write!(f, "{ratio:>9.2}")?,
                None => write!(f, "{:>9}", "-")?,
            }
            if let (Some(Peak::Bytes(bytes)), 0) = (self.peak, index) {
                write!(f, "  {} MB", bytes / 1_000_000)?;
            }
        }
        if self.peak == Some(Peak::Gone) {
            f.write_str("\n  the server's process is gone")?;
        }
        match self.refused {
            0 => {}
            1 => f.write_str("\n  1 connection was not let in")?,
            more => write!(f, "\n  {more} connections were not let in")?,
        }
        for felt in &self.felt {
            for (waits, when) in [(&felt.quiet, "quiet"), (&felt.beside, "beside")] {
                if let Some(failure) = &waits.failure {
                    let Waits {
                        answers, failed, ..
                    } = waits;
                    let all = answers + failed;
                    let target = &felt.target;
                    write!(
                        f,
                        "\n  {when}: {failed} of {all} {target} failed: {failure}"
                    )?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_keep_to_their_columns() {
        let waits = Waits {
            answers: 1,
            failed: 0,
            failure: None,
            p50: 123.0,
            p99: 123_456.0,
            max: 999_990.0,
        };
        let felt = Felt {
            target: "/static/a.css".to_owned(),
            quiet: Waits {
                p99: 120.0,
                ..waits.clone()
            },
            beside: waits,
        };
        let row = Row {
            attack: "half-requests",
            felt: vec![felt],
            actions: 12_345_678,
            refused: 1,
            peak: Some(Peak::Gone),
        };
        let text = format!("{}\n{row}", Row::HEAD);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3], "  the server's process is gone");
        assert_eq!(lines[4], "  1 connection was not let in");
        // Each value ends where the head of its column does.
        for (head, value) in [("actions", "12345678"), ("ratio", "1028.80")] {
            let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
            assert_eq!(ends(lines[1], head), ends(lines[2], value), "{text}");
        }
        let heads = lines[1]
            .match_indices("max")
            .map(|(at, head)| at + head.len());
        let values = lines[2].match_indices("999.99 ms");
        let values = values.map(|(at, value)| at + value.len());
        assert!(heads.eq(values), "{text}");
        assert!(lines[2].contains(" 123.46 ms "), "{text}");
    }
}
