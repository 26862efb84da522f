//! Figure 15: programs of which three quarters are remote. Figure 3: BerkeleyDB of which a third
//! is, over links that other machines have between them.

use super::lab::{Lab, Memory};
use super::link::Link;
use super::paper;
use super::unmade::Unmade;
use super::workload::Workload;
use crate::reproduce::section::{Section, cell, column, of_turns, ours};
use rhythm_rpo::report::Kind;
use std::time::Duration;

/// The row of what the others are compared with.
pub(super) const ALL_LOCAL: &str = "all local";
/// Percent of the pages that are remote, in Figure 15 and in Figure 3 (4 GB of 6 are local there).
const REMOTE: u64 = 75;
const REMOTE_3: u64 = 33;
/// Memory of a donor: programs have what they have in turn.
const DONOR_BYTES: u64 = 8 << 30;

/// Steps of a contest of so many ways.
pub(super) fn steps(lab: &Lab<'_>, ways: usize) -> usize {
    1 + lab.options.effort.rounds * ways
}

/// Steps of Figure 15.
pub(super) fn figure_15_steps(lab: &Lab<'_>) -> usize {
    Workload::ALL.len() * steps(lab, 2)
}

/// Steps of Figure 3.
pub(super) fn figure_3_steps(lab: &Lab<'_>) -> usize {
    steps(lab, 1 + LINKS.len())
}

/// Programs of which three quarters are remote, beside the same with all of it here.
pub(super) fn figure_15(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    let (_donor, address) = lab.donor(DONOR_BYTES)?;
    let columns = [
        column("times all local", Kind::Measured),
        column("all local, s", Kind::Measured),
        column("75 % remote, s", Kind::Measured),
        column("MiB of data", Kind::Measured),
        column("1000 faults", Kind::Measured),
    ];
    let title = "programs with 75 % of their pages at a donor";
    let mut section = Section::new("Figure 15", title, &columns);
    let mut wrong = Vec::new();
    for workload in Workload::ALL {
        let ways = |bytes| vec![Memory::Here, Memory::remote(address, bytes, REMOTE)];
        let there = workload.is_there(lab);
        let contest = match there.and_then(|()| workload.contest(lab, ways, tell)) {
            Ok(contest) => contest,
            Err(Unmade::Lacking(why)) => {
                section.note(format!("{} is left out: {why}", workload.name()));
                continue;
            }
            Err(Unmade::Failed(why)) => {
                wrong.push(format!("{}: {why}", workload.name()));
                continue;
            }
        };
        section.row(
            workload.name(),
            vec![
                of_turns(None, &contest.ratios(1)),
                ours(contest.seconds(0)),
                ours(contest.seconds(1)),
                ours(contest.bytes as f64 / f64::from(1 << 20)),
                ours(contest.faults(1).map(|faults| faults / 1e3)),
            ],
        );
    }
    let least_and_most = [
        ("the paper, least", paper::REMOTE_SLOWER.0),
        ("the paper, most", paper::REMOTE_SLOWER.1),
    ];
    for (name, times) in least_and_most {
        let none = || ours(None);
        section.row(
            name,
            vec![cell(times, None), none(), none(), none(), none()],
        );
    }
    section.charts = vec!["figure-15.svg"];
    section.note(
        "Each program runs unchanged with all of its memory here, and by `rhythm venice run` with \
         a quarter of what its data take then; the rest is with `rhythm venice lend`, another \
         process of this machine, over TCP. Seconds are those of its work, without making the \
         data; faults are of the whole run. The results are the same in every run",
    );
    section.note(
        "Paper: hardware that fetches cache lines (CRMA) or pages (RDMA, as swap); its text says \
         that it takes 1.03 to 2.5 times as long as all local, and that the two are up to 6.8 \
         times apart; single bars are drawn there, not told. Ours is pages by userfaultfd; \
         swap, local or remote, is not made: it would be a device of the whole machine",
    );
    section.note(format!(
        "Redis: {} keys of {} bytes, 16 requests in flight, each fifth a write, to keys that \
         are asked for alike, or by Zipf's law (0.99, as YCSB's), which the paper has not. \
         BerkeleyDB (perl's DB_File): {} records of 1000 bytes in its cache, transactions of \
         four gets and a put. Graphs: R-MAT, 2^{} vertices, 14 edges each; CC spreads labels, \
         Graph500 searches from 4 roots. Grep: three words in a text of {} MiB",
        lab.options.effort.keys,
        super::redis::VALUE_BYTES,
        lab.options.effort.keys,
        lab.options.effort.scale,
        (64_u64 << lab.options.effort.scale) >> 20,
    ));
    made.push(section);
    // The others were measured all the same.
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Unmade::Failed(wrong.join("; "))),
    }
}

/// Links between machines, as what is on the way here has them: microseconds one way, Gbit/s.
const LINKS: [(&str, Option<(u64, f64)>); 3] = [
    ("this machine's loopback", None),
    ("10 Gbit/s, 10 us away", Some((10, 10.0))),
    ("1 Gbit/s, 50 us away", Some((50, 1.0))),
];

/// BerkeleyDB of which a third is remote, over links.
pub(super) fn figure_3(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    let workload = Workload::BerkeleyDb;
    workload.is_there(lab)?;
    let (_donor, address) = lab.donor(DONOR_BYTES)?;
    let mut links = Vec::new();
    for (_, link) in LINKS {
        links.push(match link {
            Some((us, gbit_s)) => {
                let link = Link::start(address, Duration::from_micros(us), Some(gbit_s * 1e9));
                Some(link.map_err(Unmade::of("a link"))?)
            }
            None => None,
        });
    }
    let ways = |bytes| {
        let by = |link: &Option<Link>| {
            let address = link.as_ref().map_or(address, Link::address);
            Memory::remote(address, bytes, REMOTE_3)
        };
        [Memory::Here]
            .into_iter()
            .chain(links.iter().map(by))
            .collect()
    };
    let contest = workload.contest(lab, ways, tell)?;
    let columns = [
        column("times all local", Kind::Measured),
        column("s", Kind::Measured),
    ];
    let title = "BerkeleyDB with a third of its pages at a donor, by link";
    let mut section = Section::new("Figure 3", title, &columns);
    section.row(ALL_LOCAL, vec![ours(1.0), ours(contest.seconds(0))]);
    for (way, (name, _)) in (1..).zip(LINKS) {
        section.row(
            name,
            vec![
                of_turns(None, &contest.ratios(way)),
                ours(contest.seconds(way)),
            ],
        );
    }
    section.charts = vec!["figure-3.svg"];
    section.note(
        "Paper: BerkeleyDB, 6 GB of which 4 are local, over 10 Gbit Ethernet and InfiniBand (swap) \
         and PCIe (swap, and cache lines); its bars are drawn and not told, and its text says that \
         commodity interconnects are an order of magnitude slower than local memory",
    );
    section.note(
        "Farther links are emulated: bytes between program and donor pass this process, which \
         keeps them for so long and lets so many pass a second, each way. InfiniBand, and PCIe \
         between machines, are not here",
    );
    made.push(section);
    Ok(())
}
