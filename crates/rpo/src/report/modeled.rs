//! What the simulation has no notion of, by formulas that are fitted to the paper's own figures:
//! power, and misses of the cache. It shows how much of them so simple a formula explains.

use crate::Setting;
use crate::model::{Outcome, PowerParams};

/// Watts of a run: idle, with the cube of the frequency (and more of it with one thread a core, as
/// the paper measured), and with how busy the processors are.
pub(super) fn power(params: &PowerParams, ghz: f64, outcome: &Outcome) -> f64 {
    let one = outcome.in_setting[Setting::OnePerCore.index()];
    params.idle_w
        + (params.cubic_w + params.one_per_core_w * one) * ghz.powi(3)
        + params.busy_w * outcome.utilization
}

/// Four positive figures of two choices (second choice fastest) as a mean and a factor for each
/// choice: the least squares of their logarithms.
pub(super) fn as_factors(figures: [f64; 4]) -> [f64; 4] {
    let logs = figures.map(f64::ln);
    let mean = logs.iter().sum::<f64>() / 4.0;
    let first = (logs[2] + logs[3] - logs[0] - logs[1]) / 4.0;
    let second = (logs[1] + logs[3] - logs[0] - logs[2]) / 4.0;
    [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]
        .map(|(one, other)| (mean + one * first + other * second).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Params;

    #[test]
    fn what_is_factors_is_found_as_it_is() {
        let figures = [10.0, 30.0, 20.0, 60.0];
        for (found, figure) in as_factors(figures).into_iter().zip(figures) {
            assert!((found - figure).abs() < 1e-9, "{found} {figure}");
        }
        // What is none is not: 60 alone stands out.
        let found = as_factors([10.0, 10.0, 10.0, 60.0]);
        assert!(found[3] < 60.0 && found[0] < 10.0 && found[1] > 10.0);
    }

    #[test]
    fn watts_are_near_the_papers() {
        let params = Params::paper().expect("params/paper.toml");
        let power_of = |ghz, utilization, one: f64| {
            let outcome = Outcome {
                utilization,
                in_setting: [1.0 - one, one],
                ..Outcome::default()
            };
            power(params.power.as_ref().expect("fitted"), ghz, &outcome)
        };
        // With the paper's own utilization, Table I's first and last rows.
        assert!((power_of(2.534, 0.34, 0.0) - 184.0).abs() < 8.0);
        assert!((power_of(1.6, 0.86, 1.0) - 173.0).abs() < 8.0);
    }
}
