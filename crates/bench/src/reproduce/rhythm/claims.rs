//! What the paper says that a run decides: its claims, each with the figure of ours that is beside
//! it.

use super::{executed, formed, paper};
use crate::reproduce::section::{Section, value};
use crate::reproduce::verdicts::Bound::{AtLeast, AtMost};
use crate::reproduce::verdicts::{COUNTED, Claim, Found, NOISE, times};
use rhythm_rpo::report::Cell;

/// "Nearly linear speedup" is so many percent of ideal at least.
const NEARLY_LINEAR: f64 = 75.0;
/// Titan A, which reaches 83 to 95 % of what the bus carries, "is primarily limited" by it: so many
/// percent at least.
const LIMITED: f64 = 75.0;
/// The 99th percentile "did not differ substantially" from the mean: it is 7 to 40 % more.
const SUBSTANTIALLY: f64 = 1.4;
/// Formation that is "negligible" is so many percent of the latency at most.
const NEGLIGIBLE: f64 = 10.0;
/// Pages whose buffers are nearly full, which do better (section 6.1.2).
const FULL_BUFFERS: [&str; 3] = ["login", "change_profile", "transfer"];

/// Columns of Table 3, GPU.
const RATE: usize = 0;
const DYNAMIC_WATTS: usize = 2;
const PER_DYNAMIC_JOULE: usize = 4;
const LATENCY: usize = 5;
const P99: usize = 6;

/// Both figures of a column's rows that have the paper's and ours, of its pages alone.
fn both(found: Found<'_>, number: &str, column: usize) -> Vec<(f64, f64)> {
    let sections = found.0.iter().filter(|of| of.table.number == number);
    let rows = sections.flat_map(|of| &of.table.rows);
    let pages = rows.filter(|row| is_page(&row.name));
    let both = pages.filter_map(|row| match row.cells.get(column)? {
        cell @ Cell::Number { paper, .. } => paper.zip(value(cell)),
        Cell::Word { .. } => None,
    });
    both.collect()
}

fn is_page(name: &str) -> bool {
    paper::PAGES.iter().any(|paper| paper.page.name() == name)
}

/// The claims, in the paper's order.
pub(super) fn of(sections: &[Section]) -> Vec<Claim> {
    let found = Found(sections);
    let mut all = similarity(found);
    all.extend(processors(found));
    all.extend(devices(found));
    all.extend(sizes(found));
    all
}

/// Requests for one page are alike (section 2.3).
fn similarity(found: Found<'_>) -> Vec<Claim> {
    let of_page = |paper: &paper::PaperPage| {
        let page = paper.page.name();
        Claim::new(
            "section 2.3, Figure 2",
            format!("speedup of merged requests for {page}, % of ideal, is nearly linear"),
            found.at("Figure 2", page, 0),
            AtLeast(NEARLY_LINEAR),
            COUNTED,
        )
    };
    paper::PAGES.iter().map(of_page).collect()
}

/// What cohorts are worth on a processor, and what pages cost beside each other.
fn processors(found: Found<'_>) -> Vec<Claim> {
    let order = |number| rank_correlation(&both(found, number, 0));
    let [scalar, host] = ["scalar", "host"].map(|of| format!("this CPU, {of}, 1 worker"));
    let alone = [host.as_str(), scalar.as_str()];
    let buffers = found.all("Figure 10, CPU", 2);
    let mean = |is_full: bool| {
        let of = buffers.iter().copied();
        mean(of.filter(|(page, _)| FULL_BUFFERS.contains(page) == is_full))
    };
    vec![
        Claim::new(
            "section 2.1",
            "one instruction for many requests: a request takes fewer in a cohort of 256, times",
            found.at("Table 2", "average of the mix", 2),
            AtLeast(1.0),
            COUNTED,
        ),
        Claim::new(
            "section 1",
            "similar requests executed together have a core answer more, and take less of its time \
             each: the host executor, times one at a time",
            found.ratio(executed::TABLE_3, alone, 0),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "Table 2",
            "pages that take more instructions than others do so here (rank correlation)",
            order("Table 2"),
            AtLeast(0.5),
            NOISE,
        ),
        Claim::new(
            "Table 2",
            "pages that are longer than others are so here (rank correlation)",
            order("Table 2, answers"),
            AtLeast(0.8),
            COUNTED,
        ),
        Claim::new(
            "section 6.1.2, Figure 10",
            "pages that nearly fill their buffers lose less by them, on a CPU: times the others'",
            times(mean(true), mean(false)),
            AtLeast(1.0),
            NOISE,
        ),
    ]
}

/// What a device does, as its layouts do it.
fn devices(found: Found<'_>) -> Vec<Claim> {
    let gpu = |layouts: [&str; 2], column| {
        let layouts = layouts.map(|of| format!("layout {of}"));
        let [one, other] = &layouts;
        found.ratio("Table 3, GPU", [one, other], column)
    };
    let at = |layout: &str, column| found.at("Table 3, GPU", &format!("layout {layout}"), column);
    let better = |column| {
        let [b, c, row] = ["layout b", "layout c", "layout row"]
            .map(|row| found.at("Section 4.3.2", row, column));
        times(b.into_iter().chain(c).reduce(f64::max), row)
    };
    let tail = |layout: &str| times(at(layout, P99), at(layout, LATENCY));
    let slowest = found.all("Table 3, latency", 0);
    let slowest = slowest.first().map(|(_, us)| us / 1e3);
    let mut bus: Vec<f64> = found.all("Figure 9", 2).iter().map(|of| of.1).collect();
    bus.sort_by(f64::total_cmp);
    // Their own watts are 1 and 10 of dynamic power for a core.
    let cores = |column, watts: f64| {
        let cores = found.at("Section 6.2", "layout b", column);
        times(cores.map(|cores| cores * watts), at("b", DYNAMIC_WATTS))
    };
    vec![
        Claim::new(
            "section 4.3.2",
            "threads that share one request perform poorly: the better of layouts b and c, times \
             layout row's throughput",
            better(0),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "section 4.3.2",
            "and, times layout row's dynamic efficiency",
            better(1),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "section 6.1",
            "throughput is had for latency: layout b's, times a CPU's that is idle at most times",
            times(at("b", LATENCY), slowest),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "section 6.1",
            "the 99th percentile hardly differs from the rest: layout b, times its median",
            tail("b"),
            AtMost(SUBSTANTIALLY),
            NOISE,
        ),
        Claim::new(
            "section 6.1",
            "the same of layout c",
            tail("c"),
            AtMost(SUBSTANTIALLY),
            NOISE,
        ),
        Claim::new(
            "section 6.1.1, Figure 9",
            "layout a is limited by the bus: % of its bound, the median page",
            bus.get(bus.len() / 2).copied(),
            AtLeast(LIMITED),
            COUNTED,
        ),
        Claim::new(
            "section 6.1.2",
            "a backend on the device takes that limit away: layout b, times a's throughput",
            gpu(["b", "a"], RATE),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "section 6.1.3",
            "without the transpose it is more: layout c, times b's throughput",
            gpu(["c", "b"], RATE),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "section 6.1.3",
            "and more efficient: layout c, times b's requests per dynamic joule",
            gpu(["c", "b"], PER_DYNAMIC_JOULE),
            AtLeast(1.0),
            NOISE,
        ),
        Claim::new(
            "section 6.2",
            "A9 cores as fast as layout b leave at most 21 % of its power: theirs, times its own",
            cores(0, paper::A9_CORE_WATTS),
            AtLeast(0.79),
            NOISE,
        ),
        Claim::new(
            "section 6.2",
            "and i5 cores at most 10 %",
            cores(2, paper::I5_CORE_WATTS),
            AtLeast(0.9),
            NOISE,
        ),
    ]
}

/// Section 6.4.
fn sizes(found: Found<'_>) -> Vec<Claim> {
    let on_cpu = |[large, small]: [usize; 2]| {
        let rows = [large, small].map(|size| format!("host executor, cohorts of {size}"));
        found.ratio("Section 6.4, CPU", [&rows[0], &rows[1]], 0)
    };
    let on_gpu = |layout: &str, [large, small]: [usize; 2]| {
        let rows = [large, small].map(|size| format!("layout {layout}, cohorts of {size}"));
        found.ratio("Section 6.4, GPU", [&rows[0], &rows[1]], 0)
    };
    let claim = |says: String, figure, bound| Claim::new("section 6.4", says, figure, bound, NOISE);
    let mut all = vec![claim(
        "larger cohorts are better for throughput, on a CPU: of 256, times of 1".to_owned(),
        on_cpu([256, 1]),
        AtLeast(1.0),
    )];
    for layout in ["b", "c"] {
        all.push(claim(
            format!("larger cohorts are better for throughput: layout {layout}, 4096, times 256"),
            on_gpu(layout, [4096, 256]),
            AtLeast(1.0),
        ));
        all.push(claim(
            format!("4096 is large enough: layout {layout}, 16384, times 4096"),
            on_gpu(layout, [16_384, 4096]),
            AtMost(1.25),
        ));
        let row = format!("layout {layout}, {:.0} requests/s", formed::MILLION);
        let share = found.at(formed::NUMBER, &row, formed::FORMATION);
        all.push(claim(
            format!(
                "formation is negligible at a million requests/s: layout {layout}, % of the \
                 latency (simulated)"
            ),
            share,
            AtMost(NEGLIGIBLE),
        ));
    }
    let parsers = found.all("Section 6.4, parser", 0);
    let parser = |is: &dyn Fn(&str) -> bool| {
        let of = parsers.iter().find(|(name, _)| is(name));
        of.map(|(_, millions)| millions * 1e3)
    };
    let host = found.at(executed::TABLE_3, "this CPU, host, 1 worker", 0);
    all.push(claim(
        "the parser is fast enough, on a CPU: times the host executor's throughput".to_owned(),
        times(parser(&|name| name.starts_with("this CPU")), host),
        AtLeast(1.0),
    ));
    let of_lots = |name: &str| name.ends_with("1 at a time, lots of 4096");
    all.push(claim(
        "one parser of lots of 4096 is fast enough: times layout c's throughput".to_owned(),
        times(parser(&of_lots), found.at("Table 3, GPU", "layout c", RATE)),
        AtLeast(1.0),
    ));
    let queues = found.all("Section 6.4, queues", 1);
    all.push(claim(
        "one queue limits throughput: 32, times one".to_owned(),
        (queues.iter())
            .find(|(name, _)| name.ends_with(", 32 queues"))
            .map(|(_, times)| *times),
        AtLeast(1.0),
    ));
    all
}

fn mean<'a>(all: impl Iterator<Item = (&'a str, f64)>) -> Option<f64> {
    let (count, sum) = all.fold((0, 0.0), |(count, sum), (_, of)| (count + 1, sum + of));
    (count > 0).then(|| sum / f64::from(count))
}

/// Spearman's, where there are several pairs: 1 where both are in the same order, -1 where one is
/// in the other's turned round.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    // The mean of the places that equal ones take.
    let ranks = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let rank = |one: f64| {
            let less = pairs.iter().filter(|other| of(other) < one).count();
            let same = pairs.iter().filter(|other| of(other) == one).count();
            less as f64 + (same as f64 - 1.0) / 2.0
        };
        pairs.iter().map(|pair| rank(of(pair))).collect()
    };
    let (one, other) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |one: &[f64], other: &[f64]| -> f64 {
        let both = one.iter().zip(other);
        both.map(|(one, other)| (one - middle) * (other - middle))
            .sum()
    };
    let spread = (product(&one, &one) * product(&other, &other)).sqrt();
    (spread > 0.0).then(|| product(&one, &other) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::{cell, column, ours};
    use rhythm_rpo::report::Kind::Measured;

    #[test]
    fn orders_are_alike_or_turned_round() {
        let of = |other: [f64; 4]| {
            let pairs: Vec<(f64, f64)> = [1.0, 2.0, 3.0, 9.0].into_iter().zip(other).collect();
            rank_correlation(&pairs).expect("there is an order")
        };
        assert_eq!(of([10.0, 11.0, 12.0, 13.0]), 1.0);
        assert_eq!(of([4.0, 3.0, 2.0, -1.0]), -1.0);
        // One pair has changed places: 1 - 6 * 2 / (4 * 15).
        assert!((of([2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-9);
        assert_eq!(rank_correlation(&[(1.0, 2.0)]), None);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0)]), None);
    }

    #[test]
    fn claims_are_decided_by_the_tables_and_open_without_them() {
        let json = |claims: Vec<Claim>| serde_json::to_value(claims).expect("JSON");
        let open = json(of(&[]));
        let open = open.as_array().expect("a list");
        assert!(
            open.iter()
                .all(|claim| claim["verdict"] == "not comparable")
        );
        let mut same = Section::new("Table 2, answers", "x", &[column("KB", Measured)]);
        let mut figures = Section::new("Figure 2", "x", &[column("%", Measured)]);
        for (at, paper) in paper::PAGES.iter().enumerate() {
            same.row(paper.page.name(), vec![cell(paper.kb, paper.kb + 0.1)]);
            figures.row(
                paper.page.name(),
                vec![ours(if at == 1 { 50.0 } else { 90.0 })],
            );
        }
        // It is no page, whatever is in it.
        same.row("average of the mix", vec![cell(1.0, 1e9)]);
        let mut cpu = Section::new(executed::TABLE_3, "x", &[column("rate", Measured)]);
        cpu.row("this CPU, scalar, 1 worker", vec![ours(200.0)]);
        cpu.row("this CPU, host, 1 worker", vec![ours(300.0)]);
        let decided = json(of(&[same, figures, cpu]));
        let decided = decided.as_array().expect("a list");
        let of_words = |words: &str| {
            let is = |claim: &&serde_json::Value| {
                claim["says"]
                    .as_str()
                    .is_some_and(|says| says.contains(words))
            };
            decided.iter().find(is).expect("there is such a claim")
        };
        assert_eq!(of_words("requests for login")["verdict"], "holds");
        assert_eq!(
            of_words("requests for account_summary")["verdict"],
            "differs"
        );
        let together = of_words("executed together");
        assert!(together["figure"] == 1.5 && together["verdict"] == "holds");
        assert_eq!(of_words("pages that are longer")["figure"], 1.0);
        assert_eq!(open.len(), decided.len());
    }
}
