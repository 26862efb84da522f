//! What a pager counts.

use super::store::Counts;
use rhythm_observe::{FineTimeHistogram, HistogramSum, NANOSECOND, Writer};
use std::fmt;
use std::time::Duration;

/// Buckets a power of two.
const FINE: u32 = 8;
const BUCKETS: usize = 40 * FINE as usize;

/// How long things took, to an eighth of a power of two.
#[derive(Clone, Debug)]
pub(super) struct Times {
    counts: Vec<u64>,
    count: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            count: 0,
        }
    }
}

impl Times {
    pub(super) fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos())
            .unwrap_or(u64::MAX)
            .max(FINE.into());
        let power = nanoseconds.ilog2();
        let part = (nanoseconds >> (power - FINE.ilog2())) as u32 - FINE;
        let bucket = ((power - FINE.ilog2()) * FINE + part) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
    }

    /// The time that so many of a thousand did not exceed.
    pub(super) fn quantile(&self, per_mille: u64) -> Duration {
        let wanted = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(bound(bucket));
            }
        }
        Duration::ZERO
    }

    /// The same, less fine, as it is told to others; the sum is right to an eighth, too.
    pub(super) fn told(&self) -> HistogramSum {
        let (told, mut sum) = (FineTimeHistogram::default(), HistogramSum::default());
        for (bucket, count) in self.counts.iter().enumerate() {
            told.record(bound(bucket), *count);
        }
        sum.add(&told, NANOSECOND);
        sum
    }
}

/// What no time in a bucket exceeds, in nanoseconds.
fn bound(bucket: usize) -> u64 {
    let (power, part) = (bucket as u32 / FINE, bucket as u32 % FINE);
    u64::from(FINE + part + 1) << power
}

/// What happened to the pages of a program and of what it forked.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Faults on pages that were not there.
    pub faults: u64,
    /// Of these, on pages that nobody had touched.
    pub first_touches: u64,
    /// Of these, on pages that were on their way to the donor, and came back from here.
    pub returned: u64,
    /// Of these, on pages that were asked for ahead and had not come yet.
    pub awaited: u64,
    /// Of these, on pages that had to be asked of the donor.
    pub fetched: u64,
    /// Pages asked of the donor ahead.
    pub fetched_ahead: u64,
    /// First writes to pages that the donor has as they are.
    pub written: u64,
    /// Pages that left.
    pub evictions: u64,
    /// Of these, those that had to be sent.
    pub sent: u64,
    /// Of these, those that had zeros only.
    pub zeros: u64,
    /// Forks.
    pub forks: u64,
    /// The most pages of one process that were here at a time.
    pub present_most: u64,
    pub(super) donors: Counts,
    pub(super) times: Times,
    pub(super) fetch_times: Times,
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Figures {
    /// Of the faults on pages that the program had touched before, the part that needed no donor.
    fn here(&self) -> f64 {
        let all = self.faults.saturating_sub(self.first_touches);
        let here = self.returned + self.awaited;
        if all == 0 {
            1.0
        } else {
            here as f64 / all as f64
        }
    }
}

impl Figures {
    /// Writes them for who collects figures.
    pub(super) fn encode(&self, to: &mut Writer<'_>) -> fmt::Result {
        let Counts {
            lost,
            moved,
            copied,
        } = self.donors;
        for (name, help, value) in [
            ("faults", "Faults on pages that were not there", self.faults),
            (
                "first_touches",
                "Of these, on pages that nobody had touched",
                self.first_touches,
            ),
            (
                "returned",
                "Of these, on pages that were on their way to a donor",
                self.returned,
            ),
            (
                "awaited",
                "Of these, on pages that were asked for ahead",
                self.awaited,
            ),
            (
                "fetched",
                "Of these, on pages that a donor was asked for",
                self.fetched,
            ),
            (
                "fetched_ahead",
                "Pages that a donor was asked for ahead",
                self.fetched_ahead,
            ),
            (
                "first_writes",
                "First writes to pages since they came",
                self.written,
            ),
            ("evictions", "Pages that left", self.evictions),
            ("sent", "Of these, those that were sent", self.sent),
            ("zeros", "Of these, those that had zeros only", self.zeros),
            ("forks", "Forks", self.forks),
            (
                "donors_lost",
                "Donors that were lost, and nothing with them",
                lost,
            ),
            (
                "loans_moved",
                "Loans that went back, after all was elsewhere",
                moved,
            ),
            (
                "pages_copied",
                "Pages that were copied to another donor",
                copied,
            ),
        ] {
            to.counter(name, help, value)?;
        }
        let help = "The most memory of one process that was here at a time";
        to.gauge("most_here_bytes", help, (self.present_most * 4096) as f64)?;
        for (name, help, times) in [
            (
                "fault_seconds",
                "Times from a fault to the page",
                &self.times,
            ),
            (
                "fetch_seconds",
                "Of these, where a donor was asked",
                &self.fetch_times,
            ),
        ] {
            to.histograms(name, help, vec![(Vec::new(), times.told())])?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} faults ({} first touches, {} of the donor, {} of the others met here); \
             {} pages fetched ahead; {} first writes; {} evictions, {} of them sent, {} all zeros; \
             {} forks; at most {} MiB here; a fault took {:.0} us (p50), {:.0} us (p99), one of \
             the donor {:.0} us, {:.0} us",
            self.faults,
            self.first_touches,
            self.fetched,
            format_args!("{:.1} %", 100.0 * self.here()),
            self.fetched_ahead,
            self.written,
            self.evictions,
            self.sent,
            self.zeros,
            self.forks,
            (self.present_most * 4096) >> 20,
            microseconds(self.times.quantile(500)),
            microseconds(self.times.quantile(990)),
            microseconds(self.fetch_times.quantile(500)),
            microseconds(self.fetch_times.quantile(990)),
        )?;
        let Counts {
            lost,
            moved,
            copied,
        } = self.donors;
        if lost + moved + copied == 0 {
            return Ok(());
        }
        write!(
            f,
            "; {lost} donors lost without harm, {moved} given their memory back, {copied} pages \
             copied to others"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let mut times = Times::default();
        assert_eq!(times.quantile(500), Duration::ZERO);
        for microseconds in 1..=1000 {
            times.add(Duration::from_micros(microseconds));
        }
        for (per_mille, exact) in [(500, 500.0), (990, 990.0), (1, 1.0)] {
            let told = microseconds(times.quantile(per_mille));
            assert!(told >= exact && told <= exact * 1.13, "{told} for {exact}");
        }
        times.add(Duration::ZERO);
        times.add(Duration::MAX);
        assert_eq!(times.told().count(), 1002);
    }

    #[test]
    fn what_is_told_has_the_times_where_they_belong() {
        let mut figures = Figures {
            faults: 3,
            ..Figures::default()
        };
        for microseconds in [10, 10, 3000] {
            figures.times.add(Duration::from_micros(microseconds));
        }
        let told = rhythm_observe::encode("run", move |to| figures.encode(to)).expect("a text");
        let told = told.replace("{}", "");
        for line in [
            "run_faults_total 3",
            "run_evictions_total 0",
            "run_fault_seconds_count 3",
            "run_fetch_seconds_count 0",
        ] {
            assert!(told.lines().any(|it| it == line), "{line}: {told}");
        }
        let buckets = told.lines().filter_map(|line| {
            let (bound, count) = line
                .strip_prefix("run_fault_seconds_bucket{le=\"")?
                .split_once("\"} ")?;
            Some((bound.replace("+Inf", "inf"), count))
        });
        for (bound, count) in buckets {
            let expected = match bound.parse::<f64>().expect("a number") {
                ..1e-5 => "0",
                1.15e-5..3e-3 => "2",
                3.5e-3.. => "3",
                _ => continue,
            };
            assert_eq!(count, expected, "{bound}: {told}");
        }
    }
}
