//! Figures as text: families of samples with labels, in the Prometheus text format.

use crate::figures::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde::{Serialize, Serializer};
use std::fmt;

/// A value and its labels.
pub type Sample<T> = (Vec<(&'static str, String)>, T);

/// What times in nanoseconds are multiplied by to be told in seconds.
pub const NANOSECOND: f64 = 1e-9;

/// Histograms of several threads added up.
#[derive(Debug, Default)]
pub struct HistogramSum {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

impl HistogramSum {
    /// Adds one whose values are in units of this scale.
    pub fn add<const SHIFT: u32, const BUCKETS: usize, const FINE: u32>(
        &mut self,
        more: &Histogram<SHIFT, BUCKETS, FINE>,
        scale: f64,
    ) {
        self.sum += more.sum() as f64 * scale;
        self.buckets.resize(BUCKETS, (0.0, 0));
        for ((bound, count), to) in more.buckets().zip(&mut self.buckets) {
            to.0 = bound * scale;
            to.1 += count;
        }
    }

    /// Adds another of the same kind.
    pub fn merge(&mut self, other: &HistogramSum) {
        self.sum += other.sum;
        let buckets = self.buckets.len().max(other.buckets.len());
        self.buckets.resize(buckets, (0.0, 0));
        for (&(bound, count), to) in other.buckets.iter().zip(&mut self.buckets) {
            to.0 = bound;
            to.1 += count;
        }
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// Those of its buckets that have values: each one's upper bound (null: there is none), their
/// number, and its lower bound.
impl Serialize for HistogramSum {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let lower = std::iter::once(0.0).chain(self.buckets.iter().map(|(bound, _)| *bound));
        let all = self.buckets.iter().zip(lower);
        let told = all.filter(|((_, count), _)| *count > 0);
        to.collect_seq(
            told.map(|((bound, count), lower)| (bound.is_finite().then_some(bound), count, lower)),
        )
    }
}

/// Writes families of figures.
pub struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    /// Numbers that only go up; `_total` is put behind the name.
    ///
    /// # Errors
    /// None that is known: writing to a text cannot fail.
    pub fn counters(&mut self, name: &str, help: &str, samples: Vec<Sample<u64>>) -> fmt::Result {
        self.totals(name, help, samples)
    }

    /// The same of what is no whole number, such as seconds.
    ///
    /// # Errors
    /// As [`Writer::counters`].
    pub fn times(&mut self, name: &str, help: &str, samples: Vec<Sample<f64>>) -> fmt::Result {
        self.totals(name, help, samples)
    }

    fn totals(
        &mut self,
        name: &str,
        help: &str,
        samples: Vec<Sample<impl EncodeCounterValue>>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            (family.encode_family(&labels)?).encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// A number that only goes up, without labels.
    ///
    /// # Errors
    /// As [`Writer::counters`].
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, vec![(Vec::new(), value)])
    }

    /// What is so much now.
    ///
    /// # Errors
    /// As [`Writer::counters`].
    pub fn gauges(&mut self, name: &str, help: &str, samples: Vec<Sample<f64>>) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// What is so much now, without labels.
    ///
    /// # Errors
    /// As [`Writer::counters`].
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, vec![(Vec::new(), value)])
    }

    /// How often values were how large.
    ///
    /// # Errors
    /// As [`Writer::counters`].
    pub fn histograms(
        &mut self,
        name: &str,
        help: &str,
        samples: Vec<Sample<HistogramSum>>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, sum) in samples {
            let count = sum.count();
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum.sum, count, &sum.buckets, None)?;
        }
        Ok(())
    }
}

/// What `tell` writes as a text (OpenMetrics 1.0); all names get the prefix and `_` in front.
///
/// # Errors
/// None that is known: writing to a text cannot fail.
pub fn encode(
    prefix: &str,
    tell: impl Fn(&mut Writer<'_>) -> fmt::Result + Send + Sync + 'static,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(Scrape(tell)));
    let mut told = String::new();
    text::encode(&mut told, &registry)?;
    Ok(told)
}

struct Scrape<F>(F);

impl<F> fmt::Debug for Scrape<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl<F> Collector for Scrape<F>
where
    F: Fn(&mut Writer<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Writer(encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::SizeHistogram;

    #[test]
    fn families_of_several_threads_are_added_up() {
        let text = encode("toy", |to| {
            let mut sum = HistogramSum::default();
            for _thread in 0..2 {
                let histogram = SizeHistogram::default();
                histogram.record(3, 5);
                histogram.record(100_000, 1);
                sum.add(&histogram, 0.5);
            }
            to.histograms("size", "How large", vec![(Vec::new(), sum)])?;
            to.counter("asked", "How often", 7)?;
            to.times("worked_seconds", "How long", vec![(Vec::new(), 1.5)])?;
            let labels = vec![("state", "free".to_owned())];
            to.gauges("places", "Places", vec![(labels, 1.5)])?;
            to.gauge("warmth", "How warm it is", 0.25)
        });
        let text = text.expect("a text can be written to");
        for line in [
            "toy_size_sum{} 100015.0",
            "toy_size_count{} 12",
            "toy_size_bucket{le=\"1.0\"} 0",
            "toy_size_bucket{le=\"2.0\"} 10",
            "toy_size_bucket{le=\"+Inf\"} 12",
            "toy_asked_total{} 7",
            "toy_worked_seconds_total{} 1.5",
            "toy_places{state=\"free\"} 1.5",
            "toy_warmth{} 0.25",
        ] {
            assert!(
                text.lines().any(|told| told == line),
                "{line} is not in {text}"
            );
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
