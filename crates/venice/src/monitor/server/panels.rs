//! What a monitor shows on its dashboard: the rack, its nodes, its loans and its links.

use super::super::Monitor;
use super::super::keeper::Keeper;
use super::super::nodes::Node;
use super::super::rat::Loan;
use super::super::rrt::{Channel, Resource};
use super::super::tst::Link;
use super::figures::{Numbers, standing};
use super::role::Waiting;
use crate::loan::LoanId;
use crate::name::NodeName;
use crate::resource::{Kind, Share};
use rhythm_net::Time;
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};
use std::collections::BTreeMap;

pub(super) const SERVER: &str = "rhythm venice monitor";

/// Rows that a table has at most.
const ROWS_MAX: usize = 100;

fn board(state: &'static str) -> Dashboard {
    Dashboard::new(SERVER, env!("CARGO_PKG_VERSION"), state)
}

/// Of the monitor that leads.
pub(super) fn of<K: Keeper>(monitor: &Monitor<K>, numbers: &Numbers, now: Time) -> Dashboard {
    let mut board = board("leads");
    if numbers.nodes == 0 {
        board.hint(
            "No node has come yet: start `rhythm venice agent --monitor ADDRESS` on one, with \
             --lend if it is to lend memory."
                .to_owned(),
        );
    }
    rack(numbers, &mut board);
    nodes(monitor, now, &mut board);
    loans(monitor, now, &mut board);
    links(monitor, now, &mut board);
    board
}

/// Of one that waits.
pub(super) fn of_spare(waiting: &Waiting) -> Dashboard {
    let mut board = board("a spare");
    if let Some(trouble) = &waiting.trouble {
        board.alarm(trouble.clone());
    }
    let words = format!("{waiting}. The one that leads has the tables.");
    board.panel("leader", "Who leads", vec![Part::Note(words.into())]);
    board
}

fn rack(numbers: &Numbers, board: &mut Dashboard) {
    let [size, free, lent] = (numbers.amounts.get(&Kind::Memory).copied()).unwrap_or_default();
    let [granting, live, ending] = numbers.loans.map(|loans| Value::Now(loans as f64));
    let counted = &numbers.figures;
    let ended: u64 = counted.ended.values().sum();
    let (count, bytes, rate) = (Unit::Count, Unit::Bytes, Unit::PerSecond);
    let share = |of: u64, all: u64| Value::Share(of as f64, all as f64);
    let connected = share(numbers.connected as u64, numbers.nodes as u64);
    let figures = vec![
        Figure::new("Nodes connected", connected, count),
        Figure::new("Memory lent", share(lent, size), bytes),
        Figure::new("Memory idle", Value::Now(free as f64), bytes),
        Figure::new("Loans", live.clone(), count),
        Figure::new("Being granted", granting, count),
        Figure::new("Ending", ending, count),
        Figure::new("Granted", Value::Rate(counted.granted as f64), rate),
        Figure::new("Ended", Value::Rate(ended as f64), rate),
        Figure::new("Not lent", Value::Rate(counted.not_lent as f64), rate),
        Figure::new("Nodes that died", Value::Now(counted.died as f64), count),
    ];
    let lines = [("lent", lent), ("idle", free)].map(|(name, of)| (name, Value::Now(of as f64)));
    let parts = vec![
        Part::Figures(figures),
        Part::chart("Memory", bytes, lines),
        Part::chart("Loans", count, [("live", live)]),
    ];
    board.panel("rack", "Rack", parts);
}

/// The first rows of a table, and how it is called with that. Of the others nothing is made: a rack
/// may have a link for each two of its nodes, and this is asked for each second.
fn first<T>(
    caption: &str,
    mut all: impl Iterator<Item = T>,
    row: impl FnMut(T) -> Vec<Value>,
) -> (String, Vec<Vec<Value>>) {
    let rows: Vec<_> = all.by_ref().take(ROWS_MAX).map(row).collect();
    match all.count() {
        0 => (caption.to_owned(), rows),
        others => {
            let all = ROWS_MAX + others;
            (format!("{caption}: the first {ROWS_MAX} of {all}"), rows)
        }
    }
}

fn nodes<K: Keeper>(monitor: &Monitor<K>, now: Time, board: &mut Dashboard) {
    // Of memory, what each lends and borrows.
    let mut loans = BTreeMap::<&str, [u64; 2]>::new();
    for (_, loan) in monitor.rat().rows() {
        if loan.share.kind == Kind::Memory {
            for (of, node) in [&loan.lender, &loan.borrower].into_iter().enumerate() {
                loans.entry(node.as_str()).or_default()[of] += loan.share.amount;
            }
        }
    }
    let row = |(name, node): (&NodeName, &Node)| {
        let [lent, borrowed] = loans.get(name.as_str()).copied().unwrap_or_default();
        let memory = monitor.rrt().get(name, Kind::Memory);
        let of_memory = |figure: fn(&Resource) -> u64| {
            let amount = memory.map(|resource| figure(resource) as f64);
            Value::known(amount)
        };
        let is_there = node.is_connected();
        let place = match &*node.place {
            "" => "\u{2013}",
            place => place,
        };
        vec![
            Value::Text(name.to_string()),
            Value::State(is_there, if is_there { "there" } else { "gone" }),
            Value::Text(place.to_owned()),
            Value::Now(now.since(node.heard_at).as_secs_f64()),
            of_memory(|resource| resource.size),
            Value::Now(lent as f64),
            of_memory(Resource::free),
            Value::Now(borrowed as f64),
        ]
    };
    let (caption, rows) = first("Nodes, and their memory", monitor.nodes().rows(), row);
    let columns = [
        ("Node", Unit::Count),
        ("State", Unit::Count),
        ("Place", Unit::Count),
        ("Silent for", Unit::Seconds),
        ("Lends at most", Unit::Bytes),
        ("Lent", Unit::Bytes),
        ("Free", Unit::Bytes),
        ("Borrowed", Unit::Bytes),
    ];
    let mut parts = vec![Part::table(caption, columns, rows, "No node has come yet.")];
    let gone = monitor
        .nodes()
        .rows()
        .filter(|(_, node)| !node.is_connected());
    let gone: Vec<&str> = gone.map(|(name, _)| name.as_str()).collect();
    if !gone.is_empty() {
        board.alarm(format!("not connected: {}", gone.join(", ")));
    }
    let others = monitor
        .rrt()
        .rows()
        .filter(|(_, kind, _)| *kind != Kind::Memory);
    let row = |(node, kind, resource): (&NodeName, Kind, &Resource)| {
        let shown = |amount| Value::Text(Share { kind, amount }.to_string());
        vec![
            Value::Text(format!("{kind} of {node}")),
            shown(resource.size),
            shown(resource.free()),
        ]
    };
    let (caption, rows) = first("Accelerators and devices", others, row);
    if !rows.is_empty() {
        let columns = [
            ("Resource", Unit::Count),
            ("Lent at most", Unit::Count),
            ("Idle", Unit::Count),
        ];
        parts.push(Part::table(caption, columns, rows, ""));
    }
    board.panel("nodes", "Nodes", parts);
}

fn loans<K: Keeper>(monitor: &Monitor<K>, now: Time, board: &mut Dashboard) {
    let lease = monitor.settings().dead_after;
    let row = |(id, loan): (LoanId, &Loan)| {
        let borrower = monitor.nodes().get(&loan.borrower);
        let left = borrower.map(|node| (node.heard_at + lease).since(now).as_secs_f64());
        let (_, word) = standing(loan);
        vec![
            Value::Text(id.to_string()),
            Value::Text(loan.lender.to_string()),
            Value::Text(loan.borrower.to_string()),
            Value::Text(loan.share.kind.to_string()),
            Value::Text(loan.share.to_string()),
            Value::Text(Channel::of(loan.share).name().to_owned()),
            Value::State(word == "live", word),
            Value::known(left),
        ]
    };
    let (caption, rows) = first("Loans (RAT)", monitor.rat().rows(), row);
    let columns = [
        ("Loan", Unit::Count),
        ("Lender", Unit::Count),
        ("Borrower", Unit::Count),
        ("Resource", Unit::Count),
        ("Size", Unit::Count),
        ("Channel", Unit::Count),
        ("Standing", Unit::Count),
        ("Lease", Unit::Seconds),
    ];
    let table = Part::table(caption, columns, rows, "Nothing is lent now.");
    board.panel("loans", "Loans", vec![table]);
}

fn links<K: Keeper>(monitor: &Monitor<K>, now: Time, board: &mut Dashboard) {
    let row = |(from, to, link): (&NodeName, &NodeName, &Link)| {
        vec![
            Value::Text(format!("{from} to {to}")),
            Value::known(link.latency.map(|latency| latency.as_secs_f64())),
            Value::known(link.bandwidth.map(|bandwidth| bandwidth as f64)),
            Value::Now(f64::from(link.loss_permille) / 1000.0),
            Value::known(link.seen.map(|seen| now.since(seen).as_secs_f64())),
        ]
    };
    let (caption, rows) = first("Links, each way (TST)", monitor.tst().rows(), row);
    let columns = [
        ("Link", Unit::Count),
        ("Latency", Unit::Seconds),
        ("Bandwidth, a second", Unit::Bytes),
        ("Loss", Unit::Part),
        ("Seen, ago", Unit::Seconds),
    ];
    let table = Part::table(caption, columns, rows, "No link was tested yet.");
    let words = "Latency is there and back. Bandwidth is what a short burst got through: the link \
                 has no less.";
    board.panel("links", "Links", vec![table, Part::Note(words.into())]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_rows_are_made_than_are_shown() {
        let mut made = 0;
        let mut row = |number: u32| {
            made += 1;
            vec![Value::Now(f64::from(number))]
        };
        let (caption, rows) = first("Nodes", 0..250, &mut row);
        assert_eq!(
            (&caption[..], rows.len()),
            ("Nodes: the first 100 of 250", 100)
        );
        let (caption, rows) = first("Nodes", 0..100, &mut row);
        assert_eq!((&caption[..], rows.len()), ("Nodes", 100));
        assert_eq!(made, 200);
    }
}
