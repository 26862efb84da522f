//! Means and how far they can be trusted.

use serde::Serialize;

/// A mean over seeds and half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean; of turns of which few are another's doing, their median.
    pub mean: f64,
    /// So far to either side; none of a single run.
    pub within: Option<f64>,
}

/// Student's t at 97.5 % for 1, 2, ... degrees of freedom; above, by its series.
const T: [f64; 10] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
];

impl Estimate {
    /// Of these runs.
    #[must_use]
    pub fn of(runs: &[f64]) -> Estimate {
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let within = (runs.len() > 1).then(|| {
            let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
            student(runs.len() - 1) * (squares / (count - 1.0) / count).sqrt()
        });
        Estimate { mean, within }
    }

    /// A value that does not vary.
    pub(super) fn certain(mean: f64) -> Estimate {
        Estimate { mean, within: None }
    }
}

fn student(freedom: usize) -> f64 {
    T.get(freedom - 1)
        .copied()
        .unwrap_or_else(|| 1.96 + 2.4 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]);
        assert!((estimate.mean - 2.0).abs() < 1e-12);
        assert!((estimate.within.expect("three runs") - 4.303 / 3.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Estimate::of(&[7.0]).within, None);
        // Tables say 2.045 for 29.
        assert!((student(29) - 2.045).abs() < 0.005);
    }
}
