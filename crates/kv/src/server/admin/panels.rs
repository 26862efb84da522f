//! What the dashboard shows of a server, its threads' figures added up.

use crate::ring::View;
use crate::shared::{Counter, Figures, Shared};
use rhythm_observe::dashboard::{Chart, Column, Dashboard, Figure, Part, Table, Unit, Value};
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

fn chart(title: &'static str, unit: Unit, lines: Vec<(&str, Value)>) -> Part {
    let lines = lines.into_iter();
    let lines = lines.map(|(name, value)| (name.to_owned(), value));
    let lines = lines.collect();
    Part::Chart(Chart { title, unit, lines })
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
    let parts = vec![Part::Figures(figures), chart("Commands", per_second, lines)];
    board.panel("commands", "Commands", parts);
    let figures = vec![
        Figure::new("Commands a cohort", size, Unit::Count),
        Figure::new("Turn, p50", turn(0.5), seconds),
        Figure::new("Turn, p99", turn(0.99), seconds),
    ];
    let lines = vec![("p50", turn(0.5)), ("p99", turn(0.99))];
    let parts = vec![
        Part::Figures(figures),
        chart("A turn: from waking to answers", seconds, lines),
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
    let parts = vec![Part::Figures(figures), chart("Memory", Unit::Bytes, lines)];
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
    let chart = chart("Bytes a second", Unit::Bytes, lines);
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
    let column = |(label, unit)| Column { label, unit };
    let table = Table {
        caption: "The other nodes, and what they have not acknowledged".to_owned(),
        columns: [
            ("Node", Unit::Count),
            ("State", Unit::Count),
            ("Behind", Unit::Bytes),
            ("For", Unit::Seconds),
            ("Frames resent", Unit::PerSecond),
        ]
        .map(column)
        .into(),
        rows,
        empty: "No other node is a member.",
    };
    board.panel("ring", "Ring", vec![Part::Table(table)]);
}
