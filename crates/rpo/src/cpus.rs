//! Sets of CPUs, in the form in which Linux writes them: `0-3,8,10-11`.

use std::fmt;
use std::str::FromStr;

/// The kernel's own limit (`NR_CPUS`): no list names a CPU beyond.
pub(crate) const CPUS_MAX: usize = 8192;
/// Longest list that is read: one that names each second of [`CPUS_MAX`] CPUs is shorter.
const TEXT_MAX: usize = 32 * 1024;

/// A set of CPUs.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// A bit a CPU; the last word is not zero, so that equal sets are equal.
    words: Vec<u64>,
}

/// Why a text is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It is longer than any list can be.
    #[error("the list of CPUs is longer than {TEXT_MAX} bytes")]
    Long,
    /// A part of it is neither a number nor a range.
    #[error("`{0}` is neither a CPU, such as 3, nor a range, such as 0-3")]
    Part(String),
    /// A range ends before it begins.
    #[error("the range {0}-{1} ends before it begins")]
    Backwards(usize, usize),
    /// A CPU that there cannot be.
    #[error("there is no CPU {0}: the last that Linux can have is {last}", last = CPUS_MAX - 1)]
    Large(usize),
}

impl CpuSet {
    /// Adds a CPU. One that there cannot be is left out.
    pub fn insert(&mut self, cpu: usize) {
        if cpu >= CPUS_MAX {
            return;
        }
        if self.words.len() <= cpu / 64 {
            self.words.resize(cpu / 64 + 1, 0);
        }
        self.words[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Whether it has this CPU.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        (self.words.get(cpu / 64)).is_some_and(|word| word & (1 << (cpu % 64)) != 0)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Its CPUs, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * 64).filter(|&cpu| self.contains(cpu))
    }

    /// The lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|&cpu| other.contains(cpu)).collect()
    }

    /// Whether all of it is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<T: IntoIterator<Item = usize>>(cpus: T) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl Extend<usize> for CpuSet {
    fn extend<T: IntoIterator<Item = usize>>(&mut self, cpus: T) {
        cpus.into_iter().for_each(|cpu| self.insert(cpu));
    }
}

impl FromStr for CpuSet {
    type Err = ListError;

    /// Reads a list; an empty one is the empty set.
    fn from_str(text: &str) -> Result<CpuSet, ListError> {
        if text.len() > TEXT_MAX {
            return Err(ListError::Long);
        }
        let mut set = CpuSet::default();
        for part in text.trim().split(',').map(str::trim) {
            if part.is_empty() {
                continue;
            }
            let number = |text: &str| -> Result<usize, ListError> {
                let wrong = || ListError::Part(part.chars().take(40).collect());
                // `parse` takes a sign, which no list has.
                if !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(wrong());
                }
                let cpu = text.parse().map_err(|_| wrong())?;
                if cpu >= CPUS_MAX {
                    return Err(ListError::Large(cpu));
                }
                Ok(cpu)
            };
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(ListError::Backwards(first, last));
            }
            (first..=last).for_each(|cpu| set.insert(cpu));
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&next| next == last + 1) {
                last = next;
            }
            write!(out, "{separator}{first}")?;
            if last > first {
                write!(out, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_linux_does() {
        for (text, cpus, written) in [
            ("0-3,8\n", vec![0, 1, 2, 3, 8], "0-3,8"),
            ("", vec![], ""),
            ("\n", vec![], ""),
            ("5", vec![5], "5"),
            ("3,1,2,2", vec![1, 2, 3], "1-3"),
            ("0,2,4-5,", vec![0, 2, 4, 5], "0,2,4-5"),
            ("63-64", vec![63, 64], "63-64"),
            ("8191", vec![8191], "8191"),
        ] {
            let set: CpuSet = text.parse().expect(text);
            assert_eq!(set.iter().collect::<Vec<_>>(), cpus, "{text:?}");
            assert_eq!(set.len(), cpus.len());
            assert_eq!(set.to_string(), written);
            assert_eq!(written.parse(), Ok(set));
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let large = "0-".to_owned() + &"9".repeat(18);
        for text in [
            "a", "1-", "-1", "+1", "1-2-3", "3-1", "8192", "0x1", "1;2", &large,
        ] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
        assert_eq!("0,".repeat(20_000).parse::<CpuSet>(), Err(ListError::Long));
    }

    #[test]
    fn sets_compare_by_what_they_have() {
        let set = |text: &str| text.parse::<CpuSet>().expect(text);
        assert!(set("1-2").is_subset(&set("0-3")) && !set("1-4").is_subset(&set("0-3")));
        assert_eq!(set("0-5,70").intersection(&set("4-9")), set("4-5"));
        assert_eq!((set("70,3").first(), set("").first()), (Some(3), None));
    }
}
