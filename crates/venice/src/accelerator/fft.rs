//! Fourier transforms, by rustfft.

use super::request::Failure;
pub use rustfft::num_complex::Complex;
use rustfft::{Fft as Plan, FftDirection, FftPlanner};
use std::fmt;
use std::sync::Arc;

/// Bytes of a number: two `f32`, little-endian, the real part first.
pub(crate) const POINT_BYTES: usize = 8;

/// Plans that are kept: so many, for so many points together. One has as many constants as points,
/// and a few times that where a length has large prime factors.
const PLANS_MAX: usize = 16;
const PLANNED_POINTS_MAX: usize = 1 << 20;

/// One accelerator: plans of what it did of late, and room to do it in.
#[derive(Default)]
pub(super) struct Fft {
    plans: Vec<(usize, FftDirection, Arc<dyn Plan<f32>>)>,
    points: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
}

impl fmt::Debug for Fft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fft({} plans)", self.plans.len())
    }
}

impl Fft {
    /// Transforms what `input` has into as many bytes of `output`: how many.
    ///
    /// # Errors
    /// [`Failure::Length`].
    pub(super) fn run(
        &mut self,
        direction: FftDirection,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Failure> {
        let whole = !input.is_empty() && input.len().is_multiple_of(POINT_BYTES);
        let Some(output) = output.get_mut(..input.len()).filter(|_| whole) else {
            return Err(Failure::Length);
        };
        let plan = self.plan(input.len() / POINT_BYTES, direction);
        // What an earlier borrower had is gone: both are zeroed below.
        self.points.clear();
        self.points
            .extend(input.chunks_exact(POINT_BYTES).map(point));
        self.scratch
            .resize(plan.get_inplace_scratch_len(), Complex::default());
        plan.process_with_scratch(&mut self.points, &mut self.scratch);
        for (point, to) in self.points.iter().zip(output.chunks_exact_mut(POINT_BYTES)) {
            to[..4].copy_from_slice(&point.re.to_le_bytes());
            to[4..].copy_from_slice(&point.im.to_le_bytes());
        }
        self.points.fill(Complex::default());
        self.scratch.fill(Complex::default());
        Ok(input.len())
    }

    fn plan(&mut self, points: usize, direction: FftDirection) -> Arc<dyn Plan<f32>> {
        let known = self
            .plans
            .iter()
            .find(|plan| plan.0 == points && plan.1 == direction);
        if let Some((.., plan)) = known {
            return Arc::clone(plan);
        }
        let planned: usize = self.plans.iter().map(|plan| plan.0).sum();
        if self.plans.len() >= PLANS_MAX || planned + points > PLANNED_POINTS_MAX {
            self.plans.clear();
        }
        let plan = FftPlanner::new().plan_fft(points, direction);
        self.plans.push((points, direction, Arc::clone(&plan)));
        plan
    }
}

/// The number of eight bytes.
fn point(bytes: &[u8]) -> Complex<f32> {
    let (mut re, mut im) = ([0; 4], [0; 4]);
    re.copy_from_slice(&bytes[..4]);
    im.copy_from_slice(&bytes[4..]);
    Complex::new(f32::from_le_bytes(re), f32::from_le_bytes(im))
}

/// Numbers as a job has them.
pub fn to_bytes(points: &[Complex<f32>]) -> Vec<u8> {
    let parts = points.iter().flat_map(|point| [point.re, point.im]);
    parts.flat_map(f32::to_le_bytes).collect()
}

/// The numbers of a job's bytes; what is left behind the last whole one is not looked at.
pub fn from_bytes(bytes: &[u8]) -> Vec<Complex<f32>> {
    bytes.chunks_exact(POINT_BYTES).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    /// By the definition, in double precision.
    fn plainly(points: &[Complex<f32>], sign: f64) -> Vec<Complex<f64>> {
        let n = points.len();
        let sum = |k: usize| {
            let term = |(j, x): (usize, &Complex<f32>)| {
                let angle = sign * TAU * ((j * k) % n) as f64 / n as f64;
                Complex::new(f64::from(x.re), f64::from(x.im)) * Complex::from_polar(1.0, angle)
            };
            points.iter().enumerate().map(term).sum()
        };
        (0..n).map(sum).collect()
    }

    #[test]
    fn transforms_are_those_of_the_definition() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut fft = Fft::default();
        for (direction, sign) in [(FftDirection::Forward, -1.0), (FftDirection::Inverse, 1.0)] {
            for n in [1, 2, 3, 8, 30, 97, 256, 500] {
                let mut part = || random.f32() * 2.0 - 1.0;
                let points: Vec<_> = (0..n).map(|_| Complex::new(part(), part())).collect();
                let mut output = vec![0; n * POINT_BYTES + 16];
                let bytes = fft.run(direction, &to_bytes(&points), &mut output);
                assert_eq!(bytes, Ok(n * POINT_BYTES));
                let got = from_bytes(&output[..n * POINT_BYTES]);
                for (got, wanted) in got.iter().zip(plainly(&points, sign)) {
                    let (re, im) = (f64::from(got.re), f64::from(got.im));
                    assert!((Complex::new(re, im) - wanted).norm() < 1e-3, "{n} points");
                }
            }
        }
        assert!(fft.points.iter().all(|point| *point == Complex::default()));
        assert!(fft.scratch.iter().all(|point| *point == Complex::default()));
    }

    #[test]
    fn plans_are_bounded_and_parts_of_numbers_refused() {
        let mut fft = Fft::default();
        let mut output = vec![0; 4096];
        for n in 1..100 {
            let input = vec![0; n * POINT_BYTES];
            fft.run(FftDirection::Forward, &input, &mut output).unwrap();
            assert!(fft.plans.len() <= PLANS_MAX);
        }
        fft.plan(PLANNED_POINTS_MAX / 2, FftDirection::Forward);
        fft.plan(PLANNED_POINTS_MAX / 2 + 1, FftDirection::Forward);
        assert_eq!(fft.plans.len(), 1);
        for bytes in [0, 7, 9, 4096 + 8] {
            let refused = fft.run(FftDirection::Forward, &vec![0; bytes], &mut output);
            assert_eq!(refused, Err(Failure::Length), "{bytes}");
        }
    }
}
