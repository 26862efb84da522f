//! What a controller shows on a dashboard: its own, or that of the server that it is a part of.

use super::feed::Seen;
use super::status::Snapshot;
use crate::setting::Setting;
use rhythm_observe::dashboard::{Dashboard, Figure, Part, Unit, Value};
use std::cmp::Reverse;

/// Rows that the table of classes has at most.
const CLASSES_MAX: usize = 20;

/// All of it, for a controller on its own.
pub(super) fn of(told: &Snapshot) -> Dashboard {
    let state = match (told.setting, &told.trouble, told.advises) {
        (_, Some(_), _) => "in trouble",
        (None, ..) => "starting",
        (.., true) => "advising",
        _ => "controlling",
    };
    let mut board = Dashboard::new("rhythm rpo", env!("CARGO_PKG_VERSION"), state);
    if let Some(trouble) = &told.trouble {
        board.alarm(trouble.clone());
    }
    if told.counts.records == 0 {
        board.hint(
            "No request was told of yet, so most of this is empty: is it the server's ring, socket \
             or log that was named, and does anybody ask the server?"
                .to_owned(),
        );
    }
    board.panel("setting", "Setting", setting(told));
    board.panel("records", "What it is told", records(told));
    board.panel("decisions", "Decisions", decisions(told));
    board.panel(
        "classes",
        "Classes of requests",
        vec![classes(told), note()],
    );
    board
}

/// The one panel that it has on the dashboard of a server.
pub(super) fn within(told: &Snapshot, board: &mut Dashboard) {
    if let Some(trouble) = &told.trouble {
        board.alarm(format!("rpo: {trouble}"));
    }
    let mut parts = setting(told);
    parts.extend(decisions(told));
    parts.extend([classes(told), note()]);
    board.panel("rpo", "Hardware threads (rpo)", parts);
}

fn figure(label: &str, value: Value, unit: Unit) -> Figure {
    Figure::new(label, value, unit)
}

fn now(value: f64) -> Value {
    Value::Now(value)
}

fn setting(told: &Snapshot) -> Vec<Part> {
    let unknown = || Value::Text("not known yet".to_owned());
    let in_force = told.setting.map_or_else(unknown, |setting| {
        let advised = if told.advises {
            ", nothing is switched"
        } else {
            ""
        };
        Value::Text(format!("{setting}{advised}"))
    });
    let [gain, confidence] = match &told.outlook {
        Some(outlook) => [outlook.gain, outlook.confidence].map(now),
        None => [unknown(), unknown()],
    };
    let figures = vec![
        figure(
            ["In force", "Advised"][usize::from(told.advises)],
            in_force,
            Unit::Count,
        ),
        figure("For", now(told.in_force.as_secs_f64()), Unit::Seconds),
        figure("Expected gain", gain, Unit::Part),
        figure("Confidence", confidence, Unit::Part),
        figure("Cores busy", now(told.utilization), Unit::Part),
        figure("Tasks that run", now(told.running), Unit::Count),
    ];
    let why = match (&*told.explanation, told.advises) {
        ("", _) => "Nothing is decided yet.".to_owned(),
        (why, true) => format!("Advice: {why}."),
        (why, false) => format!("Why: {why}."),
    };
    let seconds = told.account.in_setting.map(|time| time.as_secs_f64());
    let all: f64 = seconds.iter().sum();
    let [all_threads, one] = seconds.map(|in_it| Value::Ratio(in_it, all));
    let lines = [("all threads", all_threads), ("one a core", one)];
    let chart = Part::chart("Share of the time in each setting", Unit::Part, lines);
    vec![Part::Figures(figures), Part::Note(why.into()), chart]
}

fn decisions(told: &Snapshot) -> Vec<Part> {
    let account = &told.account;
    let count = |value: u64| now(value as f64);
    let [to_all, to_one] = account.switches;
    let switches = to_all + to_one;
    let each = (switches > 0).then(|| account.switching.as_secs_f64() / switches as f64);
    let mut figures = vec![
        figure("Switches", count(switches), Unit::Count),
        figure("Each takes", Value::known(each), Unit::Seconds),
        figure("That failed", count(account.failures), Unit::Count),
        figure(
            "Undone by others",
            count(account.disagreements),
            Unit::Count,
        ),
    ];
    let mut lines = vec![
        ("to all threads", count(to_all)),
        ("to one a core", count(to_one)),
    ];
    if let Some(outlook) = &told.outlook {
        let learning = &outlook.learning;
        figures.push(figure("Taken back", count(learning.reverts), Unit::Count));
        figures.push(figure("Tries", count(learning.explorations), Unit::Count));
        lines.push(("taken back", count(learning.reverts)));
    }
    let first = account
        .decided
        .saturating_sub(account.decisions.len() as u64)
        + 1;
    let rows = (first..)
        .zip(&account.decisions)
        .map(|(number, (at, what))| {
            let ago = told.ran_for.saturating_sub(*at).as_secs_f64();
            vec![
                Value::Text(number.to_string()),
                now(ago),
                Value::Text(what.clone()),
            ]
        });
    let mut rows: Vec<_> = rows.collect();
    rows.reverse();
    vec![
        Part::Figures(figures),
        Part::chart("Switches since the start", Unit::Count, lines),
        Part::table(
            "The last decisions, the latest first",
            [
                ("Number", Unit::Count),
                ("Ago", Unit::Seconds),
                ("For which setting, and why", Unit::Count),
            ],
            rows,
            "No other setting was decided for yet.",
        ),
    ]
}

fn classes(told: &Snapshot) -> Part {
    let answers = |seen: &[Seen; 2]| seen.iter().map(|of| of.answers).sum::<u64>();
    let all: u64 = told.classes.iter().map(|(_, seen)| answers(seen)).sum();
    let seen = told.classes.iter().filter(|(_, seen)| answers(seen) > 0);
    let mut classes: Vec<_> = seen.collect();
    let known = classes.len();
    classes.sort_by_key(|(_, seen)| Reverse(answers(seen)));
    classes.truncate(CLASSES_MAX);
    let rows = classes.into_iter().map(|(name, seen)| {
        let means =
            seen.map(|of| (of.answers > 0).then(|| of.took.as_secs_f64() / of.answers as f64));
        let mean = |setting: Setting| Value::known(means[setting.index()]);
        let effect = match means {
            [Some(all), Some(one)] if all > 0.0 => Some(one / all - 1.0),
            _ => None,
        };
        vec![
            Value::Text(name.clone()),
            Value::Ratio(answers(seen) as f64, all as f64),
            Value::Rate(answers(seen) as f64),
            mean(Setting::AllThreads),
            mean(Setting::OnePerCore),
            Value::known(effect),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let caption = match known > CLASSES_MAX {
        true => format!("The {CLASSES_MAX} classes of {known} with most answers"),
        false => "Each class, and how long its answers took".to_owned(),
    };
    let columns = [
        ("Class", Unit::Count),
        ("Share", Unit::Part),
        ("Answers", Unit::PerSecond),
        ("All threads, mean", Unit::Seconds),
        ("One a core, mean", Unit::Seconds),
        ("One a core takes", Unit::Part),
    ];
    Part::table(caption, columns, rows, "No request was answered yet.")
}

fn note() -> Part {
    let words = "One a core takes: by how much longer (or, with a minus, shorter) answers of the \
                 class took with one thread a core than with all. Means are of all answers since \
                 the start, under whatever load they were; what the choice rests on is the \
                 expected gain, which compares the same load.";
    Part::Note(words.into())
}

fn records(told: &Snapshot) -> Vec<Part> {
    let counts = &told.counts;
    let [records, lost, garbage] =
        [counts.records, counts.lost, counts.garbage].map(|count| Value::Rate(count as f64));
    let mut figures = vec![
        figure("Records", records.clone(), Unit::PerSecond),
        figure("Lost", lost.clone(), Unit::PerSecond),
        figure("Garbage", garbage, Unit::PerSecond),
        figure("Lost since the start", now(counts.lost as f64), Unit::Count),
        figure("Rings not read", now(told.ring_errors as f64), Unit::Count),
    ];
    if let Some(under_way) = told.under_way {
        let value = now(under_way as f64);
        figures.push(figure("Requests under way", value, Unit::Count));
    }
    let lines = [("records", records), ("lost", lost)];
    let chart = Part::chart("Arrivals and answers told", Unit::PerSecond, lines);
    vec![Part::Figures(figures), chart]
}

#[cfg(test)]
mod tests {
    use super::super::account::Account;
    use super::*;
    use crate::policy::{Learning, Outlook};
    use rhythm_observe::dashboard::Shows;
    use serde_json::json;
    use std::time::Duration;

    fn told() -> Snapshot {
        let seen = |answers, millis| Seen {
            answers,
            took: Duration::from_millis(millis),
        };
        Snapshot {
            setting: Some(Setting::OnePerCore),
            in_force: Duration::from_secs(2),
            ran_for: Duration::from_secs(9),
            explanation: "it is better".to_owned(),
            outlook: Some(Outlook {
                gain: 0.25,
                confidence: 0.9,
                learning: Learning {
                    reverts: 3,
                    ..Learning::default()
                },
            }),
            account: Account {
                switches: [1, 2],
                decided: 5,
                decisions: [(Duration::from_secs(4), "one a core: to see".to_owned())].into(),
                in_setting: [Duration::from_secs(7), Duration::from_secs(2)],
                ..Account::default()
            },
            classes: vec![
                ("other".to_owned(), [seen(0, 0); 2]),
                ("/cart".to_owned(), [seen(10, 100), seen(30, 150)]),
                ("/item".to_owned(), [seen(50, 50), seen(0, 0)]),
            ],
            ..Snapshot::default()
        }
    }

    /// The part of a panel that is of this kind.
    fn part<'a>(board: &'a serde_json::Value, id: &str, kind: &str) -> &'a serde_json::Value {
        let panels = board["panels"].as_array().expect("panels");
        let panel = panels.iter().find(|panel| panel["id"] == id);
        let parts = panel.expect("it is shown")["parts"].as_array();
        let mut kinds = parts.expect("parts").iter().map(|part| &part[kind]);
        kinds.find(|of| !of.is_null()).expect("it is shown")
    }

    fn figures(part: &serde_json::Value) -> Vec<(&str, &serde_json::Value)> {
        let all = part.as_array().expect("figures").iter();
        all.map(|of| (of["label"].as_str().unwrap_or(""), &of["value"]))
            .collect()
    }

    #[test]
    fn a_controller_shows_its_choice_and_what_speaks_for_it() {
        let board = serde_json::to_value(of(&told())).expect("JSON");
        assert_eq!(board["state"], "controlling");
        let setting = figures(part(&board, "setting", "figures"));
        for figure in [
            ("In force", &json!({"text": "one a core"})),
            ("Expected gain", &json!({"now": 0.25})),
            ("Confidence", &json!({"now": 0.9})),
        ] {
            assert!(setting.contains(&figure), "{figure:?}: {setting:?}");
        }
        assert_eq!(part(&board, "setting", "note"), "Why: it is better.");
        let decisions = figures(part(&board, "decisions", "figures"));
        assert!(decisions.contains(&("Switches", &json!({"now": 3.0}))));
        assert!(decisions.contains(&("Taken back", &json!({"now": 3.0}))));
        let rows = &part(&board, "decisions", "table")["rows"];
        let row = json!([{"text": "5"}, {"now": 5.0}, {"text": "one a core: to see"}]);
        assert_eq!(*rows, json!([row]));
        let rows = &part(&board, "classes", "table")["rows"];
        // The one that was asked for most is first; one that nobody asked for is left out.
        let item = json!([
            {"text": "/item"}, {"ratio": [50.0, 90.0]}, {"rate": 50.0}, {"now": 0.001},
            {"text": "\u{2013}"}, {"text": "\u{2013}"},
        ]);
        let cart = json!([
            {"text": "/cart"}, {"ratio": [40.0, 90.0]}, {"rate": 40.0}, {"now": 0.01},
            {"now": 0.005}, {"now": -0.5},
        ]);
        assert_eq!(*rows, json!([item, cart]));
    }

    #[test]
    fn a_server_shows_it_as_one_panel_and_its_trouble_as_an_alarm() {
        let status = super::super::Status::default();
        status.set(Snapshot {
            trouble: Some("cannot write cpuset.cpus".to_owned()),
            ..told()
        });
        let mut board = Dashboard::new("toy", "", "serving");
        status.show(&mut board);
        let board = serde_json::to_value(&board).expect("JSON");
        assert_eq!(board["panels"].as_array().map(Vec::len), Some(1));
        assert_eq!(board["alarms"], json!(["rpo: cannot write cpuset.cpus"]));
        assert!(!part(&board, "rpo", "table").is_null());
    }
}
