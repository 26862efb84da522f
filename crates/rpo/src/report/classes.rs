//! Tables that no run gives: classes by the paper's rule, and misses of the cache.

use super::modeled::as_factors;
use super::statistics::Estimate;
use super::table::{Cell, Column, Kind, Row, Table};
use crate::classifier::derive::by_frequency;
use crate::classifier::log::{Counted, Counts};
use crate::model::{Mix, ModelError, Params};

/// Table V: the classes that the paper's rule gives for the mixes.
pub(super) fn classes(params: &Params) -> Result<Table, ModelError> {
    let (browsing, ordering) = (params.mix("browsing")?, params.mix("ordering")?);
    let derived = by_frequency(&counts(browsing), &counts(ordering));
    // Two pages are in neither of the paper's classes.
    let left_out = ["order_display", "order_inquiry"];
    let rows = params.page_names().map(|page| {
        let paper = match page {
            _ if left_out.contains(&page) => "-",
            _ if params.pages.friendly.iter().any(|of| of == page) => "HT-friendly",
            _ => "NOHT-friendly",
        };
        let ours = derived
            .get(page)
            .map_or("-".to_owned(), ToString::to_string);
        Row {
            name: page.replace('_', " "),
            cells: vec![Cell::Word {
                paper: paper.to_owned(),
                ours,
            }],
            unstable: 0,
        }
    });
    Ok(Table {
        number: "V",
        title: "classes of requests",
        columns: vec![Column {
            name: "class",
            kind: Kind::Computed,
        }],
        rows: rows.collect(),
        note: "Ours are by the paper's rule, more frequent in browsing than in ordering or the \
               other way round, from the shares that the standard's matrices give.",
    })
}

/// A mix as if it had been counted in a log of a million requests.
fn counts(mix: &Mix) -> Counts {
    let all: f64 = mix.shares.values().sum();
    let counted = |share: &f64| Counted {
        requests: (share / all * 1e6) as u64,
        bytes: 0,
    };
    let classes = mix.shares.iter();
    Counts {
        classes: classes
            .map(|(page, share)| (page.clone(), counted(share)))
            .collect(),
        unreadable: 0,
    }
}

/// Table IV: web tier and database at HT or not; the paper's misses and response times as a mean
/// and two factors.
pub(super) fn misses() -> Table {
    let tiers = ["NOHT, NOHT", "NOHT, HT", "HT, NOHT", "HT, HT"];
    let mixes = [
        (
            "browsing",
            [
                [4656.0, 667.0, 71.0],
                [8789.0, 721.0, 258.0],
                [7121.0, 557.0, 48.0],
                [9364.0, 597.0, 48.0],
            ],
        ),
        (
            "ordering",
            [
                [6853.0, 24486.0, 659.0],
                [22036.0, 20952.0, 1249.0],
                [17796.0, 25912.0, 1023.0],
                [33741.0, 27723.0, 1460.0],
            ],
        ),
    ];
    let mut rows = Vec::new();
    for (mix, paper) in mixes {
        let of = |column: usize| as_factors(paper.map(|row| row[column]));
        let ours = [of(0), of(1), of(2)];
        for (row, tiers) in tiers.into_iter().enumerate() {
            let cell = |column: usize| Cell::Number {
                paper: Some(paper[row][column]),
                ours: Some(Estimate::certain(ours[column][row])),
            };
            rows.push(Row {
                name: format!("{mix}, {tiers}"),
                cells: (0..3).map(cell).collect(),
                unstable: 0,
            });
        }
    }
    let column = |name| Column {
        name,
        kind: Kind::Modeled,
    };
    Table {
        number: "IV",
        title: "misses of the L3 cache a completion (MPC); web tier, database",
        columns: vec![column("web MPC"), column("database MPC"), column("R, ms")],
        rows,
        note: "The model knows no caches, only their effect on speeds. Ours is a fit to the \
               paper's own four figures of a mix: a mean, a factor for HT at the web tier and \
               one for HT at the database. It predicts nothing; it says how much of what the \
               paper saw two independent factors explain.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_gives_the_papers_classes() {
        let params = Params::paper().expect("params/paper.toml");
        let table = classes(&params).expect("the paper's mixes");
        assert_eq!(table.rows.len(), 14);
        let mut differ = 0;
        for row in &table.rows {
            let Cell::Word { paper, ours } = &row.cells[0] else {
                panic!("{row:?}");
            };
            if paper == "-" {
                assert_eq!(ours, "HT-friendly", "{}", row.name);
            } else {
                differ += usize::from(paper != ours);
            }
        }
        assert_eq!(differ, 0);
    }
}
