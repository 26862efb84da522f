//! Choices that a seed repeats.

use rand::TryRng;
use rhythm_besim::mix::mix64;
use std::convert::Infallible;
use std::time::Duration;

/// SplitMix64: small, and good enough to choose users and pages.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    #[must_use]
    pub(crate) const fn new(seed: u64) -> Rng {
        Rng(mix64(seed))
    }

    /// The next 64 bits.
    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(crate) const fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * n as u64) >> 32) as u32
    }

    /// True once in `n` times.
    pub(crate) const fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    /// A duration of an exponential distribution with this mean.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        // 53 random bits in (0, 1], so that the logarithm is finite.
        let uniform = ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        mean.mul_f64(-uniform.ln())
    }
}

/// For distributions that others define.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.bits() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.bits())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.bits().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_durations_have_their_mean() {
        let mut rng = Rng::new(7);
        let mean = Duration::from_millis(10);
        let total: Duration = (0..100_000).map(|_| rng.exponential(mean)).sum();
        let average = total / 100_000;
        assert!(
            average > mean.mul_f64(0.98) && average < mean.mul_f64(1.02),
            "{average:?}"
        );
    }

    #[test]
    fn a_seed_repeats() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.below(1000), rng.below(1000), rng.below(1000)]
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }
}
