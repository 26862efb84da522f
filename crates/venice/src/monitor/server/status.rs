//! What a monitor tells of itself: its tables as text and as JSON, and figures.

use super::super::Monitor;
use super::super::keeper::Keeper;
use super::super::rat::Standing;
use super::super::rrt::Channel;
use super::figures::{Numbers, standing};
use super::panels;
use super::role::{Role, Waiting};
use crate::ask::Asked;
use crate::resource::{Kind, Share};
use crate::units;
use rhythm_net::Time;
use rhythm_observe::dashboard::Dashboard;
use serde_json::{Value, json};
use std::time::Duration;

/// What was asked, at one moment.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The tables, where they were asked for: all who ask wait for the monitor's thread, and what
    /// looks whether it is well asks often.
    pub(super) status: String,
    /// That another monitor leads, if it is so.
    pub(super) follows: Option<String>,
    /// What the dashboard shows, where that was asked for.
    pub(super) board: Option<Dashboard>,
    pub(super) numbers: Numbers,
}

/// Takes down what is asked.
pub(super) fn tell(role: &Role, waiting: &Waiting, asked: Asked, now: Time) -> Told {
    match role {
        Role::Leads(monitor) => match asked {
            Asked::Health | Asked::Ready => Told::default(),
            Asked::Dashboard => Told {
                board: Some(panels::of(monitor, &Numbers::of(monitor), now)),
                ..Told::default()
            },
            Asked::Metrics => Told {
                numbers: Numbers::of(monitor),
                ..Told::default()
            },
            Asked::Status => Told {
                status: tables(monitor, now),
                ..Told::default()
            },
        },
        Role::Waits(_) if asked == Asked::Dashboard => Told {
            board: Some(panels::of_spare(waiting)),
            ..Told::default()
        },
        Role::Waits(_) => follows(waiting),
    }
}

/// A spare has no tables.
fn follows(waiting: &Waiting) -> Told {
    let leader = waiting.leader.map(|place| {
        let admin = place.admin.map(|admin| admin.to_string());
        json!({"agents": place.agents.to_string(), "admin": admin})
    });
    let status = json!({
        "leads": false,
        "leader": leader,
        "trouble": waiting.trouble,
        "text": format!("{waiting}\n"),
    });
    Told {
        status: status.to_string(),
        follows: Some(waiting.to_string()),
        ..Told::default()
    }
}

fn tables<K: Keeper>(monitor: &Monitor<K>, now: Time) -> String {
    let (mut nodes, mut rrt, mut rat, mut tst) = (vec![], vec![], vec![], vec![]);
    for (name, node) in monitor.nodes().rows() {
        let silent = now.since(node.heard_at);
        nodes.push(json!({
            "node": name.as_str(),
            "connected": node.is_connected(),
            "place": node.place,
            "silent_seconds": silent.as_secs_f64(),
        }));
    }
    for (name, kind, resource) in monitor.rrt().rows() {
        let capabilities = Channel::all_of(kind).iter();
        let capabilities: Vec<&str> = capabilities.map(|channel| channel.name()).collect();
        rrt.push(json!({
            "node": name.as_str(),
            "resource": kind.name(),
            "address": resource.address.map(|address| address.to_string()),
            "size": resource.size,
            "idle": resource.free(),
            "capabilities": capabilities,
        }));
    }
    let lease = monitor.settings().dead_after;
    for (id, loan) in monitor.rat().rows() {
        let heard_at = monitor
            .nodes()
            .get(&loan.borrower)
            .map(|node| node.heard_at);
        let left = heard_at.map(|at| (at + lease).since(now));
        let why = match loan.standing {
            Standing::Ending(why) => Some(why.to_string()),
            _ => None,
        };
        rat.push(json!({
            "loan": id.0,
            "lender": loan.lender.as_str(),
            "borrower": loan.borrower.as_str(),
            "resource": loan.share.kind.name(),
            "size": loan.share.amount,
            "since_unix": loan.since,
            "channel": Channel::of(loan.share).name(),
            "standing": standing(loan).1,
            "ending_because": why,
            "lease_seconds": left.map(|left| left.as_secs_f64()),
        }));
    }
    for (from, to, link) in monitor.tst().rows() {
        tst.push(json!({
            "from": from.as_str(),
            "to": to.as_str(),
            "latency_seconds": link.latency.map(|latency| latency.as_secs_f64()),
            "bandwidth": link.bandwidth,
            "loss": f64::from(link.loss_permille) / 1000.0,
            "seen_seconds_ago": link.seen.map(|seen| now.since(seen).as_secs_f64()),
        }));
    }
    let mut status = json!({"leads": true, "nodes": nodes, "rrt": rrt, "rat": rat, "tst": tst});
    status["text"] = Value::String(text(&status));
    status.to_string()
}

/// A cell of a table.
fn cell(row: &Value, field: &str) -> String {
    match &row[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(is) => (if *is { "yes" } else { "no" }).to_owned(),
        Value::Array(all) => {
            let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            all.join(" ")
        }
        Value::Number(number) => match (field, number.as_u64(), number.as_f64()) {
            ("size" | "idle", Some(amount), _) => {
                let kind = row["resource"].as_str().and_then(|kind| kind.parse().ok());
                let kind = kind.unwrap_or(Kind::Memory);
                Share { kind, amount }.to_string()
            }
            ("bandwidth", Some(bytes), _) => format!("{}/s", units::bytes(bytes)),
            ("loss", _, Some(share)) => format!("{:.1} %", share * 100.0),
            (_, None, Some(seconds)) => units::time(Duration::from_secs_f64(seconds.max(0.0))),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// For people.
fn text(status: &Value) -> String {
    let table = |title: &str, key: &str, columns: &[(&str, &str)]| {
        let rows = status[key].as_array().map_or(&[][..], Vec::as_slice);
        let cells = |row: &Value| columns.iter().map(|(_, field)| cell(row, field)).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        let head: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
        units::table(title, &head, &rows)
    };
    [
        table(
            "Nodes",
            "nodes",
            &[
                ("node", "node"),
                ("connected", "connected"),
                ("place", "place"),
                ("silent", "silent_seconds"),
            ],
        ),
        table(
            "Resources (RRT)",
            "rrt",
            &[
                ("node", "node"),
                ("resource", "resource"),
                ("address", "address"),
                ("size", "size"),
                ("idle", "idle"),
                ("capabilities", "capabilities"),
            ],
        ),
        table(
            "Loans (RAT)",
            "rat",
            &[
                ("loan", "loan"),
                ("lender", "lender"),
                ("borrower", "borrower"),
                ("resource", "resource"),
                ("size", "size"),
                ("channel", "channel"),
                ("standing", "standing"),
                ("lease", "lease_seconds"),
                ("ending because", "ending_because"),
            ],
        ),
        table(
            "Links (TST)",
            "tst",
            &[
                ("from", "from"),
                ("to", "to"),
                ("latency", "latency_seconds"),
                ("bandwidth", "bandwidth"),
                ("loss", "loss"),
                ("last seen", "seen_seconds_ago"),
            ],
        ),
    ]
    .join("\n")
}
