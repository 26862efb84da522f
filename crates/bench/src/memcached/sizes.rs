//! How long values are: the same for all, spread over a range, or some of each.

use std::fmt;
use std::str::FromStr;

/// The shortest value: it says its key and its version, and has a checksum.
pub(super) const SMALLEST: usize = 16;
/// The longest.
const LARGEST: usize = 1 << 20;

/// Lengths of values, in bytes.
///
/// As text: `512` is one length for all, `16-65536` a range over which the logarithm is spread
/// evenly, and `16:90,512:9,65536:1` some lengths, each with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(Spread);

#[derive(Clone, Debug, PartialEq)]
enum Spread {
    Range(usize, usize),
    /// Lengths, each with the sum of the weights up to its own.
    Weighted(Vec<(usize, u32)>),
}

impl Sizes {
    /// One length for all.
    #[must_use]
    pub fn fixed(bytes: usize) -> Sizes {
        Sizes(Spread::Range(bytes, bytes))
    }

    /// The length that these random bits choose.
    pub(super) fn choose(&self, bits: u64) -> usize {
        match &self.0 {
            Spread::Range(from, to) if from == to => *from,
            Spread::Range(from, to) => {
                let share = (bits >> 11) as f64 / (1_u64 << 53) as f64;
                let ratio = *to as f64 / *from as f64;
                ((*from as f64 * ratio.powf(share)).round() as usize).clamp(*from, *to)
            }
            Spread::Weighted(lengths) => {
                let total = lengths.last().map_or(1, |(_, until)| *until);
                let at = (u64::from(total) * (bits >> 32)) >> 32;
                let chosen = lengths.iter().find(|(_, until)| at < u64::from(*until));
                chosen.map_or(SMALLEST, |(length, _)| *length)
            }
        }
    }

    /// The longest of them.
    pub(crate) fn largest(&self) -> usize {
        match &self.0 {
            Spread::Range(_, to) => *to,
            Spread::Weighted(lengths) => lengths
                .iter()
                .map(|(length, _)| *length)
                .max()
                .unwrap_or(SMALLEST),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let length = |text: &str| match text.trim().parse() {
            Ok(length @ SMALLEST..=LARGEST) => Ok(length),
            _ => Err(format!(
                "{text:?} is no length of a value: {SMALLEST} to {LARGEST} bytes"
            )),
        };
        if text.contains(':') {
            let mut lengths = Vec::new();
            let mut total = 0_u32;
            for part in text.split(',') {
                let form = || format!("{part:?} is not LENGTH:WEIGHT");
                let (bytes, weight) = part.split_once(':').ok_or_else(form)?;
                let weight: u32 = weight.trim().parse().map_err(|_| form())?;
                let sum = total.checked_add(weight).filter(|sum| *sum < 1 << 31);
                total = sum.ok_or("the weights are too large")?;
                lengths.push((length(bytes)?, total));
            }
            if total == 0 {
                return Err("one weight at least must be above 0".to_owned());
            }
            return Ok(Sizes(Spread::Weighted(lengths)));
        }
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (length(from)?, length(to)?);
        if from > to {
            return Err(format!(
                "{text:?} is no range: the shorter length comes first"
            ));
        }
        Ok(Sizes(Spread::Range(from, to)))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Spread::Range(from, to) if from == to => write!(f, "{from}"),
            Spread::Range(from, to) => write!(f, "{from}-{to}"),
            Spread::Weighted(lengths) => {
                let mut before = 0;
                for (index, (length, until)) in lengths.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{length}:{}", until - before)?;
                    before = *until;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Rng;

    #[test]
    fn what_is_read_is_shown_and_chosen() {
        let mut rng = Rng::new(5);
        for (text, largest) in [("512", 512), ("16-65536", 65536), ("16:90,600:9,64:1", 600)] {
            let sizes: Sizes = text.parse().unwrap();
            assert_eq!(
                (sizes.to_string().as_str(), sizes.largest()),
                (text, largest)
            );
            assert!((0..1000).all(|_| (16..=largest).contains(&sizes.choose(rng.bits()))));
        }
        let weighted: Sizes = "16:9,100:1".parse().unwrap();
        let long = (0..10_000)
            .filter(|_| weighted.choose(rng.bits()) == 100)
            .count();
        assert!((900..1100).contains(&long), "{long}");
        for wrong in [
            "", "15", "2000000", "20-16", "16:0", "16:x", "16:1,9:1", "-16",
        ] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }
}
