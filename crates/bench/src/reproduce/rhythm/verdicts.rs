//! Whether our figures are the paper's, where they can be.

use crate::reproduce::section::{Section, value};
use crate::reproduce::verdicts::Verdict;
use rhythm_rpo::report::Cell;

/// A figure of ours is within the paper's if it is off by so many parts of it at most.
const WITHIN: f64 = 0.1;
/// Sections whose figures are of something else than the paper's are, and of what.
const UNLIKE: [(&str, &str); 7] = [
    ("Table 2", "another program, in another language"),
    ("Section 2.3", "another program, in another language"),
    ("Table 3, GPU", "another card"),
    ("Section 6.4, parser", "another card"),
    ("Section 6.1.1", "the paper's own figures"),
    ("Section 6.2", "the paper's own figures"),
    ("Section 6.3", "the paper's own figures"),
];

/// Of a figure that is so many times the paper's.
fn verdict(times: f64) -> Verdict {
    match times {
        _ if (times - 1.0).abs() <= WITHIN => Verdict::Within,
        _ if times > 1.0 => Verdict::More,
        _ => Verdict::Less,
    }
}

/// What the sections' figures are not comparable for, if they are not.
fn unlike(section: &Section) -> Option<&'static str> {
    let of = UNLIKE.iter().find(|(of, _)| *of == section.table.number);
    of.map(|(_, why)| *why)
}

/// Rows that have the paper's figure and ours in a column: how many times it ours is.
fn pairs(section: &Section, column: usize) -> impl Iterator<Item = (&str, f64)> {
    section.table.rows.iter().filter_map(move |row| {
        let cell = row.cells.get(column)?;
        let Cell::Number { paper, .. } = cell else {
            return None;
        };
        let paper = paper.filter(|paper| *paper != 0.0)?;
        Some((row.name.as_str(), value(cell)? / paper))
    })
}

/// What is said under a table, where the paper has figures that ours are beside.
pub(super) fn note(section: &Section) -> Option<String> {
    let mut said = Vec::new();
    for (at, column) in section.table.columns.iter().enumerate() {
        let all: Vec<(&str, f64)> = pairs(section, at).collect();
        if all.is_empty() {
            continue;
        }
        if let Some(why) = unlike(section) {
            return Some(format!("Verdict: not comparable, since ours is of {why}"));
        }
        let differs = |(_, times): &&(&str, f64)| verdict(*times) != Verdict::Within;
        let others = all.iter().filter(differs);
        let others: Vec<String> = others
            .map(|(row, times)| format!("{row} ({times:.2} times)"))
            .collect();
        let within = all.len() - others.len();
        let mut of = format!("{}: {within} of {} within 10 %", column.name, all.len());
        if !others.is_empty() {
            of = format!("{of}, differs: {}", others.join(", "));
        }
        said.push(of);
    }
    (!said.is_empty()).then(|| format!("Verdicts: {}", said.join("; ")))
}

/// Of all figures that the paper has, too, by where they stand.
pub(super) fn of(sections: &[Section]) -> Vec<(String, Verdict)> {
    let mut all = Vec::new();
    for section in sections {
        let unlike = unlike(section);
        for (at, column) in section.table.columns.iter().enumerate() {
            all.extend(pairs(section, at).map(|(row, times)| {
                let figure = format!("{}, {row}, {}", section.table.number, column.name);
                let verdict = match unlike {
                    Some(_) => Verdict::NotComparable,
                    None => verdict(times),
                };
                (figure, verdict)
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Less, More, NotComparable, Within};
    use super::*;
    use crate::reproduce::section::{cell, column, ours};
    use crate::reproduce::verdicts::Verdicts;
    use rhythm_rpo::report::Kind::Computed;

    fn section(number: &'static str, figures: &[(&str, f64)]) -> Section {
        let columns = [column("KB", Computed), column("ours alone", Computed)];
        let mut section = Section::new(number, "x", &columns);
        for (row, figure) in figures {
            section.row(*row, vec![cell(100.0, *figure), ours(1.0)]);
        }
        section.row("the paper's alone", vec![cell(100.0, None), ours(None)]);
        section
    }

    #[test]
    fn figures_are_judged_where_both_are_there_and_of_the_same() {
        let same = section(
            "Table 2, answers",
            &[("a", 91.0), ("b", 110.5), ("c", 50.0)],
        );
        let said = note(&same).expect("there are figures");
        assert_eq!(
            said,
            "Verdicts: KB: 1 of 3 within 10 %, differs: b (1.10 times), c (0.50 times)"
        );
        let other = section("Table 2", &[("a", 100.0)]);
        let said = note(&other).expect("there are figures");
        assert!(said.starts_with("Verdict: not comparable"), "{said}");
        assert_eq!(note(&section("Figure 9", &[])), None);
        let all = of(&[same, other]);
        let verdicts: Vec<Verdict> = all.iter().map(|of| of.1).collect();
        assert_eq!(verdicts, [Within, More, Less, NotComparable]);
    }

    #[test]
    fn what_changed_between_reports_is_told() {
        let of = |figures: &[(&str, f64)]| {
            Verdicts::of(of(&[section("Table 2, answers", figures)]), &[])
        };
        let earlier = of(&[("a", 91.0), ("b", 111.0), ("gone", 100.0)]);
        // As it is read again.
        let text = serde_json::to_string(&earlier).expect("it is written");
        let earlier: Verdicts = serde_json::from_str(&text).expect("it is read");
        assert_eq!(
            earlier.since(&earlier),
            ["3 decided in both, 0 turned round, 0 decided only there, 0 only here"]
        );
        let now = of(&[("a", 89.0), ("b", 120.0), ("new", 100.0)]);
        assert_eq!(
            now.since(&earlier),
            [
                "Table 2, answers, a, KB: differs: less, was within 10 %",
                "Table 2, answers, gone, KB: absent, was within 10 %",
                "Table 2, answers, new, KB: within 10 %, was absent",
                "2 decided in both, 1 turned round, 1 decided only there, 1 only here",
            ]
        );
    }
}
