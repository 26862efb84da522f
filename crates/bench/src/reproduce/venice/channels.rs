//! Figures 16a, 17 and 18: accelerators, channels and credits, by `rhythm venice bench`, whose
//! other process is the donor.

use super::benched::{Row, ratios};
use super::costs::{bench, command};
use super::lab::Lab;
use super::paper;
use super::unmade::Unmade;
use crate::median::median;
use crate::reproduce::section::{Section, cell, column, of_turns, ours};
use rhythm_rpo::report::Kind;

/// What carries them, in times of TCP and in the words of the report.
const TRANSPORTS: [(&str, &str); 2] = [("tcp", "TCP"), ("shared memory", "shared memory")];
/// The channels, as columns.
const CHANNELS: [&str; 3] = ["CRMA", "RDMA", "QPair"];

/// Figure 16a's row of what another accelerator of a donor is worth.
pub(super) const TWO_REMOTE: &str = "2 remote, in times of 1 remote";
/// Figure 18's row of all its sizes.
pub(super) const ALL_SIZES: &str = "all sizes";

fn size(bytes: Option<usize>) -> String {
    match bytes.unwrap_or(0) {
        bytes @ 0..1024 => format!("{bytes} B"),
        bytes @ 1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

/// Channels beside each other: each in parts of the fastest.
pub(super) fn figure_17(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    tell("channels");
    let rows = bench(lab, "channels")?;
    let columns = CHANNELS.map(|channel| column(channel, Kind::Measured));
    for ((transport, told), number, chart) in [
        (TRANSPORTS[0], "Figure 17, TCP", "figure-17-tcp.svg"),
        (
            TRANSPORTS[1],
            "Figure 17, shared memory",
            "figure-17-shared.svg",
        ),
    ] {
        let title = "what each channel does, in parts of the fastest";
        let mut section = Section::new(number, title, &columns);
        for (part, name) in [("read", "read"), ("one way", "sent")] {
            of_part(&mut section, &rows, (part, name), transport);
        }
        section.charts = vec![chart];
        section.note(format!(
            "Reads of memory or of what a program answers by messages, and writes and messages \
             that are not waited for one by one, over {told}; 1 is the fastest channel for that \
             size"
        ));
        section.note(
            "Paper: each channel is the fastest of some use, and none replaces another; its bars \
             are drawn and not told",
        );
        made.push(section.by(&command("channels")));
    }
    Ok(())
}

/// The rows of a part over a transport, by size.
fn of_part(section: &mut Section, rows: &[Row], (part, name): (&str, &str), transport: &str) {
    let of = |row: &&Row| row.part.starts_with(part) && row.transport == transport;
    let rows: Vec<&Row> = rows.iter().filter(of).collect();
    let mut sizes: Vec<Option<usize>> = rows.iter().map(|row| row.bytes).collect();
    sizes.dedup();
    for bytes in sizes {
        let us = CHANNELS.map(|channel| {
            let mut of_size = rows.iter().filter(|row| row.bytes == bytes);
            let row = of_size.find(|row| row.what == channel)?;
            median(row.turns.iter().copied())
        });
        let least = us.into_iter().flatten().fold(f64::INFINITY, f64::min);
        let part = |us: Option<f64>| ours(us.map(|us| least / us));
        section.row(format!("{name}, {}", size(bytes)), us.map(part).into());
    }
}

/// Credits by CRMA, in times of those by messages.
pub(super) fn figure_18(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    tell("credits");
    made.push(by_credits(&bench(lab, "credits")?));
    Ok(())
}

pub(super) fn by_credits(rows: &[Row]) -> Section {
    let ways = [
        ("one way", "tcp", "one way, TCP"),
        ("both ways", "tcp", "both ways, TCP"),
        ("one way", "shared memory", "one way, shared memory"),
        ("both ways", "shared memory", "both ways, shared memory"),
    ];
    let columns = ways.map(|(.., name)| column(name, Kind::Measured));
    // The paper's link is neither of ours.
    let columns = [&columns[..], &[column("the paper's link", Kind::Measured)]].concat();
    let title = "bandwidth with credits by CRMA, in times of credits by messages";
    let mut section = Section::new("Figure 18", title, &columns);
    let mut sizes: Vec<Option<usize>> = rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let faster = |(part, transport, _): (&str, &str, _), bytes| {
        let turns = |credits: &str| -> &[f64] {
            let of = |row: &&Row| {
                row.part.starts_with(part)
                    && row.transport == transport
                    && row.bytes == bytes
                    && row.what == credits
            };
            rows.iter().find(of).map_or(&[], |row| &row.turns)
        };
        ratios(turns("credits by CRMA"), turns("credits by messages"))
    };
    let none = || [ours(None)];
    for &bytes in &sizes {
        let cells = ways.map(|way| of_turns(None, &faster(way, bytes)));
        let cells = cells.into_iter().chain(none());
        section.row(format!("{} a message", size(bytes)), cells.collect());
    }
    let cells = ways.map(|way| {
        let by_size: Vec<Vec<f64>> = sizes.iter().map(|bytes| faster(way, *bytes)).collect();
        of_turns(None, &means(&by_size))
    });
    section.row(ALL_SIZES, cells.into_iter().chain(none()).collect());
    let (least, most) = paper::CREDITS_FASTER;
    for (name, times) in [("the paper, large", least), ("the paper, small", most)] {
        let ours = ways.map(|_| ours(None)).into_iter();
        section.row(name, ours.chain([cell(times, None)]).collect());
    }
    section.charts = vec!["figure-18.svg"];
    section.note(
        "Paper: 28 to 51 % more, more for small packets. There a credit is a store past a queue of \
         hardware. Here it is one where memory is shared; over TCP it is a frame ahead of those \
         that wait, and both kinds pass the same socket",
    );
    section.by(&command("credits"))
}

/// The geometric mean of what all have in each turn.
fn means(all: &[Vec<f64>]) -> Vec<f64> {
    let turns = all.iter().map(Vec::len).min().unwrap_or(0);
    let mean = |turn: usize| {
        let logarithms: f64 = all.iter().map(|of| of[turn].ln()).sum();
        (logarithms / all.len() as f64).exp()
    };
    (0..turns).map(mean).collect()
}

/// Accelerators of a donor.
pub(super) fn figure_16a(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    tell("accelerators");
    made.push(by_accelerators(&bench(lab, "accelerators")?));
    Ok(())
}

pub(super) fn by_accelerators(rows: &[Row]) -> Section {
    let columns = TRANSPORTS.map(|(_, told)| column(told, Kind::Measured));
    let title = "transforms by several accelerators, in times of a local one";
    let mut section = Section::new("Figure 16a", title, &columns);
    let of_figure = |row: &&Row| row.part.starts_with("fft");
    let rows: Vec<&Row> = rows.iter().filter(of_figure).collect();
    let mut whats: Vec<&str> = Vec::new();
    for row in &rows {
        if !whats.contains(&row.what.as_str()) {
            whats.push(&row.what);
        }
    }
    // One in times of another.
    let faster = |what: &str, other: &str| {
        TRANSPORTS.map(|(transport, _)| {
            let of = |named: &str| -> &[f64] {
                let is_it = |row: &&&Row| {
                    let name = row.what.split(" (").next();
                    name == Some(named) && row.transport == transport
                };
                rows.iter().find(is_it).map_or(&[], |row| &row.turns)
            };
            of_turns(None, &ratios(of(what), of(other)))
        })
    };
    for what in whats {
        let name = what.split(" (").next().unwrap_or(what);
        section.row(name.replace(" + ", ", "), faster(name, "1 local").into());
    }
    section.row(TWO_REMOTE, faster("2 remote", "1 remote").into());
    section.charts = vec!["figure-16a.svg"];
    section.note(
        "Paper: FFT in hardware; almost linear in the number of accelerators, its bars are drawn \
         and not told. Ours are threads of this machine and of its donor, another process of this \
         machine: no more of them work at once than there are processors",
    );
    section.by(&command("accelerators"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, bytes: usize, median: f64) -> Row {
        Row {
            part: "read (Figure 17)".to_owned(),
            transport: "tcp".to_owned(),
            bytes: Some(bytes),
            what: what.to_owned(),
            turns: vec![median],
        }
    }

    #[test]
    fn means_are_of_each_turn_that_all_have() {
        let of = |all: &[&[f64]]| means(&all.iter().map(|of| of.to_vec()).collect::<Vec<_>>());
        let all = of(&[&[1.0, 8.0, 9.0], &[4.0, 2.0]]);
        assert_eq!(all.len(), 2);
        assert!((all[0] - 2.0).abs() < 1e-9 && (all[1] - 4.0).abs() < 1e-9);
        assert!(of(&[]).is_empty() && of(&[&[1.0], &[]]).is_empty());
    }

    #[test]
    fn channels_are_parts_of_the_fastest_of_their_size() {
        let columns = CHANNELS.map(|channel| column(channel, Kind::Measured));
        let mut section = Section::new("Figure 17", "x", &columns);
        let rows = [
            row("CRMA", 64, 20.0),
            row("RDMA", 64, 40.0),
            row("QPair", 64, 25.0),
            row("adaptive", 64, 1.0),
            row("CRMA", 4096, 30.0),
            row("RDMA", 4096, 15.0),
        ];
        of_part(&mut section, &rows, ("read", "read"), "tcp");
        assert_eq!(section.table.rows[0].name, "read, 64 B");
        assert_eq!(
            section.table.rows[0].cells,
            [ours(1.0), ours(0.5), ours(0.8)]
        );
        assert_eq!(section.table.rows[1].name, "read, 4 KiB");
        assert_eq!(
            section.table.rows[1].cells,
            [ours(0.5), ours(1.0), ours(None)]
        );
        of_part(&mut section, &rows, ("read", "read"), "shared memory");
        assert_eq!(section.table.rows.len(), 2);
    }
}
