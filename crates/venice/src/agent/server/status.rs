//! What an agent tells of itself, as text, as JSON and as figures.

use super::super::Status;
use crate::loan::LoanId;
use crate::resource::{Kind, Offer, SHARES, Share};
use crate::units;
use rhythm_observe::{Sample, Writer};
use serde_json::json;
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// As JSON, with the text for people in it.
pub(super) fn json(name: &str, monitor: Option<&SocketAddr>, status: &Status) -> String {
    let loans = |loans: &[(LoanId, Share)]| -> Vec<serde_json::Value> {
        let all = loans.iter().map(|(loan, share)| {
            let kind = share.kind.name();
            json!({"loan": loan.0, "resource": kind, "size": share.amount})
        });
        all.collect()
    };
    let reclaims = status.reclaims.iter();
    let reclaims =
        reclaims.map(|(loan, left)| json!({"loan": loan.0, "seconds_left": left.as_secs_f64()}));
    let lends = status.offers.iter().map(
        |offer| json!({"resource": offer.kind.name(), "size": offer.size, "idle": offer.idle}),
    );
    let links = status.links.iter().map(|link| {
        json!({
            "to": link.to.as_str(),
            "latency_seconds": seconds(link.latency_ns),
            "bandwidth": (link.bandwidth > 0).then_some(link.bandwidth),
            "loss": f64::from(link.loss_permille) / 1000.0,
        })
    });
    json!({
        "node": name,
        "monitor": monitor.map(ToString::to_string),
        "registered": status.is_registered,
        "trouble": status.trouble,
        "lends": lends.collect::<Vec<_>>(),
        "lent": loans(&status.lent),
        "reclaims": reclaims.collect::<Vec<_>>(),
        "borrowed": loans(&status.borrowed),
        "borrowers": status.clients,
        "links": links.collect::<Vec<_>>(),
        "text": text(name, monitor, status),
    })
    .to_string()
}

/// How much of a kind these loans have together.
fn sum(loans: &[(LoanId, Share)], kind: Kind) -> u64 {
    let shares = loans.iter().map(|(_, share)| share);
    let shares = shares.filter(|share| share.kind == kind);
    shares.fold(0, |sum, share| sum.saturating_add(share.amount))
}

fn seconds(nanos: u64) -> Option<f64> {
    (nanos > 0).then(|| Duration::from_nanos(nanos).as_secs_f64())
}

fn text(name: &str, at: Option<&SocketAddr>, status: &Status) -> String {
    let mut text = format!("node        {name}\n");
    // Writing to a text cannot fail.
    let monitor = match (status.is_registered, &status.trouble) {
        (true, _) => "knows this node",
        (false, Some(trouble)) => trouble,
        (false, None) => "is not reached",
    };
    let at = at.map_or_else(String::new, |at| format!("{at} "));
    let _ = writeln!(text, "monitor     {at}{monitor}");
    for Offer { kind, size, idle } in &status.offers {
        let of_kind = |amount| Share {
            kind: *kind,
            amount,
        };
        let _ = writeln!(
            text,
            "lends       {} of {} of {kind}, {} idle",
            of_kind(sum(&status.lent, *kind)),
            of_kind(*size),
            of_kind(*idle),
        );
    }
    if status.offers.is_empty() {
        text += "lends       nothing\n";
    }
    let _ = writeln!(
        text,
        "borrows     {} loans for {} borrowers\n",
        status.borrowed.len(),
        status.clients
    );
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (way, loans) in [("lent", &status.lent), ("borrowed", &status.borrowed)] {
        for (loan, share) in loans {
            let wanted = status.reclaims.iter().find(|(id, _)| id == loan);
            let wanted = wanted.map_or("-".to_owned(), |(_, left)| units::time(*left));
            rows.push(vec![
                loan.to_string(),
                way.to_owned(),
                share.kind.to_string(),
                share.to_string(),
                wanted,
            ]);
        }
    }
    let head = ["loan", "way", "resource", "size", "taken back in"];
    text += &units::table("Loans", &head, &rows);
    let links = status.links.iter().map(|link| {
        let known = |value: u64, shown: String| if value > 0 { shown } else { "-".to_owned() };
        vec![
            link.to.to_string(),
            known(
                link.latency_ns,
                units::time(Duration::from_nanos(link.latency_ns)),
            ),
            known(
                link.bandwidth,
                format!("{}/s", units::bytes(link.bandwidth)),
            ),
            format!("{:.1} %", f64::from(link.loss_permille) / 10.0),
        ]
    });
    let rows: Vec<Vec<String>> = links.collect();
    text.push('\n');
    text += &units::table("Links", &["to", "latency", "bandwidth", "loss"], &rows);
    text
}

/// Writes the figures.
pub(super) fn encode(status: &Status, to: &mut Writer<'_>) -> fmt::Result {
    let memory = (status.offers.iter()).find(|offer| offer.kind == Kind::Memory);
    let (size, idle) = memory.map_or((0, 0), |offer| (offer.size, offer.idle));
    for (name, help, value) in [
        (
            "registered",
            "Whether the monitor knows this node",
            u64::from(status.is_registered),
        ),
        ("memory_bytes", "The most that is lent", size),
        (
            "lent_bytes",
            "Memory that is lent",
            sum(&status.lent, Kind::Memory),
        ),
        ("idle_bytes", "Memory that could be lent now", idle),
        (
            "borrowed_bytes",
            "Memory that is borrowed",
            sum(&status.borrowed, Kind::Memory),
        ),
        (
            "loans_lent",
            "Loans to other nodes",
            status.lent.len() as u64,
        ),
        (
            "loans_reclaimed",
            "Loans that are wanted back",
            status.reclaims.len() as u64,
        ),
        (
            "loans_borrowed",
            "Loans of other nodes",
            status.borrowed.len() as u64,
        ),
        (
            "borrowers",
            "Borrowers of this machine",
            status.clients as u64,
        ),
    ] {
        to.gauge(name, help, value as f64)?;
    }
    let accelerators = |of: &dyn Fn(&Offer) -> u64| -> Vec<Sample<f64>> {
        let others = status.offers.iter();
        let others = others.filter(|offer| offer.kind != Kind::Memory);
        let sample = |offer: &Offer| -> Sample<f64> {
            let accelerators = of(offer) as f64 / SHARES as f64;
            (vec![("kind", offer.kind.name().to_owned())], accelerators)
        };
        others.map(sample).collect()
    };
    let help = "Accelerators that are lent at most, by kind";
    to.gauges("accelerators", help, accelerators(&|offer| offer.size))?;
    let help = "What of them could be lent now";
    to.gauges("accelerators_idle", help, accelerators(&|offer| offer.idle))?;
    let of_links = |value: &dyn Fn(&crate::wire::LinkReport) -> Option<f64>| -> Vec<Sample<f64>> {
        let links = status.links.iter();
        let sample = |link| Some((vec![("to", link_name(link))], value(link)?));
        links.filter_map(sample).collect()
    };
    let latency = of_links(&|link| seconds(link.latency_ns));
    to.gauges(
        "link_latency_seconds",
        "Time to there and back, smoothed",
        latency,
    )?;
    let bandwidth = of_links(&|link| (link.bandwidth > 0).then_some(link.bandwidth as f64));
    let help = "Bytes a second that a short burst got through";
    to.gauges("link_bandwidth_bytes", help, bandwidth)?;
    let loss = of_links(&|link| Some(f64::from(link.loss_permille) / 1000.0));
    to.gauges("link_loss_ratio", "Share of tests without an answer", loss)
}

fn link_name(link: &crate::wire::LinkReport) -> String {
    link.to.to_string()
}
