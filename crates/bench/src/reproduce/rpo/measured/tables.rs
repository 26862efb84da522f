//! The paper's tables with what was measured.

use super::super::super::section::{Section, column};
use super::plan::{BATCH, Case, Way, workload};
use super::rounds::{Measured, Slice};
use super::watch::{SIZES, Shares};
use crate::load::Mix;
use rhythm_rpo::report::{Cell, Column, Estimate, Kind};

/// Response times of a workload in the paper, in ms: with HT, without, by RPO.
const RESPONSES: [(Mix, [f64; 3]); 6] = [
    (Mix::Browsing, [21.2, 43.1, 22.4]),
    (Mix::Ordering, [103.7, 50.0, 56.3]),
    (Mix::S(0), [122.7, 233.4, 73.3]),
    (Mix::S(5), [162.9, 246.2, 140.9]),
    (Mix::S(15), [143.6, 286.3, 139.9]),
    (Mix::S(50), [155.8, 400.5, 135.4]),
];
/// Of S(50) by RPO, with each size of a batch.
const BY_SIZE: [f64; 6] = [175.0, 160.2, 135.4, 138.2, 166.0, 324.7];

/// A way to look at a slice; nothing where it does not say.
type Look = fn(&Slice) -> Option<f64>;

const fn measured(name: &'static str) -> Column {
    column(name, Kind::Measured)
}

/// All tables, from all that was measured; the paper's response times stand beside ours only where
/// the settings are the paper's, too.
pub(super) fn all(measured: &[Measured], is_smt: bool) -> Vec<Section> {
    let of = Of(measured);
    vec![
        of.settings(is_smt),
        of.majorities(),
        of.minorities(
            "Table VIII",
            "what the batching does",
            &[(Mix::Browsing, [44.0, 27.0]), (Mix::Ordering, [38.0, 44.0])],
        ),
        of.minorities(
            "Table XI",
            "batches of the custom mixes",
            &[
                (Mix::S(0), [0.0, 0.0]),
                (Mix::S(5), [32.0, 22.0]),
                (Mix::S(15), [40.0, 25.0]),
                (Mix::S(50), [42.0, 27.0]),
            ],
        ),
        of.collector(),
        of.controller(),
        of.sizes(),
    ]
}

/// Looks up what was measured.
struct Of<'a>(&'a [Measured]);

impl Of<'_> {
    fn find(&self, case: &Case) -> &[Slice] {
        let mut found = self.0.iter().filter(|measured| measured.case == *case);
        found.next().map_or(&[], |measured| &measured.slices)
    }

    /// The mean over rounds.
    fn cell(&self, case: &Case, paper: Option<f64>, look: Look) -> Cell {
        let values: Vec<f64> = self.find(case).iter().filter_map(look).collect();
        Cell::Number {
            paper,
            ours: (!values.is_empty()).then(|| Estimate::of(&values)),
        }
    }

    fn settings(&self, is_smt: bool) -> Section {
        let mut section = Section::new(
            "Tables VI, IX, X and XIV",
            "the shop under each setting",
            &[
                measured("R, ms"),
                measured("p99, ms"),
                measured("X, pages/s"),
                measured("switches a minute"),
                measured("ms a switch"),
                measured("time with fewer CPUs, %"),
            ],
        );
        let cases = self.0.iter().map(|measured| measured.case);
        for case in cases.filter(|case| paper(case).is_some()) {
            let paper = paper(&case).flatten().filter(|_| is_smt);
            let cells = vec![
                self.cell(&case, paper, |slice| Some(slice.mean_ms)),
                self.cell(&case, None, |slice| Some(slice.p99_ms)),
                self.cell(&case, None, |slice| Some(slice.pages_per_s)),
                self.cell(&case, None, |slice| Some(slice.did?.switches_per_minute)),
                self.cell(&case, None, |slice| slice.did?.switch_ms),
                self.cell(&case, None, |slice| Some(slice.did?.fewer_percent)),
            ];
            section.row(format!("{}, {}", workload(case.mix), case.way), cells);
        }
        section.note(
            "A switch moves each process of the shop by sched_setaffinity; the paper's, by a \
             control group, takes about 1 ms. Who has fewer CPUs always was switched once, as it \
             began. What is learned begins anew each time, in the seconds before it is measured.",
        );
        section
    }

    /// A cell of what batches of the paper's rule were like.
    fn shares(&self, mix: Mix, size: u32, paper: f64, look: fn(&Shares) -> f64) -> Cell {
        let case = Case {
            mix,
            way: Way::Rpo(BATCH),
            is_light: false,
        };
        let shares = self
            .find(&case)
            .iter()
            .filter_map(|slice| slice.seen.as_ref());
        let values: Vec<f64> = shares
            .filter_map(|seen| seen.shares.get(&size).map(look))
            .collect();
        Cell::Number {
            paper: Some(paper),
            ours: (!values.is_empty()).then(|| Estimate::of(&values)),
        }
    }

    /// HT-friendly requests among the others, and the others among them.
    fn both(&self, mix: Mix, size: u32, paper: [f64; 2]) -> Vec<Cell> {
        vec![
            self.shares(mix, size, paper[0], |shares| shares.friendly_among_others),
            self.shares(mix, size, paper[1], |shares| shares.others_among_friendly),
        ]
    }

    fn majorities(&self) -> Section {
        let columns = [measured("HT-friendly, %"), measured("NOHT-friendly, %")];
        let mut section = Section::new("Table VII", "batches", &columns);
        for (mix, [friendly, others]) in
            [(Mix::Browsing, [99.3, 0.7]), (Mix::Ordering, [51.2, 48.3])]
        {
            let cells = vec![
                self.shares(mix, BATCH, friendly, |shares| shares.friendly),
                self.shares(mix, BATCH, others, |shares| shares.unfriendly),
            ];
            section.row(format!("{}, RPO", workload(mix)), cells);
        }
        section.note(
            "Classes are the paper's (Table V). Its ordering sessions asked for twice as many \
             HT-friendly pages as the standard's matrix gives, which is ours; and before a form \
             is sent ours ask for the page that it is on.",
        );
        section
    }

    fn minorities(
        &self,
        number: &'static str,
        title: &'static str,
        rows: &[(Mix, [f64; 2])],
    ) -> Section {
        let mut section = Section::new(number, title, &MINORITIES);
        for (mix, paper) in rows {
            section.row(
                format!("{}, RPO", workload(*mix)),
                self.both(*mix, BATCH, *paper),
            );
        }
        section
    }

    fn sizes(&self) -> Section {
        let mut section = Section::new("Table XV", "batches by their size, S(50)", &MINORITIES);
        let papers = [
            [49.0, 28.0],
            [46.0, 28.0],
            [42.0, 27.0],
            [37.0, 26.0],
            [35.0, 21.0],
            [0.0, 0.0],
        ];
        for (size, paper) in SIZES.into_iter().zip(papers) {
            section.row(
                format!("S(50), b = {size}"),
                self.both(Mix::S(50), size, paper),
            );
        }
        section.note("Of the same requests, cut into batches of each size.");
        section
    }

    fn collector(&self) -> Section {
        let title = "what the module that tells of requests costs";
        let columns = [measured("R, ms"), measured("X, pages/s")];
        let mut section = Section::new("Table XII", title, &columns);
        for (mix, way, paper) in [
            (Mix::Browsing, Way::Untold, [22.6, 356.0]),
            (Mix::Browsing, Way::Told, [21.2, 356.0]),
            (Mix::Ordering, Way::Untold, [42.0, 48.0]),
            (Mix::Ordering, Way::Told, [42.05, 48.0]),
        ] {
            self.costs(
                &mut section,
                &Case {
                    mix,
                    way,
                    is_light: false,
                },
                paper,
            );
        }
        section
    }

    fn controller(&self) -> Section {
        let title = "what the controller costs";
        let columns = [
            measured("R, ms"),
            measured("X, pages/s"),
            measured("the controller's share of a CPU, %"),
        ];
        let mut section = Section::new("Table XIII", title, &columns);
        for (mix, is_light, [beside, apart], rate) in [
            (Mix::Browsing, false, [70.2, 73.2], 416.0),
            (Mix::Browsing, true, [41.55, 39.95], 357.0),
            (Mix::Ordering, true, [132.55, 130.1], 22.0),
        ] {
            for (way, paper) in [(Way::Beside, beside), (Way::Apart, apart)] {
                self.costs(&mut section, &Case { mix, way, is_light }, [paper, rate]);
            }
        }
        section.note(
            "Half of the users where it says so. The paper's classifier and switcher take 0.6 and \
             0.5 % of their cores.",
        );
        section
    }

    fn costs(&self, section: &mut Section, case: &Case, [response, rate]: [f64; 2]) {
        let mut cells = vec![
            self.cell(case, Some(response), |slice| Some(slice.mean_ms)),
            self.cell(case, Some(rate), |slice| Some(slice.pages_per_s)),
        ];
        if case.way.is_controlled() {
            cells.push(self.cell(case, None, |slice| Some(slice.did?.cpu_percent)));
        }
        let half = if case.is_light {
            ", half of the users"
        } else {
            ""
        };
        section.row(format!("{}{half}, {}", workload(case.mix), case.way), cells);
    }
}

const MINORITIES: [Column; 2] = [
    measured("HT-friendly in NOHT batches, %"),
    measured("NOHT-friendly in HT batches, %"),
];

/// The paper's response time, if it tells one; nothing at all of what is no setting.
fn paper(case: &Case) -> Option<Option<f64>> {
    let (_, responses) = RESPONSES.iter().find(|(mix, _)| *mix == case.mix)?;
    Some(match case.way {
        Way::All => Some(responses[0]),
        Way::Fewer => Some(responses[1]),
        Way::Rpo(BATCH) => Some(responses[2]),
        Way::Rpo(size) => {
            let mut sizes = SIZES.into_iter().zip(BY_SIZE);
            sizes.find_map(|(other, response)| (other == size).then_some(response))
        }
        Way::Learned => None,
        Way::Untold | Way::Told | Way::Beside | Way::Apart => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    /// As if all had been measured, three times.
    fn of_all() -> Vec<Measured> {
        let slice = |round: usize| Slice {
            pages_per_s: 100.0,
            mean_ms: 7.0 + round as f64,
            ..Slice::default()
        };
        let cases = plan::groups().into_iter().flatten();
        let measured = cases.map(|case| Measured {
            case,
            slices: (0..3).map(slice).collect(),
        });
        measured.collect()
    }

    #[test]
    fn each_case_has_its_row() {
        let measured = of_all();
        let sections = all(&measured, true);
        let rows: usize = sections
            .iter()
            .map(|section| section.table.rows.len())
            .sum();
        // Settings; and 2 of VII, 2 of VIII, 4 of XI, 4 of XII, 6 of XIII, 6 of XV.
        assert_eq!(rows, 6 * 4 + 5 + 24);
        let mut text = String::new();
        sections.iter().for_each(|section| section.write(&mut text));
        assert!(
            text.contains("| S(50), RPO, b = 1 | 324.7 | 8.0 ± 2.5 |"),
            "{text}"
        );
        assert!(
            text.contains("| ordering, module on | 42.0 | 8.0 ± 2.5 |"),
            "{text}"
        );
        // The other machines' settings are not the paper's.
        text.clear();
        all(&measured, false)[0].write(&mut text);
        assert!(!text.contains("paper |"), "{text}");
    }
}
