//! The charts: times, and rates.

use super::report::{SchemeReport, SchemesReport};
use crate::reproduce::charts::{Bars, Series, failed};
use crate::reproduce::error::ReproduceError;

/// A series of bars: what it is called, and its value for a scheme.
type Of = (&'static str, fn(&SchemeReport) -> f64);

/// The names and texts of all charts.
pub(super) fn draw(report: &SchemesReport) -> Result<Vec<(&'static str, String)>, ReproduceError> {
    let times: [Of; 4] = [
        ("reads, p50", |of| of.read_latency.p50),
        ("reads, p99", |of| of.read_latency.p99),
        ("writes, p50", |of| of.write_latency.p50),
        ("writes, p99", |of| of.write_latency.p99),
    ];
    let rates: [Of; 2] = [
        ("1 under way", |of| of.operations_per_s / 1e3),
        ("16 under way", |of| of.deep_operations_per_s / 1e3),
    ];
    let [times, rates] = [
        bars(report, "Response time by scheme", "us", &times),
        bars(report, "Rate by scheme", "1000 operations/s", &rates),
    ];
    Ok(vec![
        ("schemes-times.svg", times.draw().map_err(failed)?),
        ("schemes-rates.svg", rates.draw().map_err(failed)?),
    ])
}

fn bars(report: &SchemesReport, title: &str, unit: &str, series: &[Of]) -> Bars {
    let series = series.iter().map(|(name, of)| Series {
        name: (*name).to_owned(),
        values: report.schemes.iter().map(of).collect(),
        within: Vec::new(),
    });
    Bars {
        title: format!("{title} (three nodes, 8 clients, 512-byte values, 10 % writes)"),
        unit: unit.to_owned(),
        labels: report.schemes.iter().map(SchemeReport::name).collect(),
        series: series.collect(),
        is_stacked: false,
    }
}
