//! What the microservers' poster says that a run of kv decides.

use super::charts::LINE_GBIT_S;
use super::plan::{DEPTH, Setup};
use super::report::{KvReport, Measured, Point};
use super::verdicts::Bound::{AtLeast, AtMost};
use super::verdicts::{Claim, Known, times};
use rhythm_rpo::report::Kind;

/// Microseconds of the poster's server itself, at most.
const INTERNAL_US: f64 = 6.0;
/// How many times sooner it answers than memcached.
const SOONER: f64 = 5.0;
/// "Predictable", "without incurring any penalties": so many times what it is without copies.
const PENALTY: f64 = 1.1;

/// The claims, in the poster's order.
pub(super) fn of(report: &KvReport) -> Vec<Claim> {
    let mut all = Vec::new();
    let protocols: Vec<&Point> = report
        .of_chart("protocols")
        .filter(|point| point.depth == DEPTH)
        .collect();
    for point in &protocols {
        all.push(Claim::new(
            "section 1",
            format!(
                "surpasses regular servers in performance: rate by {}, times memcached's",
                point.protocol
            ),
            beside_memcached(point, |of| Some(of.operations_per_s)),
            AtLeast(1.0),
        ));
    }
    for point in &protocols {
        all.push(Claim::new(
            "section 1",
            format!(
                "takes less for it: operations a second of CPU time by {}, times memcached's",
                point.protocol
            ),
            beside_memcached(point, |of| of.operations_per_cpu_s),
            AtLeast(1.0),
        ));
    }
    // Ours is the loopback device, where that is less.
    let line = LINE_GBIT_S.min(report.loopback_gbit_s);
    let sizes = report.of_chart("sizes").filter_map(|point| {
        let kv = point.servers.iter().find(|of| of.server == "kv")?;
        Some(kv.gbit_s / line)
    });
    let mut sizes: Vec<f64> = sizes.collect();
    sizes.sort_by(f64::total_cmp);
    all.push(Claim::new(
        "section 1",
        "saturates the line for most sizes and mixes: of the line, the median".to_owned(),
        sizes.get(sizes.len() / 2).copied().map(measured),
        AtLeast(0.9),
    ));
    let response = |setup: Setup| {
        let name = setup.name();
        report.responses.iter().find(move |of| of.setup == name)
    };
    let mean = |setup| response(setup).map(|of| measured(of.latency.mean));
    let (udp, alone) = (Setup::Alone { udp: true }, Setup::Alone { udp: false });
    all.push(Claim::new(
        "section 1",
        "answers 5 times sooner than software: memcached's time over UDP, times kv's".to_owned(),
        times(mean(Setup::Memcached { udp: true }), mean(udp)),
        AtLeast(SOONER),
    ));
    all.push(Claim::new(
        "picture 3",
        "is at it for 2 to 6 us of an answer's time, over UDP".to_owned(),
        response(udp).and_then(|of| of.internal_us).map(measured),
        AtMost(INTERNAL_US),
    ));
    for (acked, waits) in [(false, "for nothing"), (true, "for copies")] {
        all.push(Claim::new(
            "section 2",
            format!("copies cost a client nothing where writes wait {waits}: time, times alone's"),
            times(mean(Setup::Ring { acked }), mean(alone)),
            AtMost(PENALTY),
        ));
    }
    all
}

/// As all of these figures are.
fn measured(figure: f64) -> Known {
    Known::new(figure, Kind::Measured)
}

/// kv's figure in times of memcached's.
fn beside_memcached(point: &Point, of: fn(&Measured) -> Option<f64>) -> Option<Known> {
    let server = |is_kv: bool| {
        let mut servers = point.servers.iter();
        servers.find(|server| (server.server == "kv") == is_kv)
    };
    let rate = |is_kv| server(is_kv).and_then(of).map(measured);
    times(rate(true), rate(false))
}
