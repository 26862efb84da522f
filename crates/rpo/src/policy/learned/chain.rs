//! How many requests would run in the mean, in a setting, with so much work coming in.
//!
//! Requests that share processors make a chain of birth and death: work comes in at a rate of
//! `offered` cores and n running requests do `n * speed(n)` of it. Its mean depends on the demands'
//! distribution in no way (processor sharing), which is why nothing else need be known of them.

/// More than these for each core are not looked at.
const MOST_PER_CORE: f64 = 12.0;

/// The mean number of running requests.
pub(super) fn mean_running(offered: f64, cores: f64, speed: impl Fn(f64) -> f64) -> f64 {
    let most = (cores * MOST_PER_CORE).clamp(16.0, 512.0) as u32;
    let (mut weight, mut total, mut sum) = (1.0_f64, 1.0_f64, 0.0_f64);
    for running in 1..=most {
        let running = f64::from(running);
        weight *= offered / (running * speed(running)).max(1e-9);
        total += weight;
        sum += running * weight;
        if total > 1e100 {
            (weight, total, sum) = (weight / total, 1.0, sum / total);
        }
    }
    sum / total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_erlangs_formula_where_speeds_are_of_plain_cores() {
        // One core: a / (1 - a).
        let mean = mean_running(0.5, 1.0, |running| 1.0 / running);
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        // Four cores at 0.8: 3.2 + 0.8 / 0.2 * C(4, 3.2), which is 0.5964.
        let mean = mean_running(3.2, 4.0, |running| (4.0 / running).min(1.0));
        assert!((mean - 5.5857).abs() < 0.02, "{mean}");
    }

    #[test]
    fn too_much_work_fills_it() {
        let mean = mean_running(5.0, 4.0, |running| (4.0 / running).min(1.0));
        assert!(mean > 40.0, "{mean}");
    }
}
