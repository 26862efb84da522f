//! Whether what a paper says is so here, as far as a run decides it, and what another report said
//! of that.
//!
//! Claims are told in words and have a bound; a figure that is nearer to it than runs are to each
//! other decides nothing, so that noise turns no verdict round.

use super::error::ReproduceError;
use super::files::read;
use super::section::{Section, value};
use rhythm_rpo::report::{Cell, Estimate, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;

/// What is measured differs from run to run by so many parts of it, on a machine that has other
/// work, too.
pub(super) const NOISE: f64 = 0.15;
/// Likewise what is counted, which hardly does.
pub(super) const COUNTED: f64 = 0.02;

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
    #[serde(rename = "not comparable")]
    NotComparable,
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
    /// By a figure that is known no better than to so many parts of it.
    fn verdict(self, figure: f64, margin: f64) -> Verdict {
        let (good, bad) = match self {
            Bound::AtLeast(bound) => (
                figure >= bound * (1.0 + margin),
                figure <= bound * (1.0 - margin),
            ),
            Bound::AtMost(bound) => (
                figure <= bound * (1.0 - margin),
                figure >= bound * (1.0 + margin),
            ),
        };
        match (good, bad) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::Differs,
            // Too near.
            _ => Verdict::NotComparable,
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
    /// Of our figure, which is known no better than to so many parts of it.
    pub(super) fn new(
        at: &'static str,
        says: impl Into<String>,
        figure: Option<f64>,
        bound: Bound,
        margin: f64,
    ) -> Claim {
        let figure = figure.filter(|figure| figure.is_finite());
        let verdict = figure.map(|figure| bound.verdict(figure, margin));
        Claim {
            at,
            says: says.into(),
            bound: bound.to_string(),
            figure,
            verdict: verdict.unwrap_or(Verdict::NotComparable),
        }
    }
}

/// Sections, of which figures are asked for.
#[derive(Clone, Copy)]
pub(super) struct Found<'a>(pub(super) &'a [Section]);

impl<'a> Found<'a> {
    /// See [`figure`].
    pub(super) fn at(self, number: &str, row: &str, column: usize) -> Option<f64> {
        figure(self.0.iter().map(|of| &of.table), number, row, column)
    }

    /// One row's in times of another's.
    pub(super) fn ratio(self, number: &str, [one, other]: [&str; 2], column: usize) -> Option<f64> {
        times(self.at(number, one, column), self.at(number, other, column))
    }

    /// The figures of a column, of the last section of this number that has any.
    pub(super) fn all(self, number: &str, column: usize) -> Vec<(&'a str, f64)> {
        let mut sections = self.0.iter().rev();
        let section = sections.find(|of| of.table.number == number && !of.table.rows.is_empty());
        let rows = section.iter().flat_map(|of| &of.table.rows);
        rows.filter_map(|row| Some((row.name.as_str(), value(row.cells.get(column)?)?)))
            .collect()
    }
}

/// Ours of the last table of this number that has it, in the row of this name; where none is
/// called so alone, in the first whose name it is as far as a comma.
fn figure<'a>(
    tables: impl DoubleEndedIterator<Item = &'a Table>,
    number: &str,
    row: &str,
    column: usize,
) -> Option<f64> {
    estimate(tables, number, row, column).map(|ours| ours.mean)
}

/// The same, with how well it is known.
pub(super) fn estimate<'a>(
    tables: impl DoubleEndedIterator<Item = &'a Table>,
    number: &str,
    row: &str,
    column: usize,
) -> Option<Estimate> {
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
            match row.cells.get(column)? {
                Cell::Number { ours, .. } => *ours,
                Cell::Word { .. } => None,
            }
        })
}

/// How many times the second the first is, where both are there.
pub(super) fn times(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = one.zip(other)?;
    (other > 0.0).then_some(one / other)
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
         figure is beyond its bound by more than runs differ: {} % of what is measured, {} % of \
         what is counted, the confidence intervals of what is simulated. It is *not comparable* \
         where the figure is nearer than that, or absent.\n\n| the paper | says | bound | here | \
         verdict |\n|---|---|---|---|---|",
        percent(NOISE),
        percent(COUNTED)
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

    /// What is not as it was in the earlier ones, for people: how many there are, and a line for
    /// each that is another. What is not comparable, here or there, contradicts nothing.
    #[must_use]
    pub fn since(&self, earlier: &Verdicts) -> Vec<String> {
        let by_figure = |of: &Verdicts| -> BTreeMap<String, Verdict> {
            let all = of.0.iter().map(|of| (of.figure.clone(), of.verdict));
            all.collect()
        };
        let (before, now) = (by_figure(earlier), by_figure(self));
        let name = |of: Option<&Verdict>| of.map_or("not there", |verdict| verdict.name());
        let is_other = |figure: &String| match (before.get(figure), now.get(figure)) {
            (Some(before), Some(now)) => {
                let says = |of: &Verdict| *of != Verdict::NotComparable;
                before != now && says(before) && says(now)
            }
            _ => true,
        };
        let figures = before
            .keys()
            .chain(now.keys().filter(|of| !before.contains_key(*of)));
        let changed: Vec<String> = figures
            .filter(|of| is_other(of))
            .map(|of| format!("{of}: {}, was {}", name(now.get(of)), name(before.get(of))))
            .collect();
        let count = format!("{} verdicts, {} changed", now.len(), changed.len());
        [vec![count], changed].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::section::{column, ours};
    use super::*;
    use rhythm_rpo::report::Kind::Measured;

    fn claim(figure: impl Into<Option<f64>>, bound: Bound) -> Claim {
        Claim::new("section 1", "more is more", figure.into(), bound, 0.1)
    }

    #[test]
    fn a_claim_is_decided_beyond_its_margin_alone() {
        use Bound::{AtLeast, AtMost};
        use Verdict::{Differs, Holds, NotComparable};
        for (figure, bound, expected) in [
            (1.11, AtLeast(1.0), Holds),
            (1.09, AtLeast(1.0), NotComparable),
            (0.91, AtLeast(1.0), NotComparable),
            (0.89, AtLeast(1.0), Differs),
            (-5.0, AtLeast(1.0), Differs),
            (0.89, AtMost(1.0), Holds),
            (1.05, AtMost(1.0), NotComparable),
            (1.11, AtMost(1.0), Differs),
            (f64::NAN, AtMost(1.0), NotComparable),
        ] {
            assert_eq!(claim(figure, bound).verdict, expected, "{figure} {bound}");
        }
        assert_eq!(claim(None, AtLeast(1.0)).verdict, NotComparable);
        let mut text = String::new();
        write_claims(
            &[claim(2.0, AtLeast(1.0)), claim(None, AtMost(0.5))],
            &mut text,
        );
        assert!(text.ends_with(
            "| section 1 | more is more | at least 1 | 2.00 | holds |\n\
             | section 1 | more is more | at most 0.5 | - | not comparable |\n"
        ));
    }

    #[test]
    fn a_row_is_the_one_of_that_name_before_those_that_say_more() {
        let mut section = Section::new("I", "", &[column("R", Measured)]);
        for (name, figure) in [("RPO, b = 100", 1.0), ("RPO", 2.0), ("S(0), late", 3.0)] {
            section.row(name, vec![ours(figure)]);
        }
        let found = |row| figure([&section.table].into_iter(), "I", row, 0);
        assert_eq!(found("RPO"), Some(2.0));
        assert_eq!(found("S(0)"), Some(3.0));
        assert_eq!(found("S(1)"), None);
    }

    #[test]
    fn a_claim_that_turns_round_is_told_and_one_too_near_is_not() {
        let of = |figure| Verdicts::of([], &[claim(figure, Bound::AtLeast(1.0))]);
        let (holds, near, differs) = (of(2.0), of(1.0), of(0.5));
        // As it is read again.
        let text = serde_json::to_string(&holds).expect("it is written");
        let holds: Verdicts = serde_json::from_str(&text).expect("it is read");
        assert_eq!(near.since(&holds), ["1 verdicts, 0 changed"]);
        assert_eq!(differs.since(&near), ["1 verdicts, 0 changed"]);
        assert_eq!(
            differs.since(&holds),
            [
                "1 verdicts, 1 changed",
                "section 1: more is more: differs, was holds"
            ]
        );
        let none = Verdicts::default();
        assert_eq!(
            none.since(&holds),
            [
                "0 verdicts, 1 changed",
                "section 1: more is more: not there, was holds"
            ]
        );
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
        let of = |row| figure(sections.iter().map(|of| &of.table), "Table 3", row, 0);
        assert_eq!(of("layout b"), Some(3.0));
        assert_eq!(of("layout c"), Some(2.0));
        assert_eq!(of("layout"), None);
        assert_eq!(times(of("layout c"), of("layout b")), Some(2.0 / 3.0));
        assert_eq!(times(of("layout c"), None), None);
    }
}
