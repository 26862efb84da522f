//! What an agent shows on its dashboard: its node, its loans and its links.

use super::super::Status;
use crate::loan::LoanId;
use crate::resource::{Kind, Share};
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const SERVER: &str = "rhythm venice agent";

/// All of it.
pub(super) fn of(name: &str, monitor: Option<&SocketAddr>, status: &Status) -> Dashboard {
    let state = match status.is_registered {
        true => "the monitor knows it",
        false => "without a monitor",
    };
    let mut board = Dashboard::new(SERVER, env!("CARGO_PKG_VERSION"), state);
    if !status.is_registered {
        let why = status.trouble.as_deref().unwrap_or("no monitor is reached");
        board.alarm(why.to_owned());
    }
    node(name, monitor, status, &mut board);
    loans(status, &mut board);
    links(status, &mut board);
    board
}

/// Bytes of memory of these loans.
fn memory(loans: &[(LoanId, Share)]) -> f64 {
    let memory = loans.iter().filter(|(_, share)| share.kind == Kind::Memory);
    memory.map(|(_, share)| share.amount as f64).sum()
}

fn node(name: &str, monitor: Option<&SocketAddr>, status: &Status, board: &mut Dashboard) {
    let offer = status
        .offers
        .iter()
        .find(|offer| offer.kind == Kind::Memory);
    let [size, idle] = offer.map_or([0.0; 2], |offer| [offer.size as f64, offer.idle as f64]);
    let (lent, borrowed) = (memory(&status.lent), memory(&status.borrowed));
    let at = monitor.map_or("\u{2013}".to_owned(), ToString::to_string);
    let count = |of: usize| Value::Now(of as f64);
    let figures = vec![
        Figure::new("Node", Value::Text(name.to_owned()), Unit::Count),
        Figure::new("Monitor", Value::Text(at), Unit::Count),
        Figure::new("Memory lent", Value::Share(lent, size), Unit::Bytes),
        Figure::new("Could be lent now", Value::Now(idle), Unit::Bytes),
        Figure::new("Memory borrowed", Value::Now(borrowed), Unit::Bytes),
        Figure::new("Loans to others", count(status.lent.len()), Unit::Count),
        Figure::new("Wanted back", count(status.reclaims.len()), Unit::Count),
        Figure::new("Loans of others", count(status.borrowed.len()), Unit::Count),
        Figure::new("Programs that borrow", count(status.clients), Unit::Count),
    ];
    let lines = [("lent", lent), ("borrowed", borrowed), ("idle", idle)];
    let lines = lines.map(|(name, bytes)| (name, Value::Now(bytes)));
    let chart = Part::chart("Memory", Unit::Bytes, lines);
    board.panel("node", "Node", vec![Part::Figures(figures), chart]);
}

fn loans(status: &Status, board: &mut Dashboard) {
    let mut rows = Vec::new();
    for (way, loans) in [("lent", &status.lent), ("borrowed", &status.borrowed)] {
        for (loan, share) in loans {
            let mut reclaims = status.reclaims.iter();
            let wanted = reclaims.find(|(id, _)| id == loan);
            rows.push(vec![
                Value::Text(format!("{loan}, {way}")),
                Value::Text(share.kind.to_string()),
                Value::Text(share.to_string()),
                Value::known(wanted.map(|(_, left)| left.as_secs_f64())),
            ]);
        }
    }
    let columns = [
        ("Loan", Unit::Count),
        ("Resource", Unit::Count),
        ("Size", Unit::Count),
        ("Taken back in", Unit::Seconds),
    ];
    let empty = "This node lends nothing and borrows nothing now.";
    let table = Part::table("Loans, lent and borrowed", columns, rows, empty);
    board.panel("loans", "Loans", vec![table]);
}

fn links(status: &Status, board: &mut Dashboard) {
    let rows = status.links.iter().map(|link| {
        let latency = Duration::from_nanos(link.latency_ns).as_secs_f64();
        let known = |value: f64| Value::known((value > 0.0).then_some(value));
        vec![
            Value::Text(link.to.to_string()),
            known(latency),
            known(link.bandwidth as f64),
            Value::Now(f64::from(link.loss_permille) / 1000.0),
        ]
    });
    let columns = [
        ("To", Unit::Count),
        ("Latency", Unit::Seconds),
        ("Bandwidth, a second", Unit::Bytes),
        ("Loss", Unit::Part),
    ];
    let empty = "There is no other node, or none was tested yet.";
    let table = Part::table("Links to other nodes", columns, rows.collect(), empty);
    board.panel("links", "Links", vec![table]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Offer;
    use crate::wire::LinkReport;
    use serde_json::json;

    #[test]
    fn an_agent_shows_what_it_lends_and_how_its_links_are() {
        let status = Status {
            is_registered: false,
            monitor: 0,
            trouble: None,
            offers: vec![Offer {
                kind: Kind::Memory,
                size: 100,
                idle: 30,
            }],
            lent: vec![(LoanId(7), Share::memory(64 << 20))],
            reclaims: vec![(LoanId(7), Duration::from_secs(5))],
            borrowed: vec![(LoanId(8), Share::of_one(Kind::Aes, false))],
            clients: 1,
            links: vec![LinkReport {
                to: "right".parse().expect("a name"),
                latency_ns: 2_000_000,
                bandwidth: 0,
                loss_permille: 100,
                silent_ms: 1,
            }],
        };
        let board = serde_json::to_value(of("left", None, &status)).expect("JSON");
        assert_eq!(board["alarms"], json!(["no monitor is reached"]));
        let figures = board["panels"][0]["parts"][0]["figures"].to_string();
        assert!(
            figures.contains("{\"share\":[67108864.0,100.0]}"),
            "{figures}"
        );
        let rows = &board["panels"][1]["parts"][0]["table"]["rows"];
        let wanted = json!([
            [{"text": "7, lent"}, {"text": "memory"}, {"text": "64.0 MiB"}, {"now": 5.0}],
            [{"text": "8, borrowed"}, {"text": "aes"}, {"text": "1/16"}, {"text": "\u{2013}"}],
        ]);
        assert_eq!(*rows, wanted);
        let rows = &board["panels"][2]["parts"][0]["table"]["rows"];
        let link = json!([{"text": "right"}, {"now": 0.002}, {"text": "\u{2013}"}, {"now": 0.1}]);
        assert_eq!(*rows, json!([link]));
    }
}
