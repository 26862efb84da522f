//! What follows from rates: sections 6.1.1, 6.2 and 6.3, and Figure 8.

use super::executed::Reached;
use super::gpu::{DeviceReport, Rate};
use super::paper;
use crate::reproduce::section::{Section, cell, column, ours};
use rhythm_engine::session::SessionRules;
use rhythm_rpo::report::Kind::Computed;

/// GB/s of faster buses, in the paper's way of counting: usable, one direction.
const PCIE_5_GB_S: (&str, f64) = ("PCIe 5.0", 48.0);
/// Share of HTML that compression takes away (section 6.3).
const COMPRESSED: f64 = 0.8;

/// Figure 8: throughput of the i7's, efficiency of the A9's.
pub(super) fn figure_8(reached: &[Reached], rates: &[Rate]) -> Section {
    let mut section = Section::new(
        "Figure 8",
        "throughput, times an i7's (8 workers), and efficiency, times an A9's (2 workers)",
        &[
            column("throughput", Computed),
            column("efficiency, wall", Computed),
            column("efficiency, dynamic", Computed),
        ],
    );
    for of in &paper::PLATFORMS {
        let cells = vec![
            cell(of.kreq_per_s / paper::I7.kreq_per_s, None),
            cell(of.per_wall_joule / paper::A9.per_wall_joule, None),
            cell(of.per_dynamic_joule / paper::A9.per_dynamic_joule, None),
        ];
        section.row(of.name, cells);
    }
    let mut add = |name: String, rate: f64, wall: Option<f64>, dynamic: Option<f64>| {
        let per = |watts: Option<f64>, of: f64| {
            watts
                .filter(|watts| *watts > 0.0)
                .map(|watts| rate / watts / of)
        };
        let cells = vec![
            ours(rate / 1e3 / paper::I7.kreq_per_s),
            ours(per(wall, paper::A9.per_wall_joule)),
            ours(per(dynamic, paper::A9.per_dynamic_joule)),
        ];
        section.row(name, cells);
    };
    for of in reached {
        let name = format!("this CPU, {}, 1 worker", of.executor);
        add(
            name,
            of.requests_per_s,
            of.wall_watts,
            Some(of.dynamic_watts),
        );
    }
    for of in rates {
        add(
            of.name.clone(),
            of.requests_per_s,
            of.watts,
            of.dynamic_watts,
        );
    }
    section.note(
        "Of Table 3; a GPU's wall watts are its board's alone, so its wall efficiency is too good \
         beside the paper's, which have the machine in them",
    );
    section.charts = vec!["figure-8.svg"];
    section
}

/// Section 6.1.1: what a bus carries.
pub(super) fn projection(reached: &[Reached], gpus: &[DeviceReport]) -> Section {
    let mut section = Section::new(
        "Section 6.1.1",
        "whole answers across PCIe at most, 1000 requests/s",
        &[
            column("answers in buffers of powers of two", Computed),
            column("answers of exact length", Computed),
        ],
    );
    let crossed = gpus.iter().find_map(DeviceReport::crossing);
    let bytes = crossed.map(|(bytes, _)| bytes);
    let bytes = bytes.or(reached.first().map(|of| of.answer_bytes + 1.2e3));
    for (name, gb_s) in paper::PCIE_GB_S.into_iter().chain([PCIE_5_GB_S]) {
        let kreq = |bytes: f64| gb_s * 1e6 / bytes;
        let is_papers = name == "PCIe 4.0";
        let cells = vec![
            cell(
                is_papers.then_some(paper::PCIE_4_KREQ_S),
                kreq(paper::TO_HOST_KB * 1e3),
            ),
            ours(bytes.map(kreq)),
        ];
        section.row(format!("{name}, {gb_s} GB/s"), cells);
    }
    if let Some((bytes, Some(gb_s))) = crossed {
        let kreq = |bytes: f64| ours(gb_s * 1e6 / bytes);
        let cells = vec![kreq(paper::TO_HOST_KB * 1e3), kreq(bytes)];
        section.row(format!("measured on that card, {gb_s:.1} GB/s"), cells);
    }
    section.note(format!(
        "The bus over the bytes that cross to the host: {:.1} KB with the paper's buffers and 1.2 \
         requests of its backend (which gives its 864 within 1 %), {:.1} KB here{}",
        paper::TO_HOST_KB,
        bytes.unwrap_or(f64::NAN) / 1e3,
        match crossed {
            Some(_) => ", as layout a's report has them",
            None => ", of this CPU's answers; layout a's report (--device-report) has its own",
        }
    ));
    section
}

/// Section 6.2: cores that match a device.
pub(super) fn cores(reached: &[Reached], rates: &[Rate], watts_core: f64) -> Section {
    let mut section = Section::new(
        "Section 6.2",
        "cores that match a device's throughput, if they scaled linearly",
        &[
            column("ARM A9 cores (1 W)", Computed),
            column("W left for the uncore", Computed),
            column("i5 cores (10 W)", Computed),
            column("W left", Computed),
            column("cores of this CPU, host executor", Computed),
            column("W left (--watts-core)", Computed),
        ],
    );
    let host = reached.iter().find(|of| of.executor == "host");
    let mut add = |name: String, rate: f64, watts: Option<f64>, papers: [Option<f64>; 4]| {
        let left = |cores: f64, each: f64| watts.map(|watts| watts - cores * each);
        let a9 = rate / 1e3 / paper::A9_CORE.kreq_per_s;
        let i5 = rate / 1e3 / paper::I5_CORE.kreq_per_s;
        let here = host.map(|of| rate / of.requests_per_s);
        let cells = vec![
            cell(papers[0], a9),
            cell(papers[1], left(a9, paper::A9_CORE_WATTS)),
            cell(papers[2], i5),
            cell(papers[3], left(i5, paper::I5_CORE_WATTS)),
            ours(here),
            ours(here.and_then(|cores| left(cores, watts_core))),
        ];
        section.row(name, cells);
    };
    for (layout, a9, i5) in paper::CORES {
        let [a9_left, i5_left] = match layout {
            "b" => paper::WATTS_LEFT.map(Some),
            _ => [None, None],
        };
        if let Some(titan) = paper::titan(layout) {
            let rate = titan.kreq_per_s * 1e3;
            let papers = [Some(a9), a9_left, Some(i5), i5_left];
            add(
                titan.name.to_owned(),
                rate,
                Some(titan.dynamic_watts),
                papers,
            );
        }
    }
    for of in rates {
        add(
            of.name.clone(),
            of.requests_per_s,
            of.dynamic_watts,
            [None; 4],
        );
    }
    section.note(
        "Dynamic watts; less than nothing is left where the cores alone take more than the \
         device. The paper counts whole cores",
    );
    section
}

/// Section 6.3: what a network and a memory must have.
pub(super) fn resources(reached: &[Reached], rates: &[Rate], rules: &SessionRules) -> Section {
    let mut section = Section::new(
        "Section 6.3",
        "network and memory that a rate needs",
        &[
            column("Gbit/s", Computed),
            column("Gbit/s, 80 % of answers compressed away", Computed),
            column("MB of cohorts in flight", Computed),
        ],
    );
    let papers_bytes = (paper::REQUEST_KB + paper::BACKEND_KB + paper::KB_MEAN) * 1e3;
    let gbit = |rate: f64, bytes: f64| rate * bytes * 8.0 / 1e9;
    let mut add = |name: String, papers: Option<f64>, [rate, bytes, answer, lanes]: [f64; 4]| {
        let cells = vec![
            cell(papers, gbit(rate, bytes)),
            ours(gbit(rate, bytes - COMPRESSED * answer)),
            ours((lanes > 0.0).then(|| lanes * bytes / 1e6)),
        ];
        section.row(name, cells);
    };
    for (layout, papers) in paper::GBIT_S {
        if let Some(titan) = paper::titan(layout) {
            let lanes = paper::IN_FLIGHT * paper::COHORT;
            let figures = [
                titan.kreq_per_s * 1e3,
                papers_bytes,
                paper::KB_MEAN * 1e3,
                lanes,
            ];
            add(titan.name.to_owned(), Some(papers), figures);
        }
    }
    let answer = reached
        .first()
        .map_or(paper::KB_MEAN * 1e3, |of| of.answer_bytes);
    let bytes = (paper::REQUEST_KB + paper::BACKEND_KB) * 1e3 + answer;
    for of in reached {
        let name = format!("this CPU, {}, 1 worker", of.executor);
        add(name, None, [of.requests_per_s, bytes, answer, 0.0]);
    }
    for of in rates {
        add(
            of.name.clone(),
            None,
            [of.requests_per_s, bytes, answer, of.in_flight],
        );
    }
    let session_bytes = rules.bytes() as f64 / f64::from(rules.capacity);
    let sessions = |bytes: f64| paper::SESSIONS * bytes / 1e6;
    section.note(format!(
        "A request of 0.5 KB, a backend's of 1 KB and its answer of 4 KB, as in the paper, and an \
         answer of {:.1} KB here, heads included, {:.1} in the paper. Requests in flight take as \
         much memory, without what layouts add",
        answer / 1e3,
        paper::KB_MEAN
    ));
    section.note(format!(
        "16 million sessions: {:.0} MB in the paper ({} bytes each, in a table four times as \
         large against collisions), {:.0} MB here ({} bytes each; slots, so there are none)",
        sessions(paper::SESSION_BYTES),
        paper::SESSION_BYTES,
        sessions(session_bytes),
        session_bytes
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::value;
    use rhythm_rpo::report::Cell;

    /// The paper's figure and ours of each row that has both.
    fn both(section: &Section, column: usize) -> Vec<(f64, f64)> {
        let cells = section.table.rows.iter().map(|row| &row.cells[column]);
        let pairs = cells.filter_map(|cell| match cell {
            Cell::Number { paper, .. } => paper.zip(value(cell)),
            Cell::Word { .. } => None,
        });
        pairs.collect()
    }

    #[test]
    fn the_papers_own_rates_give_its_own_figures() {
        let cores = cores(&[], &[], 10.0);
        let resources = resources(&[], &[], &SessionRules::new(1, 1));
        let projection = projection(&[], &[]);
        for (section, column, rows) in [
            (&cores, 0, 2),
            (&cores, 2, 2),
            (&resources, 0, 3),
            (&projection, 0, 1),
        ] {
            let pairs = both(section, column);
            assert_eq!(pairs.len(), rows, "{}", section.table.number);
            for (paper, ours) in pairs {
                assert!((ours / paper - 1.0).abs() < 0.03, "{paper} and {ours}");
            }
        }
    }

    #[test]
    fn a_session_takes_what_the_engine_says_of_it() {
        let told = |rules: SessionRules| {
            let section = resources(&[], &[], &rules);
            let each = rules.bytes() / rules.capacity as usize;
            let told = format!("{} MB here ({each} bytes each;", 16 * each);
            let is_told = section.notes.iter().any(|note| note.contains(&told));
            assert!(is_told, "{told} is not in {:?}", section.notes);
            each
        };
        let alone = SessionRules::new(1000, 1);
        let shared = SessionRules {
            is_shared: true,
            ..alone
        };
        assert!(told(alone) < told(shared));
    }
}
