//! What the dashboard shows of a server, its threads' figures added up.

use super::ring::{copies_missing, states};
use crate::ring::{RangeStatus, View};
use crate::shared::{Counter, Figures, Shared};
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};
use rhythm_observe::{HistogramSum, NANOSECOND, process};

/// Adds what there is to show.
pub(super) fn show(shared: &Shared, board: &mut Dashboard) {
    commands(shared, board);
    memory(shared, board);
    clients(shared, board);
    if let Some(view) = &shared.ring {
        ring(view, board);
    }
    if shared.total(Counter::Commands) == 0 {
        board.hint(
            "No command has come yet, so most of this is empty. Store a value with any client of \
             memcached, or have `rhythm load memcached://HOST:PORT` do so."
                .to_owned(),
        );
    }
}

fn commands(shared: &Shared, board: &mut Dashboard) {
    let total = |counter| shared.total(counter) as f64;
    let threads: &[Figures] = shared.all_figures();
    let (mut turns, mut sizes) = (HistogramSum::default(), HistogramSum::default());
    for of_thread in threads {
        turns.add(&of_thread.turns, NANOSECOND);
        sizes.add(&of_thread.cohort_size, 1.0);
    }
    let size = Value::Ratio(sizes.sum(), sizes.count() as f64);
    board.histogram("turn", turns);
    board.histogram("size", sizes);
    let turn = |part| Value::Quantile(part, "turn".to_owned());
    let (gets, sets) = (total(Counter::CmdGet), total(Counter::CmdSet));
    let all = total(Counter::Commands);
    let hits = Value::Ratio(total(Counter::GetHits), gets);
    let cpu = process::cpu_time().as_secs_f64();
    let too_large = total(Counter::StoreTooLarge) + total(Counter::BinaryTooLarge);
    let refused = too_large + total(Counter::StoreNoMemory);
    let (per_second, seconds) = (Unit::PerSecond, Unit::Seconds);
    let figures = vec![
        Figure::new("Commands", Value::Rate(all), per_second),
        Figure::new("Keys fetched", Value::Rate(gets), per_second),
        Figure::new("Of these, hits", hits, Unit::Part),
        Figure::new("Values to store", Value::Rate(sets), per_second),
        Figure::new("Values refused", Value::Rate(refused), per_second),
        Figure::new("CPU a command", Value::Ratio(cpu, all), seconds),
        Figure::new("CPU, of one core", Value::Rate(cpu), Unit::Part),
    ];
    let lines = vec![
        ("commands", Value::Rate(all)),
        ("keys fetched", Value::Rate(gets)),
        ("values to store", Value::Rate(sets)),
    ];
    let parts = vec![
        Part::Figures(figures),
        Part::chart("Commands", per_second, lines),
    ];
    board.panel("commands", "Commands", parts);
    let figures = vec![
        Figure::new("Commands a cohort", size, Unit::Count),
        Figure::new("Turn, p50", turn(0.5), seconds),
        Figure::new("Turn, p99", turn(0.99), seconds),
    ];
    let lines = vec![("p50", turn(0.5)), ("p99", turn(0.99))];
    let parts = vec![
        Part::Figures(figures),
        Part::chart("A turn: from waking to answers", seconds, lines),
        Part::Distribution("Cohorts by size", "size".to_owned()),
    ];
    board.panel("cohorts", "Cohorts", parts);
}

fn memory(shared: &Shared, board: &mut Dashboard) {
    let store = shared.store.totals();
    let (used, most) = (store.memory_used as f64, shared.store.memory() as f64);
    let mut figures = vec![
        Figure::new("For items, of -m", Value::Share(used, most), Unit::Bytes),
        Figure::new("Items", Value::Now(store.items as f64), Unit::Count),
        Figure::new(
            "Evicted",
            Value::Rate(store.evictions as f64),
            Unit::PerSecond,
        ),
        Figure::new(
            "Expired",
            Value::Rate(store.expired as f64),
            Unit::PerSecond,
        ),
    ];
    let mut lines = vec![("for items", Value::Now(used))];
    if let Some(resident) = process::resident_bytes() {
        let resident = Value::Now(resident as f64);
        figures.push(Figure::new("Process", resident.clone(), Unit::Bytes));
        lines.push(("process", resident));
    }
    let parts = vec![
        Part::Figures(figures),
        Part::chart("Memory", Unit::Bytes, lines),
    ];
    board.panel("memory", "Memory", parts);
}

fn clients(shared: &Shared, board: &mut Dashboard) {
    let total = |counter| shared.total(counter) as f64;
    let open = shared.connected.count() as f64;
    let most = f64::from(shared.settings.connections_max);
    let dropped = [Counter::Rejected, Counter::IdleKicks, Counter::GaveWay];
    let dropped = dropped.map(total).iter().sum();
    let held: u64 = (shared.all_figures().iter()).map(|of| of.held.get()).sum();
    let (read, written) = (total(Counter::BytesRead), total(Counter::BytesWritten));
    let figures = vec![
        Figure::new("Connections", Value::Share(open, most), Unit::Count),
        Figure::new("Dropped", Value::Rate(dropped), Unit::PerSecond),
        Figure::new("Held by them", Value::Now(held as f64), Unit::Bytes),
        Figure::new("Read, a second", Value::Rate(read), Unit::Bytes),
        Figure::new("Written, a second", Value::Rate(written), Unit::Bytes),
    ];
    let lines = vec![
        ("read", Value::Rate(read)),
        ("written", Value::Rate(written)),
    ];
    let chart = Part::chart("Bytes a second", Unit::Bytes, lines);
    board.panel("clients", "Clients", vec![Part::Figures(figures), chart]);
}

fn ring(view: &View, board: &mut Dashboard) {
    let (status, members, me) = (view.status(), view.members(), view.me());
    let others = members.iter().filter(|(node, _)| **node != me);
    let mut rows = Vec::new();
    for (node, member) in others {
        let of = status.nodes.get(*node).copied().unwrap_or_default();
        if !of.is_alive {
            board.alarm(format!("node {} of the ring is gone", member.name));
        }
        let word = if of.is_alive { "there" } else { "gone" };
        rows.push(vec![
            Value::Text(member.name.clone()),
            Value::State(of.is_alive, word),
            Value::Now(of.unacknowledged as f64),
            Value::Now(of.lag.as_secs_f64()),
            Value::Rate(of.resent as f64),
        ]);
    }
    let table = Part::table(
        "The other nodes, and what they have not acknowledged",
        [
            ("Node", Unit::Count),
            ("State", Unit::Count),
            ("Behind", Unit::Bytes),
            ("For", Unit::Seconds),
            ("Frames resent", Unit::PerSecond),
        ],
        rows,
        "No other node is a member.",
    );
    board.panel("ring", "Ring", vec![table]);
    let [served, copied, coming, nobodys] = states(&status, me).map(|(_, count)| count);
    let figure = |label, count| Figure::new(label, Value::Now(count), Unit::Count);
    let figures = vec![
        figure("Served here", served),
        figure("Copied here", copied),
        figure("Coming here", coming),
        figure("Of nobody", nobodys),
        figure("Copies missing", copies_missing(&status, me)),
        Figure::new(
            "Sent whole",
            Value::Rate(status.caught_up as f64),
            Unit::Bytes,
        ),
    ];
    let name = |node: u8| {
        members
            .get(&node.into())
            .map_or("?", |member| &*member.name)
    };
    let of_ranges = status.ranges.iter().enumerate();
    let rows = of_ranges.map(|(range, of)| range_row(range, of, me, name));
    let table = Part::table(
        "The ranges of keys, as this node sees them",
        [
            ("Range", Unit::Count),
            ("Served by", Unit::Count),
            ("State", Unit::Count),
            ("Here", Unit::Count),
            ("Copies", Unit::Count),
        ],
        rows.collect(),
        "It is not known yet: the node joins the ring.",
    );
    board.panel("ranges", "Ranges", vec![Part::Figures(figures), table]);
}

/// Who serves a range, whether that is as it is to be, and where its copies are.
fn range_row<'a>(
    range: usize,
    of: &RangeStatus,
    me: usize,
    name: impl Fn(u8) -> &'a str,
) -> Vec<Value> {
    let server = (of.claim.epoch > 0).then_some(of.claim.node);
    let text = |words: String| Value::Text(words);
    let (is_well, word) = match (server, of.first) {
        (None, _) => (false, "waits"),
        (Some(server), Some(first)) if server != first => (false, "moves"),
        _ => (true, "stays"),
    };
    let is_mine = server.is_some_and(|node| usize::from(node) == me);
    let here = match (is_mine, of.is_complete, of.is_coming) {
        (true, ..) => "served",
        (_, true, _) => "copied",
        (.., true) => "coming",
        _ => "\u{2013}",
    };
    let copies = match is_mine {
        true => {
            let complete = (of.targets & of.copies).count_ones();
            format!("{complete} of {}", of.targets.count_ones())
        }
        // Who serves it knows.
        false => "\u{2013}".to_owned(),
    };
    let to = match (word, of.first) {
        ("moves", Some(first)) => format!(", then {}", name(first)),
        _ => String::new(),
    };
    vec![
        text(range.to_string()),
        text(format!("{}{to}", server.map_or("nobody", name))),
        Value::State(is_well, word),
        text(here.to_owned()),
        text(copies),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_range_is_shown_with_who_has_it_and_where_it_goes() {
        let range = |epoch, node, first, is_complete, is_coming| {
            let mut of = RangeStatus {
                first: Some(first),
                targets: 0b110,
                copies: 0b100,
                is_complete,
                is_coming,
                ..RangeStatus::default()
            };
            (of.claim.epoch, of.claim.node) = (epoch, node);
            of
        };
        let name = |node| ["a", "b", "c"][usize::from(node)];
        for (of, row) in [
            (
                range(1, 0, 0, true, false),
                json!(["a", [true, "stays"], "served", "1 of 2"]),
            ),
            (
                range(1, 0, 1, true, false),
                json!(["a, then b", [false, "moves"], "served", "1 of 2"]),
            ),
            (
                range(2, 1, 1, true, false),
                json!(["b", [true, "stays"], "copied", "\u{2013}"]),
            ),
            (
                range(0, 0, 0, false, true),
                json!(["nobody", [false, "waits"], "coming", "\u{2013}"]),
            ),
        ] {
            let told = serde_json::to_value(range_row(5, &of, 0, name)).expect("JSON");
            let wanted = json!([
                {"text": "5"}, {"text": row[0]}, {"state": row[1]}, {"text": row[2]},
                {"text": row[3]},
            ]);
            assert_eq!(told, wanted);
        }
    }
}
