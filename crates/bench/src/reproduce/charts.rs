//! The charts, as SVG.

mod bars;
mod curves;
mod scatter;
mod style;
mod times;

use super::error::ReproduceError;
use super::report::{KvReport, Measured, Point};
pub(super) use bars::{Bars, Series};
use curves::{Curve, Curves};
pub(super) use scatter::{Cloud, Scatter};
use std::fmt::Display;
pub(crate) use style::{DrawError, FONT, color};
pub(super) use times::{Line, Panel, Times};

/// The paper's line.
pub(super) const LINE_GBIT_S: f64 = 10.0;
/// The paper's response time, in microseconds: client and network, and internal, at least and at
/// most.
const PAPER: [(&str, f64, f64); 2] = [("paper, best", 33.0, 2.0), ("paper, worst", 35.0, 6.0)];

pub(super) fn failed(error: impl Display) -> ReproduceError {
    ReproduceError::Chart(error.to_string())
}

/// The names and texts of all charts.
pub(super) fn draw(report: &KvReport) -> Result<Vec<(&'static str, String)>, ReproduceError> {
    let rate = |server: &Measured| server.operations_per_s / 1e3;
    let efficiency = |server: &Measured| server.operations_per_cpu_s.unwrap_or(0.0) / 1e3;
    Ok(vec![
        (
            "protocols.svg",
            by_protocol(report, "Rate by protocol", "1000 operations/s", &rate)?,
        ),
        ("sizes.svg", sizes(report)?),
        ("response.svg", response(report)?),
        (
            "efficiency.svg",
            by_protocol(
                report,
                "Efficiency by protocol",
                "1000 operations / CPU second",
                &efficiency,
            )?,
        ),
    ])
}

/// The servers of all points, in their order.
fn servers<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for server in points.flat_map(|point| &point.servers) {
        if !names.contains(&server.server.as_str()) {
            names.push(&server.server);
        }
    }
    names
}

fn by_protocol(
    report: &KvReport,
    title: &str,
    unit: &str,
    of: &dyn Fn(&Measured) -> f64,
) -> Result<String, ReproduceError> {
    let points: Vec<&Point> = report.of_chart("protocols").collect();
    let label = |point: &&Point| format!("{}, {}", point.protocol, point.depth);
    let series = servers(points.iter().copied()).into_iter().map(|name| {
        let at = |point: &&Point| {
            let server = point.servers.iter().find(|server| server.server == name);
            server.map_or(0.0, of)
        };
        Series {
            name: name.to_owned(),
            values: points.iter().map(at).collect(),
            within: Vec::new(),
        }
    });
    let bars = Bars {
        title: format!("{title} (requests in flight a client: 1, 16)"),
        unit: unit.to_owned(),
        labels: points.iter().map(label).collect(),
        series: series.collect(),
        is_stacked: false,
    };
    bars.draw().map_err(failed)
}

fn sizes(report: &KvReport) -> Result<String, ReproduceError> {
    let points: Vec<&Point> = report
        .of_chart("sizes")
        .filter(|point| point.key_bytes == 16)
        .collect();
    let mut mixes: Vec<f64> = points.iter().map(|point| point.writes).collect();
    mixes.dedup();
    let mut curves = Vec::new();
    for name in servers(points.iter().copied()) {
        for writes in &mixes {
            let of_mix = points.iter().filter(|point| point.writes == *writes);
            let at = |point: &&Point| {
                let server = point.servers.iter().find(|server| server.server == name)?;
                Some((point.value_bytes as f64, server.gbit_s))
            };
            curves.push(Curve {
                name: format!("{name}, {writes} % writes"),
                points: of_mix.filter_map(at).collect(),
            });
        }
    }
    let curves = Curves {
        title: "Keys of 16 bytes and their values, carried".to_owned(),
        x_unit: "bytes of a value".to_owned(),
        y_unit: "Gbit/s".to_owned(),
        curves,
        levels: vec![
            ("the paper's line".to_owned(), LINE_GBIT_S),
            ("one loopback connection".to_owned(), report.loopback_gbit_s),
        ],
    };
    curves.draw().map_err(failed)
}

fn response(report: &KvReport) -> Result<String, ReproduceError> {
    let mut labels: Vec<String> = PAPER.map(|(name, ..)| name.to_owned()).into();
    let mut outside: Vec<f64> = PAPER.map(|(_, outside, _)| outside).into();
    let mut internal: Vec<f64> = PAPER.map(|(.., internal)| internal).into();
    for response in &report.responses {
        labels.push(response.setup.clone());
        // memcached does not tell: all of it is one bar.
        outside.push(response.outside_us().unwrap_or(response.latency.mean));
        internal.push(response.internal_us.unwrap_or(0.0));
    }
    let series = |name: &str, values| Series {
        name: name.to_owned(),
        values,
        within: Vec::new(),
    };
    let bars = Bars {
        title: "Response time, on average (one client, 512-byte values, 10 % writes)".to_owned(),
        unit: "us".to_owned(),
        labels,
        series: vec![
            series("client and network (memcached: all)", outside),
            series("internal", internal),
        ],
        is_stacked: true,
    };
    bars.draw().map_err(failed)
}
