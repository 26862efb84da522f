//! Figures 5 and 6: two programs whose data is remote, by each channel, and with a relay on the
//! way, by `rhythm venice bench`.

use super::costs::{Row, bench, command};
use super::lab::Lab;
use super::paper;
use super::unmade::Unmade;
use crate::reproduce::section::{Section, cell, column, ours};
use rhythm_rpo::report::{Cell, Column, Kind};

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

/// What a program took by a way, in milliseconds.
fn ms(rows: &[Row], program: &str, way: &str) -> Option<f64> {
    let mut of_way = rows
        .iter()
        .filter(|row| row.part.starts_with(program) && row.what == way);
    of_way.next().map(|row| row.median)
}

/// Programs by channel, in times of the slowest of the paper's.
pub(super) fn figure_5(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    tell("programs by channel");
    made.push(by_channel(&bench(lab, "programs")?));
    Ok(())
}

fn by_channel(rows: &[Row]) -> Section {
    let title = "programs by channel, in times of the speed of QPair off the chip";
    let local = [
        column("PageRank, times all local", Kind::Measured),
        column("BerkeleyDB's, times all local", Kind::Measured),
    ];
    let mut section = Section::new("Figure 5", title, &[columns(), local].concat());
    for (name, way) in WAYS {
        // What one takes in times of what another does.
        let ratio = |program: &str, one: &str, other: &str| {
            let both = ms(rows, program, one).zip(ms(rows, program, other));
            ours(both.map(|(one, other)| one / other))
        };
        let faster = PROGRAMS.map(|(program, _)| ratio(program, WAYS[0].1, way));
        let slower = PROGRAMS.map(|(program, _)| ratio(program, way, "local"));
        section.row(name, [faster, slower].concat());
    }
    section.charts = vec!["figure-5.svg"];
    for (program, name) in PROGRAMS {
        let both = ms(rows, program, "CRMA, tcp").zip(ms(rows, program, "CRMA, shared memory"));
        let local = ms(rows, program, "local").zip(ms(rows, program, WAYS[0].1));
        let (Some((off, on)), Some((local, slowest))) = (both, local) else {
            continue;
        };
        section.note(format!(
            "{name}: CRMA on the chip is {:.1} times as fast as off it (paper, PageRank: {}); with \
             local data it takes {:.1} us, in the place of {slowest:.1} ms by QPair off the chip",
            off / on,
            paper::ON_CHIP_FASTER,
            local * 1e3,
        ));
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

fn by_relay(rows: &[Row]) -> Section {
    let title = "how much longer programs take with a relay on the way, in percent";
    let mut section = Section::new("Figure 6", title, &columns());
    for (name, direct, relayed) in RELAYED {
        let cells = PROGRAMS.map(|(program, _)| -> Cell {
            let both = ms(rows, program, relayed).zip(ms(rows, program, direct));
            let slower = both.map(|(relayed, direct)| 100.0 * (relayed / direct - 1.0));
            cell((name == "CRMA").then_some(paper::ROUTER_SLOWER), slower)
        });
        section.row(name, cells.into());
    }
    section.charts = vec!["figure-6.svg"];
    section.note(
        "The relay is a thread of the other process that takes bytes from one connection and puts \
         them into another: a hop in software. Paper: a router of its own; over 20 % for CRMA, \
         which is what stands here, and least where code hides latency",
    );
    section.by(&command("programs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::value;

    fn row(part: &str, what: &str, median: f64) -> Row {
        Row {
            part: format!("{part} (Figure 5)"),
            transport: String::new(),
            bytes: None,
            what: what.to_owned(),
            median,
            ratio: None,
        }
    }

    #[test]
    fn speeds_are_in_times_of_the_first_and_a_relay_costs_percent() {
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
            section.notes[0].contains("2.0 times as fast"),
            "{:?}",
            section.notes
        );
        let crma = &by_relay(&rows).table.rows[2].cells;
        assert!((value(&crma[0]).expect("both are there") - 25.0).abs() < 1e-9);
    }
}
