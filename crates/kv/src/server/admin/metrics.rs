//! The figures of a server in the Prometheus text format, all since its start, whatever `stats
//! reset` did.

use super::ring;
use crate::class::Class;
use crate::shared::{Counter, Figures, Shared};
use rhythm_observe::{HistogramSum, NANOSECOND, Sample, TimeHistogram, Writer};
use std::fmt;
use std::sync::Arc;

/// Commands on keys: what they are called, and what became of the keys.
const ON_KEYS: [(&str, &[(&str, Counter)]); 6] = [
    (
        "get",
        &[("hit", Counter::GetHits), ("miss", Counter::GetMisses)],
    ),
    (
        "touch",
        &[("hit", Counter::TouchHits), ("miss", Counter::TouchMisses)],
    ),
    (
        "delete",
        &[
            ("hit", Counter::DeleteHits),
            ("miss", Counter::DeleteMisses),
        ],
    ),
    (
        "incr",
        &[("hit", Counter::IncrHits), ("miss", Counter::IncrMisses)],
    ),
    (
        "decr",
        &[("hit", Counter::DecrHits), ("miss", Counter::DecrMisses)],
    ),
    (
        "cas",
        &[
            ("hit", Counter::CasHits),
            ("miss", Counter::CasMisses),
            ("other_item", Counter::CasBadval),
        ],
    ),
];

/// All of it as a text.
///
/// # Errors
/// None that is known: writing to a text cannot fail.
pub(super) fn encode(shared: &Arc<Shared>) -> Result<String, fmt::Error> {
    let shared = Arc::clone(shared);
    rhythm_observe::encode("rhythm_kv", move |to| {
        commands(&shared, to)?;
        clients(&shared, to)?;
        loops(shared.all_figures(), to)?;
        times(&shared, to)?;
        items(&shared, to)?;
        memory(&shared, to)?;
        shared
            .ring
            .as_ref()
            .map_or(Ok(()), |view| ring::tell(view, to))
    })
}

/// Numbers, told apart by one label.
fn by<T>(label: &'static str, samples: impl IntoIterator<Item = (&'static str, T)>) -> Samples<T> {
    let labeled = |(name, value): (&str, T)| (vec![(label, name.to_owned())], value);
    samples.into_iter().map(labeled).collect()
}

type Samples<T> = Vec<Sample<T>>;

fn commands(shared: &Shared, to: &mut Writer<'_>) -> fmt::Result {
    let total = |counter| shared.total(counter);
    // What fetches and touches counts as both; what compares CAS ids as set and cas.
    let commands = [
        ("get", total(Counter::CmdGet)),
        ("set", total(Counter::CmdSet)),
        ("touch", total(Counter::CmdTouch)),
        ("flush_all", total(Counter::CmdFlush)),
        ("me", total(Counter::CmdMeta)),
        ("auth", total(Counter::AuthCmds)),
    ];
    // The others are counted by what became of them alone.
    let others = ON_KEYS[2..].iter().map(|(name, outcomes)| {
        let sum = outcomes.iter().map(|(_, counter)| total(*counter)).sum();
        (*name, sum)
    });
    to.counters(
        "commands",
        "Commands by kind; of those on several keys, each key",
        by("command", commands.into_iter().chain(others)),
    )?;
    let mut outcomes = Samples::new();
    for (command, of_command) in ON_KEYS {
        for &(outcome, counter) in of_command {
            let labels = vec![
                ("command", command.to_owned()),
                ("outcome", outcome.to_owned()),
            ];
            outcomes.push((labels, total(counter)));
        }
    }
    to.counters("keys", "Keys of commands, by what became of them", outcomes)?;
    let refused = [
        (
            "too_large",
            total(Counter::StoreTooLarge) + total(Counter::BinaryTooLarge),
        ),
        ("no_memory", total(Counter::StoreNoMemory)),
    ];
    to.counters(
        "sets_refused",
        "Values that were not stored, by reason",
        by("reason", refused),
    )?;
    to.counter(
        "auth_errors",
        "Clients that did not say in truth who they are",
        total(Counter::AuthErrors),
    )
}

fn clients(shared: &Shared, to: &mut Writer<'_>) -> fmt::Result {
    let total = |counter| shared.total(counter);
    let open = shared.connected.count() as f64;
    to.gauge("connections", "Connections open", open)?;
    let most = f64::from(shared.settings.connections_max);
    to.gauge("connections_max", "Connections at most", most)?;
    to.counter(
        "connections_accepted",
        "Connections accepted",
        total(Counter::Opened),
    )?;
    let closed = [
        ("too_many", total(Counter::Rejected)),
        ("silent", total(Counter::IdleKicks)),
        ("held_too_much", total(Counter::GaveWay)),
    ];
    to.counters(
        "connections_dropped",
        "Connections closed unasked, by reason",
        by("reason", closed),
    )?;
    let yields = [
        ("turn", total(Counter::Yields)),
        ("room", total(Counter::Stalls)),
    ];
    to.counters(
        "yields",
        "Times that commands waited: for others' turn, or until answers were taken, or the ring's",
        by("for", yields),
    )?;
    let read = total(Counter::BytesRead);
    to.counter("read_bytes", "Bytes read from clients", read)?;
    let written = total(Counter::BytesWritten);
    to.counter("written_bytes", "Bytes of answers", written)
}

fn loops(threads: &[Figures], to: &mut Writer<'_>) -> fmt::Result {
    let (mut turns, mut sizes) = (HistogramSum::default(), HistogramSum::default());
    for of_thread in threads {
        turns.add(&of_thread.turns, NANOSECOND);
        sizes.add(&of_thread.cohort_size, 1.0);
    }
    let alone = |sum| vec![(Vec::new(), sum)];
    to.histograms(
        "turn_seconds",
        "From a thread's waking, with something to do, to its answers' being sent",
        alone(turns),
    )?;
    let commands = "Commands that were executed together";
    to.histograms("cohort_size", commands, alone(sizes))?;
    let each = |figure: fn(&Figures) -> u64| -> Samples<u64> {
        let numbered = threads.iter().enumerate();
        numbered
            .map(|(index, of)| (vec![("worker", index.to_string())], figure(of)))
            .collect()
    };
    let scaled = |samples: Samples<u64>, scale: f64| -> Samples<f64> {
        let scaled = samples.into_iter();
        scaled
            .map(|(labels, value)| (labels, value as f64 * scale))
            .collect()
    };
    let busy = scaled(each(|of| of.turns.sum()), NANOSECOND);
    to.times("loop_busy_seconds", "Time the event loop has worked", busy)?;
    let held = scaled(each(|of| of.held.get()), 1.0);
    to.gauges(
        "held_bytes",
        "Bytes that connections hold: values that are not whole, answers that are not taken",
        held,
    )?;
    to.counters(
        "worker_restarts",
        "Workers started again after a panic",
        each(|of| of.restarts.get()),
    )
}

/// How long commands take.
fn times(shared: &Shared, to: &mut Writer<'_>) -> fmt::Result {
    let sum = |of: &dyn Fn(&Figures) -> &TimeHistogram| {
        let mut sum = HistogramSum::default();
        for of_thread in shared.all_figures() {
            sum.add(of(of_thread), NANOSECOND);
        }
        sum
    };
    let of_class = |class: Class| {
        let labels = vec![("command", class.name().to_owned())];
        (labels, sum(&|figures| &figures.commands[class as usize]))
    };
    to.histograms(
        "command_seconds",
        "From a thread's waking to its answers' being sent, by command, without other nodes' time",
        Class::ALL.map(of_class).into(),
    )?;
    if shared.ring.is_none() {
        return Ok(());
    }
    let waits = [
        ("copies", sum(&|figures| &figures.for_copies)),
        ("answer", sum(&|figures| &figures.for_answers)),
    ];
    to.histograms(
        "ring_wait_seconds",
        "What answers waited for other nodes: to have copies (a turn's together), or to answer",
        by("for", waits),
    )
}

fn items(shared: &Shared, to: &mut Writer<'_>) -> fmt::Result {
    let store = shared.store.totals();
    to.gauge("items", "Items", store.items as f64)?;
    let bytes = store.bytes as f64;
    to.gauge("item_bytes", "Bytes of items, with their headers", bytes)?;
    to.counter("items_stored", "Items ever stored", store.items_total)?;
    let split = |all: u64, unfetched: u64| {
        let fetched = all.saturating_sub(unfetched);
        by("fetched", [("yes", fetched), ("no", unfetched)])
    };
    to.counters(
        "evictions",
        "Items that made room for others, by whether anybody had fetched them",
        split(store.evictions, store.evicted_unfetched),
    )?;
    to.counters(
        "expirations",
        "Expired items whose memory was taken back, by whether anybody had fetched them",
        split(store.expired, store.expired_unfetched),
    )
}

fn memory(shared: &Shared, to: &mut Writer<'_>) -> fmt::Result {
    let (store, of) = (shared.store.totals(), shared.store.occupancy());
    for (name, help, bytes) in [
        (
            "memory_max_bytes",
            "Memory for items at most (-m)",
            shared.store.memory() as u64,
        ),
        (
            "memory_used_bytes",
            "Memory in use for items: segments and long values",
            store.memory_used,
        ),
        (
            "long_value_bytes",
            "Bytes of values too long for a segment",
            of.large_bytes,
        ),
        (
            "table_bytes",
            "Bytes of the table that finds items",
            store.table_bytes,
        ),
        (
            "table_slots",
            "Items that table has room for",
            store.table_slots,
        ),
        ("segment_bytes", "Bytes of a segment", of.segment_bytes),
    ] {
        to.gauge(name, help, bytes as f64)?;
    }
    let states = [
        ("open", of.open),
        ("sealed", of.sealed),
        ("retired", of.retired),
        ("free", of.free),
    ];
    let states = states.map(|(state, count)| (state, f64::from(count)));
    to.gauges(
        "segments",
        "Segments: written into, full, without items but perhaps still read, free",
        by("state", states),
    )?;
    let unused =
        (u64::from(of.sealed) * of.segment_bytes).saturating_sub(of.live_bytes + of.dead_bytes);
    let contents = [
        ("live", of.live_bytes),
        ("dead", of.dead_bytes),
        ("unused", unused),
    ];
    to.gauges(
        "sealed_bytes",
        "What full segments contain: items, items that are gone, nothing",
        by(
            "content",
            contents.map(|(name, bytes)| (name, bytes as f64)),
        ),
    )
}
