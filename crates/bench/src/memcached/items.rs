//! Keys and values: each value says which key and which version of it it is, so that a wrong one is
//! seen, and follows from them, so that a torn one is.
//!
//! ```text
//!   0            4         8           16
//!   key number   version   checksum    the rest, made of the checksum and the place
//! ```

use super::options::MemcachedOptions;
use super::sizes::{SMALLEST, Sizes};
use crate::load::Rng;
use rand_distr::{Distribution, Zipf};
use rhythm_besim::mix::mix64;

/// The items that a server is filled with.
#[derive(Clone, Debug)]
pub(super) struct Items {
    pub(super) count: u32,
    key_bytes: usize,
    sizes: Sizes,
    zipf: Option<Zipf<f64>>,
    /// What tells this run's values from those that another left.
    salt: u64,
}

impl Items {
    /// `None` where Zipf's law is not defined for the options.
    pub(super) fn new(options: &MemcachedOptions, salt: u64) -> Option<Items> {
        let zipf = match options.zipf {
            Some(exponent) => Some(Zipf::new(f64::from(options.keys), exponent).ok()?),
            None => None,
        };
        Some(Items {
            count: options.keys,
            key_bytes: options.key_bytes,
            sizes: options.value_bytes.clone(),
            zipf,
            salt,
        })
    }

    /// A key to be asked for.
    pub(super) fn choose(&self, rng: &mut Rng) -> u32 {
        match &self.zipf {
            Some(zipf) => (zipf.sample(rng) as u32).clamp(1, self.count) - 1,
            None => rng.below(self.count),
        }
    }

    /// Appends the key of this number: a letter and the number, as long as keys are.
    pub(super) fn write_key(&self, number: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.key_bytes, b'0');
        out[start] = b'k';
        let mut rest = number;
        for digit in out[start + 1..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
    }

    /// The number of a key; `None` where it is none of these keys.
    pub(super) fn number(&self, key: &[u8]) -> Option<u32> {
        let digits = key.strip_prefix(b"k")?;
        let is_ours = key.len() == self.key_bytes && digits.iter().all(u8::is_ascii_digit);
        let digit = |sum: u64, byte: &u8| {
            sum.saturating_mul(10)
                .saturating_add(u64::from(byte - b'0'))
        };
        let number = is_ours.then(|| digits.iter().fold(0, digit))?;
        u32::try_from(number)
            .ok()
            .filter(|number| *number < self.count)
    }

    /// The length of a key's values.
    pub(super) fn value_bytes(&self, number: u32) -> usize {
        self.sizes.choose(mix64(self.salt ^ u64::from(number)))
    }

    /// The longest value.
    pub(super) fn largest(&self) -> usize {
        self.sizes.largest()
    }

    fn checksum(&self, number: u32, version: u32) -> u64 {
        mix64(self.salt.rotate_left(32) ^ mix64(u64::from(number) << 32 | u64::from(version)))
    }

    /// Appends a key's value of this version.
    pub(super) fn write_value(&self, number: u32, version: u32, out: &mut Vec<u8>) {
        let start = out.len();
        let checksum = self.checksum(number, version);
        out.resize(start + self.value_bytes(number).max(SMALLEST), 0);
        let value = &mut out[start..];
        value[0..4].copy_from_slice(&number.to_le_bytes());
        value[4..8].copy_from_slice(&version.to_le_bytes());
        value[8..16].copy_from_slice(&checksum.to_le_bytes());
        let (words, last) = value[16..].as_chunks_mut::<8>();
        let mut expected = Rest(checksum);
        for word in words {
            *word = expected.next();
        }
        last.copy_from_slice(&expected.next()[..last.len()]);
    }

    /// Which version of a key's value this is, or what is wrong with it.
    pub(super) fn version(&self, number: u32, value: &[u8]) -> Result<u32, &'static str> {
        let word = |at: usize| value.get(at..at + 4).and_then(|word| word.try_into().ok());
        let (Some(key), Some(version)) = (word(0), word(4)) else {
            return Err("a value that is cut short");
        };
        let (key, version) = (u32::from_le_bytes(key), u32::from_le_bytes(version));
        let checksum = self.checksum(key, version);
        if value.get(8..16) != Some(&checksum.to_le_bytes()) {
            return Err("a value that nobody wrote in this run");
        }
        if key != number {
            return Err("the value of another key");
        }
        if value.len() != self.value_bytes(number) {
            return Err("a value of another length than was written");
        }
        let (words, last) = value[16..].as_chunks::<8>();
        let mut expected = Rest(checksum);
        // All words without a branch between them, so that the compiler takes several at once: the
        // generator must cost less than the servers it compares.
        let damage = words.iter().fold(0, |damage, word| {
            damage | (u64::from_le_bytes(*word) ^ u64::from_le_bytes(expected.next()))
        });
        if damage == 0 && *last == expected.next()[..last.len()] {
            Ok(version)
        } else {
            Err("a torn or damaged value")
        }
    }
}

/// The rest of a value, eight bytes at a time; it begins with the checksum.
struct Rest(u64);

impl Rest {
    fn next(&mut self) -> [u8; 8] {
        let word = self.0.to_le_bytes();
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Items {
        let options = MemcachedOptions {
            value_bytes: text.parse().unwrap(),
            zipf: Some(0.99),
            keys: 1000,
            ..MemcachedOptions::default()
        };
        Items::new(&options, 7).unwrap()
    }

    #[test]
    fn keys_are_found_again_and_others_are_not() {
        let items = items("16");
        let mut key = Vec::new();
        items.write_key(907, &mut key);
        assert_eq!(key, b"k000000000000907");
        assert_eq!(items.number(&key), Some(907));
        for other in [&b"k000000000001000"[..], b"k907", b"x000000000000907", b""] {
            assert_eq!(items.number(other), None);
        }
    }

    #[test]
    fn every_changed_byte_of_a_value_is_seen() {
        for text in ["16", "17", "100", "16-3000"] {
            let items = items(text);
            let mut value = Vec::new();
            items.write_value(5, 9, &mut value);
            assert_eq!(items.version(5, &value), Ok(9));
            assert_eq!(items.version(6, &value), Err("the value of another key"));
            for at in 0..value.len() {
                value[at] ^= 0x40;
                assert!(items.version(5, &value).is_err(), "{text} {at}");
                value[at] ^= 0x40;
                assert!(items.version(5, &value[..at]).is_err(), "{text} {at}");
            }
            let of_another_run = Items { salt: 8, ..items };
            assert!(of_another_run.version(5, &value).is_err());
        }
    }

    #[test]
    fn by_zipfs_law_the_first_keys_are_asked_for_most() {
        let items = items("16");
        let mut rng = Rng::new(3);
        let mut counts = vec![0; 1000];
        (0..100_000).for_each(|_| counts[items.choose(&mut rng) as usize] += 1);
        // The first of 1000 keys has 1 / H(1000, 0.99) = 12.9 % of all.
        assert!((12_000..14_000).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[0] > counts[9] && counts[9] > counts[99]);
    }
}
