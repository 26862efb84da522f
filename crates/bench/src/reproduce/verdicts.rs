//! Whether what a paper says is so here, as far as a run decides it, and what another report said
//! of that.
//!
//! Claims are told in words and have a bound; a figure that is nearer to it than runs are to each
//! other, or whose interval has the bound in it, decides nothing, so that noise turns no verdict
//! round.

use super::error::ReproduceError;
use super::files::read;
use super::section::Section;
use rhythm_rpo::report::{Cell, Estimate, Kind, Row, Table};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;

/// What is measured differs from run to run by so many parts of it, on a machine that has other
/// work, too.
const NOISE: f64 = 0.15;
/// Likewise what is counted, which hardly does.
const COUNTED: f64 = 0.02;

/// A figure of ours, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) figure: f64,
    /// Half of its confidence interval; 0 where it has none.
    half: f64,
    /// By such a part of it runs differ, whatever the interval of one of them.
    noise: f64,
}

impl Known {
    /// That came about so.
    pub(super) fn new(figure: f64, kind: Kind) -> Known {
        Known {
            figure,
            half: 0.0,
            noise: match kind {
                Kind::Counted => COUNTED,
                _ => NOISE,
            },
        }
    }

    fn estimated(of: Estimate, kind: Kind) -> Known {
        let known = Known::new(of.mean, kind);
        Known {
            half: of.within.unwrap_or(0.0),
            noise: match (kind, of.within) {
                // Its runs differ by their seeds alone, which the interval is of.
                (Kind::Simulated, Some(_)) => COUNTED,
                _ => known.noise,
            },
            ..known
        }
    }

    /// What follows from others, as well known as the one of them that is known worst.
    pub(super) fn from_all(figure: f64, others: &[Known]) -> Known {
        let worst = |of: fn(&Known) -> f64| others.iter().map(of).fold(0.0, f64::max);
        Known {
            figure,
            half: worst(Known::part) * figure.abs(),
            noise: worst(|of| of.noise),
        }
    }

    /// Half of its interval, as a part of it.
    fn part(&self) -> f64 {
        match self.half {
            // Also of 0, which has no parts.
            0.0 => 0.0,
            half => half / self.figure.abs(),
        }
    }

    /// So many times as much.
    pub(super) fn scaled(self, times: f64) -> Known {
        Known {
            figure: self.figure * times,
            half: self.half * times.abs(),
            ..self
        }
    }

    /// Whether all of its interval is above this, and it by more than noise.
    fn is_above(self, bound: f64) -> bool {
        self.figure - self.half >= bound && self.figure >= bound * (1.0 + self.noise)
    }

    /// Likewise below.
    fn is_below(self, bound: f64) -> bool {
        self.figure + self.half <= bound && self.figure <= bound * (1.0 - self.noise)
    }
}

/// What is to be said of a figure beside the paper's, or of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    #[serde(rename = "within 10 %")]
    Within,
    #[serde(rename = "differs: more")]
    More,
    #[serde(rename = "differs: less")]
    Less,
    #[serde(rename = "holds")]
    Holds,
    #[serde(rename = "differs")]
    Differs,
    /// Ours is of another program or card.
    #[serde(rename = "not comparable")]
    NotComparable,
    /// Our figure is too near the bound.
    #[serde(rename = "undecided")]
    Undecided,
    /// There is no figure of ours.
    #[serde(rename = "absent")]
    Absent,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Within => "within 10 %",
            Verdict::More => "differs: more",
            Verdict::Less => "differs: less",
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::NotComparable => "not comparable",
            Verdict::Undecided => "undecided",
            Verdict::Absent => "absent",
        }
    }

    /// Whether it says anything of the paper's figure or claim.
    fn is_decided(self) -> bool {
        match self {
            Verdict::Within | Verdict::More | Verdict::Less | Verdict::Holds | Verdict::Differs => {
                true
            }
            Verdict::NotComparable | Verdict::Undecided | Verdict::Absent => false,
        }
    }
}

/// What a claim says of its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn verdict(self, known: Known) -> Verdict {
        let (good, bad) = match self {
            Bound::AtLeast(bound) => (known.is_above(bound), known.is_below(bound)),
            Bound::AtMost(bound) => (known.is_below(bound), known.is_above(bound)),
        };
        match (good, bad) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::Differs,
            _ => Verdict::Undecided,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtLeast(bound) => write!(f, "at least {bound}"),
            Bound::AtMost(bound) => write!(f, "at most {bound}"),
        }
    }
}

/// What a paper says, and whether that is so here.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Where the paper says it.
    at: &'static str,
    /// What it says, as a figure that has a bound.
    says: String,
    /// The bound, in words.
    bound: String,
    /// Our figure, where there is one.
    figure: Option<f64>,
    verdict: Verdict,
}

impl Claim {
    /// Of our figure, if there is one.
    pub(super) fn new(
        at: &'static str,
        says: impl Into<String>,
        known: Option<Known>,
        bound: Bound,
    ) -> Claim {
        let known = known.filter(|known| known.figure.is_finite());
        let verdict = known.map(|known| bound.verdict(known));
        Claim::judged(at, says, (known, verdict), bound)
    }

    /// What is said of the greatest of these, and so of all: one that surely is beyond the bound
    /// decides, and one that may be leaves it open, whichever is the greatest.
    pub(super) fn of_greatest(
        at: &'static str,
        says: impl Into<String>,
        all: &[Known],
        bound: Bound,
    ) -> Claim {
        let finite = all.iter().copied().filter(|of| of.figure.is_finite());
        let greatest = finite
            .clone()
            .max_by(|one, other| one.figure.total_cmp(&other.figure));
        let (for_one, for_all) = match bound {
            Bound::AtLeast(_) => (Verdict::Holds, Verdict::Differs),
            Bound::AtMost(_) => (Verdict::Differs, Verdict::Holds),
        };
        let verdict = greatest.map(|_| {
            let mut verdicts = finite.map(|of| bound.verdict(of));
            match (
                verdicts.clone().any(|of| of == for_one),
                verdicts.all(|of| of == for_all),
            ) {
                (true, _) => for_one,
                (_, true) => for_all,
                _ => Verdict::Undecided,
            }
        });
        Claim::judged(at, says, (greatest, verdict), bound)
    }

    fn judged(
        at: &'static str,
        says: impl Into<String>,
        (known, verdict): (Option<Known>, Option<Verdict>),
        bound: Bound,
    ) -> Claim {
        Claim {
            at,
            says: says.into(),
            bound: bound.to_string(),
            figure: known.map(|known| known.figure),
            verdict: verdict.unwrap_or(Verdict::Absent),
        }
    }
}

/// Sections, of which figures are asked for.
#[derive(Clone, Copy)]
pub(super) struct Found<'a>(pub(super) &'a [Section]);

impl<'a> Found<'a> {
    /// See [`known`].
    pub(super) fn at(self, number: &str, row: &str, column: usize) -> Option<Known> {
        known(self.0.iter().map(|of| &of.table), number, row, column)
    }

    /// One row's in times of another's.
    pub(super) fn ratio(
        self,
        number: &str,
        [one, other]: [&str; 2],
        column: usize,
    ) -> Option<Known> {
        times(self.at(number, one, column), self.at(number, other, column))
    }

    /// The figures of a column, of the last section of this number that has any.
    pub(super) fn all(self, number: &str, column: usize) -> Vec<(&'a str, Known)> {
        let mut tables = self.0.iter().rev().map(|of| &of.table);
        let table = tables.find(|of| of.number == number && !of.rows.is_empty());
        let rows = table
            .iter()
            .flat_map(|of| of.rows.iter().map(|row| (*of, row)));
        rows.filter_map(|(of, row)| Some((row.name.as_str(), in_row(of, row, column)?)))
            .collect()
    }
}

/// Ours of the last table of this number that has it, in the row of this name; where none is
/// called so alone, in the first whose name it is as far as a comma.
pub(super) fn known<'a>(
    tables: impl DoubleEndedIterator<Item = &'a Table>,
    number: &str,
    row: &str,
    column: usize,
) -> Option<Known> {
    let goes_on = |name: &str| {
        let rest = name.strip_prefix(row);
        rest.is_some_and(|rest| rest.starts_with(','))
    };
    tables
        .rev()
        .filter(|table| table.number == number)
        .find_map(|table| {
            // One that is called so, before those that say more.
            let mut rows = table.rows.iter();
            let named = rows.find(|of| of.name == row);
            let row = named.or_else(|| table.rows.iter().find(|of| goes_on(&of.name)))?;
            in_row(table, row, column)
        })
}

/// Ours in a column of a row, as well known as the column, and its interval, say.
pub(super) fn in_row(table: &Table, row: &Row, column: usize) -> Option<Known> {
    match row.cells.get(column)? {
        Cell::Number { ours, .. } => {
            Some(Known::estimated((*ours)?, table.columns.get(column)?.kind))
        }
        Cell::Word { .. } => None,
    }
}

/// How many times the second the first is, where both are there.
pub(super) fn times(one: Option<Known>, other: Option<Known>) -> Option<Known> {
    let (one, other) = one.zip(other)?;
    (other.figure > 0.0).then(|| {
        let times = one.figure / other.figure;
        Known {
            // As far as the upper end of the one over the lower end of the other: farther than the
            // other way.
            half: match other.part() < 1.0 {
                true => (times + one.half / other.figure) / (1.0 - other.part()) - times,
                false => f64::INFINITY,
            },
            ..Known::from_all(times, &[one, other])
        }
    })
}

/// Claims as Markdown, where there are any.
pub(super) fn write_claims(claims: &[Claim], text: &mut String) {
    if claims.is_empty() {
        return;
    }
    let percent = |margin: f64| margin * 100.0;
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "\n## What the paper says, and what is so here\n\nA claim *holds*, or *differs*, where our \
         figure is beyond its bound by more than runs differ: {} % of it where it is counted, or \
         simulated with several seeds, else {} %, and in each case all of its confidence interval \
         (±), where it has one. It is *undecided* where the figure is nearer than that, and \
         *absent* where there is no figure.\n\n| the paper | says | bound | here | verdict \
         |\n|---|---|---|---|---|",
        percent(COUNTED),
        percent(NOISE)
    );
    for claim in claims {
        let figure = claim
            .figure
            .map_or("-".to_owned(), |figure| format!("{figure:.2}"));
        let Claim {
            at, says, bound, ..
        } = claim;
        let _ = writeln!(
            text,
            "| {at} | {says} | {bound} | {figure} | {} |",
            claim.verdict.name()
        );
    }
}

/// A figure or a claim, by where it stands, and what is said of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Judged {
    figure: String,
    verdict: Verdict,
}

/// What is said of all figures that the paper has, too, and of its claims.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verdicts(Vec<Judged>);

/// As far as it is looked at again.
#[derive(Deserialize)]
struct Earlier {
    verdicts: Verdicts,
}

impl Verdicts {
    /// Of figures, by where they stand, and of claims.
    pub(super) fn of(
        figures: impl IntoIterator<Item = (String, Verdict)>,
        claims: &[Claim],
    ) -> Verdicts {
        let claims = claims
            .iter()
            .map(|claim| (format!("{}: {}", claim.at, claim.says), claim.verdict));
        let all = figures.into_iter().chain(claims);
        Verdicts(
            all.map(|(figure, verdict)| Judged { figure, verdict })
                .collect(),
        )
    }

    /// Those of a report's JSON that was written before.
    ///
    /// # Errors
    /// It cannot be read, or is none, or one from before there were verdicts.
    pub fn read(path: &Path) -> Result<Verdicts, ReproduceError> {
        let earlier: Result<Earlier, _> = serde_json::from_str(&read(path)?);
        match earlier {
            Ok(earlier) => Ok(earlier.verdicts),
            Err(why) => Err(ReproduceError::EarlierReport {
                path: path.to_owned(),
                why,
            }),
        }
    }

    /// What is not as it was in the earlier ones, for people: a line for each that is another, and
    /// for each that was decided there alone or is here; and how many there are of each.
    #[must_use]
    pub fn since(&self, earlier: &Verdicts) -> Vec<String> {
        let by_figure = |of: &Verdicts| -> BTreeMap<String, Verdict> {
            let all = of.0.iter().map(|of| (of.figure.clone(), of.verdict));
            all.collect()
        };
        let (before, now) = (by_figure(earlier), by_figure(self));
        let figures: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let [mut both, mut turned, mut there, mut here] = [0; 4];
        let mut lines = Vec::new();
        for figure in figures {
            let of = |all: &BTreeMap<String, Verdict>| *all.get(figure).unwrap_or(&Verdict::Absent);
            let (before, now) = (of(&before), of(&now));
            match (before.is_decided(), now.is_decided()) {
                (true, true) => {
                    both += 1;
                    turned += usize::from(before != now);
                }
                (true, false) => there += 1,
                (false, true) => here += 1,
                // What is not comparable, or was, is no news.
                (false, false) => continue,
            }
            if before != now {
                lines.push(format!("{figure}: {}, was {}", now.name(), before.name()));
            }
        }
        lines.push(format!(
            "{both} decided in both, {turned} turned round, {there} decided only there, {here} \
             only here"
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::section::{column, ours};
    use super::*;
    use rhythm_rpo::report::Kind::{Computed, Counted, Emulated, Measured, Modeled, Simulated};

    fn claim(figure: impl Into<Option<f64>>, bound: Bound) -> Claim {
        let known = figure.into().map(|figure| Known::new(figure, Measured));
        Claim::new("section 1", "more is more", known, bound)
    }

    #[test]
    fn a_claim_is_decided_beyond_its_margin_alone() {
        use Bound::{AtLeast, AtMost};
        use Verdict::{Absent, Differs, Holds, Undecided};
        for (figure, bound, expected) in [
            (1.16, AtLeast(1.0), Holds),
            (1.14, AtLeast(1.0), Undecided),
            (0.86, AtLeast(1.0), Undecided),
            (0.84, AtLeast(1.0), Differs),
            (-5.0, AtLeast(1.0), Differs),
            (0.84, AtMost(1.0), Holds),
            (1.05, AtMost(1.0), Undecided),
            (1.16, AtMost(1.0), Differs),
            (f64::NAN, AtMost(1.0), Absent),
        ] {
            assert_eq!(claim(figure, bound).verdict, expected, "{figure} {bound}");
        }
        assert_eq!(claim(None, AtLeast(1.0)).verdict, Absent);
        let mut text = String::new();
        write_claims(
            &[claim(2.0, AtLeast(1.0)), claim(None, AtMost(0.5))],
            &mut text,
        );
        assert!(text.ends_with(
            "| section 1 | more is more | at least 1 | 2.00 | holds |\n\
             | section 1 | more is more | at most 0.5 | - | absent |\n"
        ));
    }

    #[test]
    fn a_figure_is_as_well_known_as_its_column_says() {
        let kinds = [Counted, Measured, Emulated, Simulated, Modeled, Computed];
        let columns = kinds.map(|kind| column("a", kind));
        let mut section = Section::new("Table 1", "x", &columns);
        section.row("one", kinds.map(|_| ours(1.1)).into());
        section.row("other", kinds.map(|_| ours(1.0)).into());
        let sections = [section];
        let found = Found(&sections);
        for (at, kind) in kinds.into_iter().enumerate() {
            let expected = match kind {
                Counted => Verdict::Holds,
                _ => Verdict::Undecided,
            };
            for known in [
                found.at("Table 1", "one", at),
                found.ratio("Table 1", ["one", "other"], at),
                found.all("Table 1", at).first().map(|(_, known)| *known),
            ] {
                let claim = Claim::new("section 1", "x", known, Bound::AtLeast(1.0));
                assert_eq!(claim.verdict, expected, "{kind}");
            }
        }
        // What follows from both is known no better than what is measured.
        let both = times(
            found.at("Table 1", "one", 0),
            found.at("Table 1", "other", 1),
        );
        assert_eq!(both.map(|both| both.noise), Some(NOISE));
    }

    #[test]
    fn all_of_an_interval_is_beyond_the_bound() {
        let of = |mean, within, kind| {
            let within = Some(within);
            Some(Known::estimated(Estimate { mean, within }, kind))
        };
        let verdict = |known| Claim::new("section 1", "x", known, Bound::AtLeast(1.0)).verdict;
        for (mean, within, kind, expected) in [
            // Rounds that differ decide nothing, however far their median is from the bound.
            (2.0, 0.9, Measured, Verdict::Holds),
            (2.0, 1.1, Measured, Verdict::Undecided),
            (0.5, 0.4, Measured, Verdict::Differs),
            (0.5, 0.6, Measured, Verdict::Undecided),
            // Those that are alike are of one run.
            (1.1, 0.01, Measured, Verdict::Undecided),
            (1.1, 0.01, Simulated, Verdict::Holds),
            (1.01, 0.0, Simulated, Verdict::Undecided),
            (0.0, 0.0, Simulated, Verdict::Differs),
            (0.0, 0.1, Measured, Verdict::Differs),
            (-1.0, 1.5, Measured, Verdict::Differs),
            (-1.0, 2.5, Measured, Verdict::Undecided),
        ] {
            assert_eq!(verdict(of(mean, within, kind)), expected, "{mean} {within}");
        }
        // Of a ratio its greatest: the most of the one over the least of the other.
        let both = times(of(2.0, 0.1, Simulated), of(4.0, 0.4, Simulated));
        let both = both.expect("there are both");
        assert!((both.half - (2.1 / 3.6 - 0.5)).abs() < 1e-9 && both.noise == COUNTED);
        let unknown = times(of(2.0, 0.1, Measured), of(4.0, 4.0, Measured));
        assert_eq!(verdict(unknown), Verdict::Undecided);
        // Of a mean that of the worst.
        let of_all = Known::from_all(3.0, &[both, Known::new(1.0, Measured)]);
        assert!((of_all.part() - both.part()).abs() < 1e-9 && of_all.noise == NOISE);
    }

    #[test]
    fn all_are_judged_and_not_the_greatest_alone() {
        let of = |all: &[(f64, f64)], bound| {
            let known = |&(mean, within)| {
                let within = Some(within);
                Known::estimated(Estimate { mean, within }, Measured)
            };
            let all: Vec<Known> = all.iter().map(known).collect();
            let claim = Claim::of_greatest("section 1", "x", &all, bound);
            (claim.verdict, claim.figure)
        };
        let (least, most) = (Bound::AtLeast(2.5), Bound::AtMost(2.5));
        for (all, of_least, of_most) in [
            (
                &[(2.0, 0.1), (1.9, 0.1)][..],
                Verdict::Differs,
                Verdict::Holds,
            ),
            // The greatest is below, and another may be above.
            (
                &[(2.0, 0.1), (1.9, 3.0)],
                Verdict::Undecided,
                Verdict::Undecided,
            ),
            // The greatest may be below, and another is above.
            (&[(9.0, 8.0), (3.0, 0.1)], Verdict::Holds, Verdict::Differs),
        ] {
            assert_eq!(of(all, least), (of_least, Some(all[0].0)));
            assert_eq!(of(all, most), (of_most, Some(all[0].0)));
        }
        assert_eq!(of(&[], least), (Verdict::Absent, None));
        assert_eq!(of(&[(f64::NAN, 0.0)], most), (Verdict::Absent, None));
    }

    #[test]
    fn a_row_is_the_one_of_that_name_before_those_that_say_more() {
        let mut section = Section::new("I", "", &[column("R", Measured)]);
        for (name, figure) in [("RPO, b = 100", 1.0), ("RPO", 2.0), ("S(0), late", 3.0)] {
            section.row(name, vec![ours(figure)]);
        }
        let found = |row| {
            let known = known([&section.table].into_iter(), "I", row, 0);
            known.map(|known| known.figure)
        };
        assert_eq!(found("RPO"), Some(2.0));
        assert_eq!(found("S(0)"), Some(3.0));
        assert_eq!(found("S(1)"), None);
    }

    #[test]
    fn a_claim_that_turns_round_is_told_beside_those_that_are_decided_once() {
        let of = |figure: Option<f64>| Verdicts::of([], &[claim(figure, Bound::AtLeast(1.0))]);
        let [holds, near, differs] = [2.0, 1.0, 0.5].map(|figure| of(Some(figure)));
        // As it is read again.
        let text = serde_json::to_string(&holds).expect("it is written");
        let holds: Verdicts = serde_json::from_str(&text).expect("it is read");
        let absent = of(None);
        // Of reports in which those that were absent or too near were called so, too.
        let text = r#"[{"figure": "section 1: more is more", "verdict": "not comparable"}]"#;
        let unlike: Verdicts = serde_json::from_str(text).expect("it is read");
        for (now, before, line, counts) in [
            (&holds, &holds, None, [1, 0, 0, 0]),
            (&differs, &holds, Some("differs, was holds"), [1, 1, 0, 0]),
            (&near, &holds, Some("undecided, was holds"), [0, 0, 1, 0]),
            (&absent, &holds, Some("absent, was holds"), [0, 0, 1, 0]),
            (
                &Verdicts::default(),
                &holds,
                Some("absent, was holds"),
                [0, 0, 1, 0],
            ),
            (
                &differs,
                &near,
                Some("differs, was undecided"),
                [0, 0, 0, 1],
            ),
            (
                &holds,
                &unlike,
                Some("holds, was not comparable"),
                [0, 0, 0, 1],
            ),
            (&near, &absent, None, [0; 4]),
            (&near, &unlike, None, [0; 4]),
        ] {
            let line = line.map(|line| format!("section 1: more is more: {line}"));
            let [both, turned, there, here] = counts;
            let last = format!(
                "{both} decided in both, {turned} turned round, {there} decided only there, \
                 {here} only here"
            );
            let expected: Vec<String> = line.into_iter().chain([last]).collect();
            assert_eq!(now.since(before), expected);
        }
    }

    #[test]
    fn figures_are_of_the_last_table_that_has_their_row() {
        let columns = [column("a", Measured)];
        let section = |rows: &[(&str, f64)]| {
            let mut section = Section::new("Table 3", "x", &columns);
            for (row, figure) in rows {
                section.row(*row, vec![ours(*figure)]);
            }
            section
        };
        let sections = [
            section(&[("layout b, a card", 1.0), ("layout c, a card", 2.0)]),
            section(&[("layout bb", 4.0), ("layout b, another", 3.0)]),
        ];
        let of = |row| known(sections.iter().map(|of| &of.table), "Table 3", row, 0);
        let measured = |figure| Some(Known::new(figure, Measured));
        assert_eq!(of("layout b"), measured(3.0));
        assert_eq!(of("layout c"), measured(2.0));
        assert_eq!(of("layout"), None);
        assert_eq!(times(of("layout c"), of("layout b")), measured(2.0 / 3.0));
        assert_eq!(times(of("layout c"), None), None);
    }
}
