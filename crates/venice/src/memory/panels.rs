//! What a pager shows on its dashboard: memory, page faults, and donors.

use super::figures::Figures;
use super::store::Donor;
use super::uffd::PAGE;
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};

const SERVER: &str = "rhythm venice run";

/// Names of histograms.
const FAULT: &str = "fault";
const FETCH: &str = "fetch";

/// What a pager tells of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) figures: Figures,
    /// Processes, the pages of theirs that are here, and how many of one may be.
    pub(super) processes: usize,
    pub(super) here: usize,
    pub(super) local: usize,
    /// Pages that are away, and how many may be.
    pub(super) away: usize,
    pub(super) remote: usize,
    pub(super) donors: Vec<Donor>,
    /// Why one that is needed is not found.
    pub(super) not_found: Option<String>,
}

/// All of it.
pub(super) fn of(seen: &Seen) -> Dashboard {
    let mut board = Dashboard::new(SERVER, env!("CARGO_PKG_VERSION"), "running");
    if seen.figures.faults == 0 {
        let hint = "Nothing was borrowed yet: the program has touched no large mapping.";
        board.hint(hint.to_owned());
    }
    if let Some(why) = &seen.not_found {
        board.alarm(format!("Another donor is needed, and none is found: {why}"));
    }
    board.histogram(FAULT, seen.figures.times.told());
    board.histogram(FETCH, seen.figures.fetch_times.told());
    memory(seen, &mut board);
    faults(seen, &mut board);
    pages(seen, &mut board);
    donors(seen, &mut board);
    board
}

fn bytes(pages: usize) -> f64 {
    (pages * PAGE) as f64
}

fn memory(seen: &Seen, board: &mut Dashboard) {
    let (here, away) = (bytes(seen.here), bytes(seen.away));
    let count = |of: usize| Value::Now(of as f64);
    let share = Value::Share(away, bytes(seen.remote));
    let most = Value::Now(bytes(seen.local));
    let figures = vec![
        Figure::new("Borrowed memory in use", share, Unit::Bytes),
        Figure::new("Here", Value::Now(here), Unit::Bytes),
        Figure::new("Here at most, a process", most, Unit::Bytes),
        Figure::new("Processes", count(seen.processes), Unit::Count),
    ];
    let lines = [
        ("with donors", Value::Now(away)),
        ("here", Value::Now(here)),
    ];
    let chart = Part::chart("Memory of large mappings", Unit::Bytes, lines);
    board.panel("memory", "Memory", vec![Part::Figures(figures), chart]);
}

fn faults(seen: &Seen, board: &mut Dashboard) {
    let rate = |count: u64| Value::Rate(count as f64);
    let quantile = |part, name: &str| Value::Quantile(part, name.to_owned());
    let it = &seen.figures;
    let figures = vec![
        Figure::new("Faults", rate(it.faults), Unit::PerSecond),
        Figure::new("First touches", rate(it.first_touches), Unit::PerSecond),
        Figure::new("Half take at most", quantile(0.5, FAULT), Unit::Seconds),
        Figure::new("99 % take at most", quantile(0.99, FAULT), Unit::Seconds),
    ];
    let lines = [
        ("all", rate(it.faults)),
        ("of a donor", rate(it.fetched)),
        ("met here", rate(it.returned + it.awaited)),
    ];
    let counts = Part::chart("Faults", Unit::PerSecond, lines);
    let lines = [
        ("half of all", quantile(0.5, FAULT)),
        ("99 % of all", quantile(0.99, FAULT)),
        ("half of a donor\u{2019}s", quantile(0.5, FETCH)),
        ("99 % of a donor\u{2019}s", quantile(0.99, FETCH)),
    ];
    let times = Part::chart("How long a fault takes", Unit::Seconds, lines);
    board.panel(
        "faults",
        "Page faults",
        vec![Part::Figures(figures), counts, times],
    );
}

fn pages(seen: &Seen, board: &mut Dashboard) {
    let it = &seen.figures;
    let came = it.fetched + it.fetched_ahead;
    let rate = |count: u64| Value::Rate(count as f64);
    let moved = |count: u64| Value::Rate(count as f64 * PAGE as f64);
    let figures = vec![
        Figure::new("Pages in", rate(came), Unit::PerSecond),
        Figure::new("Of these, ahead", rate(it.fetched_ahead), Unit::PerSecond),
        Figure::new("Pages out", rate(it.evictions), Unit::PerSecond),
        Figure::new("Of these, sent", rate(it.sent), Unit::PerSecond),
        Figure::new("Of these, zeros", rate(it.zeros), Unit::PerSecond),
    ];
    let lines = [("in", moved(came)), ("out", moved(it.sent))];
    let chart = Part::chart("Pages over the network, a second", Unit::Bytes, lines);
    board.panel(
        "pages",
        "Pages in and out",
        vec![Part::Figures(figures), chart],
    );
}

fn donors(seen: &Seen, board: &mut Dashboard) {
    let count = |of: u64| Value::Now(of as f64);
    let it = seen.figures.donors;
    let figures = vec![
        Figure::new("Donors", count(seen.donors.len() as u64), Unit::Count),
        Figure::new("Lost without harm", count(it.lost), Unit::Count),
        Figure::new("Given back", count(it.moved), Unit::Count),
        Figure::new(
            "Pages copied",
            Value::Rate(it.copied as f64),
            Unit::PerSecond,
        ),
    ];
    let row = |donor: &Donor| {
        let silence = donor.silence.map(|silence| silence.as_secs_f64());
        vec![
            Value::Text(format!("{}, loan {}", donor.donor, donor.loan)),
            Value::State(donor.is_well, donor.state),
            Value::Now(donor.waiting as f64),
            Value::known(silence),
        ]
    };
    let columns = [
        ("Donor", Unit::Count),
        ("State", Unit::Count),
        ("Unanswered", Unit::Count),
        ("Silent for", Unit::Seconds),
    ];
    let rows = seen.donors.iter().map(row).collect();
    let empty = "No donor lends yet.";
    let table = Part::table(
        "Donors of this program\u{2019}s memory",
        columns,
        rows,
        empty,
    );
    board.panel("donors", "Donors", vec![Part::Figures(figures), table]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::LoanId;
    use serde_json::{Value as Json, json};
    use std::time::Duration;

    #[test]
    fn a_pager_shows_its_memory_its_faults_and_its_donors() {
        let mut seen = Seen::default();
        let shown = |seen: &Seen| serde_json::to_value(of(seen)).expect("JSON");
        let none = shown(&seen);
        assert!(none["hint"].is_string() && none["alarms"] == json!([]));
        (seen.here, seen.away, seen.remote) = (3, 5, 9);
        let figures = &mut seen.figures;
        (figures.faults, figures.fetched, figures.fetched_ahead) = (7, 2, 40);
        (figures.evictions, figures.sent) = (6, 4);
        figures.times.add(Duration::from_millis(1));
        let donor = |loan, state, is_well, waiting| Donor {
            donor: ([10, 0, 0, 7], 7070).into(),
            loan: LoanId(loan),
            state,
            is_well,
            waiting,
            silence: (waiting > 0).then_some(Duration::from_secs(3)),
        };
        seen.donors = vec![donor(1, "has all", true, 0), donor(2, "wants it", false, 8)];
        seen.not_found = Some("nobody lends".to_owned());
        let board = shown(&seen);
        assert_eq!(board["hint"], Json::Null);
        assert_eq!(
            board["alarms"],
            json!(["Another donor is needed, and none is found: nobody lends"])
        );
        let part = |panel: usize, part: usize| &board["panels"][panel]["parts"][part];
        let value = |panel: usize, at: usize| &part(panel, 0)["figures"][at]["value"];
        assert_eq!(*value(0, 0), json!({"share": [5.0 * 4096.0, 9.0 * 4096.0]}));
        assert_eq!(*value(1, 0), json!({"rate": 7.0}));
        assert_eq!(*value(1, 2), json!({"quantile": [0.5, "fault"]}));
        assert_eq!(
            board["histograms"]["fault"].as_array().map(Vec::len),
            Some(1)
        );
        assert_eq!(*value(2, 0), json!({"rate": 42.0}), "pages in");
        let lines = json!([["in", {"rate": 42.0 * 4096.0}], ["out", {"rate": 4.0 * 4096.0}]]);
        assert_eq!(part(2, 1)["chart"]["lines"], lines);
        let rows = json!([
            [
                {"text": "10.0.0.7:7070, loan 1"},
                {"state": [true, "has all"]},
                {"now": 0.0},
                {"text": "\u{2013}"},
            ],
            [
                {"text": "10.0.0.7:7070, loan 2"},
                {"state": [false, "wants it"]},
                {"now": 8.0},
                {"now": 3.0},
            ],
        ]);
        assert_eq!(part(3, 1)["table"]["rows"], rows);
    }
}
