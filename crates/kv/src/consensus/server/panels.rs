//! What a node of a keyspace shows on its dashboard: who leads, the nodes, the log, clients.

use super::clients::CLIENTS_MAX;
use super::figures::Figures;
use crate::consensus::journal::SyncTimes;
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};
use rhythm_observe::{Count, HistogramSum, NANOSECOND, process};

/// All of it; and what keeps clients from this node, if anything does.
pub(super) fn of(figures: &Figures, syncs: &SyncTimes, ailment: Option<String>) -> Dashboard {
    let state = match (&ailment, figures.leads.get()) {
        (Some(_), _) => "not ready",
        (None, 0) => "follows",
        (None, _) => "leads",
    };
    let version = env!("CARGO_PKG_VERSION");
    let mut board = Dashboard::new("rhythm kv keyspace", version, state);
    if let Some(ailment) = ailment {
        board.alarm(ailment);
    }
    nodes(figures, &mut board);
    log(figures, syncs, &mut board);
    clients(figures, &mut board);
    board
}

fn now(of: &Count) -> Value {
    Value::Now(of.get() as f64)
}

fn rate(of: &Count) -> Value {
    Value::Rate(of.get() as f64)
}

fn nodes(figures: &Figures, board: &mut Dashboard) {
    let leader = figures.leader.get() as usize;
    let leads = leader
        .checked_sub(1)
        .and_then(|leader| figures.nodes.get(leader));
    let leads = leads.map_or("nobody that is known", |node| &*node.name);
    let reached = figures
        .nodes
        .iter()
        .filter(|node| node.is_reached.get() > 0);
    let reached = Value::Share(reached.count() as f64, figures.nodes.len() as f64);
    let me = figures.nodes.iter().find(|node| node.is_me);
    let me = me.map_or("", |node| &*node.name);
    let words = |words: &str| Value::Text(words.to_owned());
    let parts = vec![
        Figure::new("Leads", words(leads), Unit::Count),
        Figure::new("This node", words(me), Unit::Count),
        Figure::new("Nodes reached", reached, Unit::Count),
        Figure::new("Term", now(&figures.term), Unit::Count),
    ];
    let mut gone = Vec::new();
    let rows = figures.nodes.iter().enumerate().map(|(index, node)| {
        let is_reached = node.is_reached.get() > 0;
        let word = match (node.is_me, is_reached) {
            (true, _) => "this node",
            (_, true) => "reached",
            _ => "not reached",
        };
        if !is_reached {
            gone.push(&*node.name);
        }
        let role = match (leader, index + 1 == leader) {
            (0, _) => "\u{2013}",
            (_, true) => "leads",
            _ => "follows",
        };
        let [clients, place] = &node.places;
        vec![
            words(&node.name),
            Value::State(node.is_me || is_reached, word),
            words(role),
            Value::known(node.behind(figures).map(|entries| entries as f64)),
            words(clients),
            words(place),
        ]
    });
    let table = Part::table(
        "The nodes of the keyspace, as this one sees them",
        [
            ("Node", Unit::Count),
            ("State", Unit::Count),
            ("Role", Unit::Count),
            ("Entries behind", Unit::Count),
            ("For clients", Unit::Count),
            ("For nodes", Unit::Count),
        ],
        rows.collect(),
        "",
    );
    if !gone.is_empty() {
        board.alarm(format!("not reached: {}", gone.join(", ")));
    }
    let note = "Entries behind: what is agreed on and the node has yet to confirm. Who leads \
                knows.";
    let parts = vec![Part::Figures(parts), table, Part::Note(note.into())];
    board.panel("nodes", "Nodes", parts);
}

fn log(figures: &Figures, syncs: &SyncTimes, board: &mut Dashboard) {
    let mut sync = HistogramSum::default();
    sync.add(syncs, NANOSECOND);
    board.histogram("sync", sync);
    let of_sync = |part| Value::Quantile(part, "sync".to_owned());
    let (committed, applied) = (figures.committed.get(), figures.applied.get());
    let waiting = Value::Now(committed.saturating_sub(applied) as f64);
    let (count, seconds, rates) = (Unit::Count, Unit::Seconds, Unit::PerSecond);
    let executed = rate(&figures.executed);
    let mut parts = vec![
        Figure::new("Executed", executed.clone(), rates),
        Figure::new("Yet to execute", waiting, count),
        Figure::new("Log", Value::Now(applied as f64), count),
        Figure::new("Disk, p50", of_sync(0.5), seconds),
        Figure::new("Disk, p99", of_sync(0.99), seconds),
        Figure::new(
            "Sent to nodes, a second",
            rate(&figures.sent_bytes),
            Unit::Bytes,
        ),
        Figure::new("Items", now(&figures.items), count),
        Figure::new("Their bytes", now(&figures.item_bytes), Unit::Bytes),
        Figure::new("Leases", now(&figures.leases), count),
    ];
    if let Some(resident) = process::resident_bytes() {
        let resident = Value::Now(resident as f64);
        parts.push(Figure::new("Process", resident, Unit::Bytes));
    }
    let parts = vec![
        Part::Figures(parts),
        Part::chart(
            "Entries of the log executed",
            rates,
            [("executed", executed)],
        ),
        Part::chart(
            "Syncs of the journal to the disk",
            seconds,
            [("p50", of_sync(0.5)), ("p99", of_sync(0.99))],
        ),
    ];
    board.panel("log", "Log", parts);
}

fn clients(figures: &Figures, board: &mut Dashboard) {
    let connected = Value::Share(figures.clients.get() as f64, CLIENTS_MAX as f64);
    let count = Unit::Count;
    let parts = vec![
        Figure::new("Connected", connected, count),
        Figure::new("Watches", now(&figures.watches), count),
        Figure::new("Found no place", now(&figures.turned_away), count),
        Figure::new("Dropped", now(&figures.gave_way), count),
    ];
    let lines = [
        ("nothing done", &figures.nothing_done),
        ("perhaps done", &figures.perhaps_done),
        ("disk full", &figures.disk_full),
    ];
    let lines = lines.map(|(name, of)| (name, rate(of)));
    let chart = Part::chart("Commands refused, by what was said", Unit::PerSecond, lines);
    board.panel("clients", "Clients", vec![Part::Figures(parts), chart]);
}

#[cfg(test)]
mod tests {
    use super::super::member::Member;
    use super::*;
    use serde_json::json;

    fn figures() -> Figures {
        let member = |(index, name): (u16, &str)| Member {
            name: name.to_owned(),
            client: ([10, 0, 0, 1], index).into(),
            backbone: ([10, 1, 0, 1], index).into(),
            place: format!("10.1.0.1:{index}"),
        };
        let members = [(1, "a"), (2, "b"), (3, "c")].map(member);
        let figures = Figures::of(&members, 0);
        figures.leader.set(2);
        figures.committed.set(10);
        figures.nodes[0].is_reached.set(1);
        figures.nodes[1].is_reached.set(1);
        figures.nodes[1].has_up_to.set(7);
        figures
    }

    fn told(figures: &Figures) -> serde_json::Value {
        let board = of(figures, &SyncTimes::default(), None);
        serde_json::to_value(board).expect("JSON")
    }

    #[test]
    fn who_leads_and_who_is_away_is_shown_and_who_leads_knows_who_is_behind() {
        let figures = figures();
        let board = told(&figures);
        assert_eq!(board["state"], "follows");
        assert_eq!(board["alarms"], json!(["not reached: c"]));
        let cell = |board: &serde_json::Value, row: usize, column: usize| {
            board["panels"][0]["parts"][1]["table"]["rows"][row][column].clone()
        };
        assert_eq!(cell(&board, 0, 1), json!({"state": [true, "this node"]}));
        assert_eq!(cell(&board, 1, 2), json!({"text": "leads"}));
        assert_eq!(cell(&board, 1, 3), json!({"text": "\u{2013}"}));
        assert_eq!(cell(&board, 2, 1), json!({"state": [false, "not reached"]}));
        figures.leads.set(1);
        assert_eq!(cell(&told(&figures), 1, 3), json!({"now": 3.0}));
    }
}
