//! Figures 5 and 6: two programs whose data is remote, by each channel, and with a relay on the
//! way, by `rhythm venice bench`.

use super::benched::{Row, ratios};
use super::costs::{bench, command};
use super::lab::Lab;
use super::paper;
use super::unmade::Unmade;
use crate::median::median;
use crate::reproduce::section::{Section, column, of_turns};
use rhythm_rpo::report::{Column, Kind};

/// The programs, by the beginning of their parts.
const PROGRAMS: [(&str, &str); 2] = [("pagerank", "PageRank"), ("transactions", "BerkeleyDB's")];
/// The paper's configurations, and what they are here.
const WAYS: [(&str, &str); 6] = [
    ("QPair, off-chip", "QPair, tcp"),
    ("QPair, on-chip", "QPair, shared memory"),
    ("async QPair, off-chip", "asynchronous QPair, tcp"),
    ("async QPair, on-chip", "asynchronous QPair, shared memory"),
    ("CRMA, off-chip", "CRMA, tcp"),
    ("CRMA, on-chip", "CRMA, shared memory"),
];
/// The same program by a channel off the chip, and on it.
const PLACES: [(&str, [&str; 2]); 3] = [
    ("QPair", ["QPair, tcp", "QPair, shared memory"]),
    (
        "async QPair",
        [
            "asynchronous QPair, tcp",
            "asynchronous QPair, shared memory",
        ],
    ),
    ("CRMA", ["CRMA, tcp", "CRMA, shared memory"]),
];
/// What a relay is put before, and with it.
const RELAYED: [(&str, &str, &str); 3] = [
    ("QPair", "QPair, tcp", "QPair, relay"),
    (
        "async QPair",
        "asynchronous QPair, tcp",
        "asynchronous QPair, relay",
    ),
    ("CRMA", "CRMA, tcp", "CRMA, relay"),
];

fn columns() -> [Column; 2] {
    PROGRAMS.map(|(_, name)| column(name, Kind::Measured))
}

/// What a program took by a way in each turn, in milliseconds.
fn ms<'a>(rows: &'a [Row], program: &str, way: &str) -> &'a [f64] {
    let of_way = |row: &&Row| row.part.starts_with(program) && row.what == way;
    rows.iter().find(of_way).map_or(&[], |row| &row.turns)
}

/// What it took by one in times of another.
fn slower(rows: &[Row], program: &str, [one, other]: [&str; 2]) -> Vec<f64> {
    ratios(ms(rows, program, one), ms(rows, program, other))
}

/// Programs by channel, in times of the slowest of the paper's.
pub(super) fn figure_5(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    tell("programs by channel");
    let rows = bench(lab, "programs")?;
    made.push(by_channel(&rows));
    made.push(by_place(&rows));
    Ok(())
}

pub(super) fn by_channel(rows: &[Row]) -> Section {
    let title = "programs by channel, in times of the speed of QPair off the chip";
    let local = [
        column("PageRank, times all local", Kind::Measured),
        column("BerkeleyDB's, times all local", Kind::Measured),
    ];
    let mut section = Section::new("Figure 5", title, &[columns(), local].concat());
    for (name, way) in WAYS {
        let of = |ways| PROGRAMS.map(|(program, _)| of_turns(None, &slower(rows, program, ways)));
        let cells = [of([WAYS[0].1, way]), of([way, "local"])];
        section.row(name, cells.concat());
    }
    section.charts = vec!["figure-5.svg"];
    for (program, name) in PROGRAMS {
        let took = |way| median(ms(rows, program, way).iter().copied());
        if let Some((local, slowest)) = took("local").zip(took(WAYS[0].1)) {
            section.note(format!(
                "{name} with local data takes {:.1} us, in the place of {slowest:.1} ms by QPair \
                 off the chip",
                local * 1e3,
            ));
        }
    }
    section.note(
        "Paper: asynchronous QPair is comparable to CRMA off the chip for PageRank, and gains very \
         little for BerkeleyDB; CRMA ends two to three times slower than local memory. Its bars \
         are drawn and not told. Its CRMA fills cache lines, which are there when they are wanted \
         again; here each access of 64 bytes goes to the donor",
    );
    section.note(
        "Off the chip is TCP, on it memory that both processes share, without the kernel where \
         nobody sleeps. PageRank is one round over a small graph, whose ranks are remote; the \
         transactions have four gets and a put, each of which is looked at before the next is \
         asked. What is found is the same as with local data",
    );
    section.by(&command("programs"))
}

pub(super) fn by_place(rows: &[Row]) -> Section {
    let title = "programs on the chip, in times of their speed off it";
    let mut section = Section::new("Figure 5, on the chip", title, &columns());
    for (name, ways) in PLACES {
        let of = |(program, _)| {
            let is_said = name == "CRMA" && program == PROGRAMS[0].0;
            let paper = is_said.then_some(paper::ON_CHIP_FASTER);
            of_turns(paper, &slower(rows, program, ways))
        };
        section.row(name, PROGRAMS.map(of).into());
    }
    section.by(&command("programs"))
}

/// The same with a relay on the way.
pub(super) fn figure_6(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    tell("a relay on the way");
    made.push(by_relay(&bench(lab, "programs")?));
    Ok(())
}

pub(super) fn by_relay(rows: &[Row]) -> Section {
    let title = "programs with a relay on the way, in times of without";
    let mut section = Section::new("Figure 6", title, &columns());
    for (name, direct, relayed) in RELAYED {
        let paper = (name == "CRMA").then_some(paper::ROUTER_SLOWER);
        let of = |(program, _)| of_turns(paper, &slower(rows, program, [relayed, direct]));
        section.row(name, PROGRAMS.map(of).into());
    }
    section.charts = vec!["figure-6.svg"];
    section.note(
        "The relay is a thread of the other process that takes bytes from one connection and puts \
         them into another: a hop in software. Paper: a router of its own; over 20 % slower for \
         CRMA, and least where code hides latency",
    );
    section.by(&command("programs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::value;
    use rhythm_rpo::report::{Cell, Estimate};

    fn row(part: &str, what: &str, first: f64) -> Row {
        Row {
            part: format!("{part} (Figure 5)"),
            transport: String::new(),
            bytes: None,
            what: what.to_owned(),
            // A machine that has become slower for the second turn.
            turns: vec![first, 2.0 * first],
        }
    }

    #[test]
    fn speeds_and_a_relays_cost_are_of_each_turn() {
        let rows = [
            row("pagerank", "local", 0.1),
            row("pagerank", "QPair, tcp", 80.0),
            row("pagerank", "CRMA, tcp", 40.0),
            row("pagerank", "CRMA, shared memory", 20.0),
            row("pagerank", "CRMA, relay", 50.0),
        ];
        let section = by_channel(&rows);
        let first = |row: usize| value(&section.table.rows[row].cells[0]);
        assert_eq!([first(0), first(1), first(4)], [Some(1.0), None, Some(2.0)]);
        let of_local = value(&section.table.rows[4].cells[2]);
        assert!(of_local.is_some_and(|times| (times - 400.0).abs() < 1e-9));
        assert_eq!(value(&section.table.rows[0].cells[1]), None);
        assert!(
            section.notes[0].contains("PageRank with local data takes 150.0 us, in the place of"),
            "{:?}",
            section.notes
        );
        let crma = &by_relay(&rows).table.rows[2].cells;
        let certain = Estimate {
            mean: 1.25,
            within: Some(0.0),
        };
        assert!(
            matches!(crma[0], Cell::Number { ours: Some(ours), .. } if ours == certain),
            "{crma:?}"
        );
    }
}
