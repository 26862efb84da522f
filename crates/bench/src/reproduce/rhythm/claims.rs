//! What the paper says that a run decides: its claims, each with the figure of ours that is beside
//! it.

use super::{executed, formed, paper};
use crate::reproduce::section::Section;
use crate::reproduce::verdicts::Bound::{AtLeast, AtMost};
use crate::reproduce::verdicts::{Claim, Found, Known, in_row, times};
use rhythm_rpo::report::Cell;

/// "Nearly linear speedup" is so many percent of ideal at least.
const NEARLY_LINEAR: f64 = 75.0;
/// Titan A, which reaches 83 to 95 % of what the bus carries, "is primarily limited" by it: so many
/// percent at least.
const LIMITED: f64 = 75.0;
/// The 99th percentile "did not differ substantially" from the mean: it is 7 to 40 % more (section
/// 6.1).
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

/// Both figures of a column's rows that have the paper's and ours, of its pages alone.
fn both(found: Found<'_>, number: &str, column: usize) -> Vec<(f64, Known)> {
    let tables = found.0.iter().map(|of| &of.table);
    let tables = tables.filter(|of| of.number == number);
    let rows = tables.flat_map(|of| of.rows.iter().map(move |row| (of, row)));
    let pages = rows.filter(|(_, row)| is_page(&row.name));
    let both = pages.filter_map(|(of, row)| match row.cells.get(column)? {
        Cell::Number { paper, .. } => paper.zip(in_row(of, row, column)),
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
        )
    };
    paper::PAGES.iter().map(of_page).collect()
}

/// What cohorts are worth on a processor, and what pages cost beside each other.
fn processors(found: Found<'_>) -> Vec<Claim> {
    let order = |number| rank_correlation(&both(found, number, 0));
    let [scalar, host] = ["scalar", "host"].map(|of| format!("this CPU, {of}, 1 worker"));
    let alone = [host.as_str(), scalar.as_str()];
    let instructions = |column| found.at("Table 2", "average of the mix", column);
    let buffers = found.all("Figure 10, CPU", 2);
    let mean = |is_full: bool| {
        let of = buffers.iter().copied();
        mean(of.filter(|(page, _)| FULL_BUFFERS.contains(page) == is_full))
    };
    vec![
        Claim::new(
            "section 2.1",
            "one instruction for many requests: a request takes fewer in a cohort of 256, times",
            times(instructions(0), instructions(1)),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 1",
            "similar requests executed together have a core answer more, and take less of its time \
             each: the host executor, times one at a time",
            found.ratio(executed::TABLE_3, alone, 0),
            AtLeast(1.0),
        ),
        Claim::new(
            "Table 2",
            "pages that take more instructions than others do so here (rank correlation)",
            order("Table 2"),
            AtLeast(0.5),
        ),
        Claim::new(
            "Table 2",
            "pages that are longer than others are so here (rank correlation)",
            order("Table 2, answers"),
            AtLeast(0.8),
        ),
        Claim::new(
            "section 6.1.2, Figure 10",
            "pages that nearly fill their buffers lose less by them, on a CPU: times the others'",
            times(mean(true), mean(false)),
            AtLeast(1.0),
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
        let columns = b.into_iter().chain(c);
        let better = columns.max_by(|one, other| one.figure.total_cmp(&other.figure));
        times(better, row)
    };
    // At the highest rate that it keeps up with: there is no latency at another.
    let tail = |layout: &str| {
        let layout = format!("layout {layout}, ");
        let of = |column| found.all(formed::NUMBER, column).into_iter();
        let is_its = |(row, _): &(&str, Known)| row.starts_with(&layout);
        let last = |column| of(column).rfind(is_its).map(|(_, of)| of);
        times(last(formed::P99), last(formed::MEAN))
    };
    let slowest = found.all("Table 3, latency", 0);
    let slowest = slowest.first().map(|(_, us)| us.scaled(1e-3));
    let mut bus: Vec<Known> = found.all("Figure 9", 2).iter().map(|of| of.1).collect();
    bus.sort_by(|one, other| one.figure.total_cmp(&other.figure));
    // Their own watts are 1 and 10 of dynamic power for a core.
    let cores = |column, watts: f64| {
        let cores = found.at("Section 6.2", "layout b", column);
        times(
            cores.map(|cores| cores.scaled(watts)),
            at("b", DYNAMIC_WATTS),
        )
    };
    vec![
        Claim::new(
            "section 4.3.2",
            "threads that share one request perform poorly: the better of layouts b and c, times \
             layout row's throughput",
            better(0),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 4.3.2",
            "and, times layout row's dynamic efficiency",
            better(1),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 6.1",
            "throughput is had for latency: layout b's, times a CPU's that is idle at most times",
            times(at("b", LATENCY), slowest),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 6.1",
            "the 99th percentile hardly differs from the mean, at the highest rate kept up with: \
             layout b's, times its mean (simulated)",
            tail("b"),
            AtMost(SUBSTANTIALLY),
        ),
        Claim::new(
            "section 6.1",
            "and layout c's (simulated)",
            tail("c"),
            AtMost(SUBSTANTIALLY),
        ),
        Claim::new(
            "section 6.1.1, Figure 9",
            "layout a is limited by the bus: % of its bound, the median page",
            bus.get(bus.len() / 2).copied(),
            AtLeast(LIMITED),
        ),
        Claim::new(
            "section 6.1.2",
            "a backend on the device takes that limit away: layout b, times a's throughput",
            gpu(["b", "a"], RATE),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 6.1.3",
            "without the transpose it is more: layout c, times b's throughput",
            gpu(["c", "b"], RATE),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 6.1.3",
            "and more efficient: layout c, times b's requests per dynamic joule",
            gpu(["c", "b"], PER_DYNAMIC_JOULE),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 6.2",
            "A9 cores as fast as layout b leave at most 21 % of its power: theirs, times its own",
            cores(0, paper::A9_CORE_WATTS),
            AtLeast(0.79),
        ),
        Claim::new(
            "section 6.2",
            "and i5 cores at most 10 %",
            cores(2, paper::I5_CORE_WATTS),
            AtLeast(0.9),
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
    let claim = |says: String, known, bound| Claim::new("section 6.4", says, known, bound);
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
        of.map(|(_, millions)| millions.scaled(1e3))
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

fn mean<'a>(all: impl Iterator<Item = (&'a str, Known)>) -> Option<Known> {
    let all: Vec<Known> = all.map(|(_, of)| of).collect();
    let sum: f64 = all.iter().map(|of| of.figure).sum();
    (!all.is_empty()).then(|| Known::from_all(sum / all.len() as f64, &all))
}

/// Spearman's, where there are several pairs: 1 where both are in the same order, -1 where one is
/// in the other's turned round.
fn rank_correlation(both: &[(f64, Known)]) -> Option<Known> {
    let pairs: Vec<(f64, f64)> = both.iter().map(|(paper, of)| (*paper, of.figure)).collect();
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
    let known: Vec<Known> = both.iter().map(|(_, of)| *of).collect();
    (spread > 0.0).then(|| Known::from_all(product(&one, &other) / spread, &known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::{cell, column, ours};
    use rhythm_rpo::report::Kind::{Counted, Measured, Simulated};

    #[test]
    fn orders_are_alike_or_turned_round() {
        let of = |other: [f64; 4]| {
            let known = other.map(|of| Known::new(of, Counted));
            let pairs: Vec<_> = [1.0, 2.0, 3.0, 9.0].into_iter().zip(known).collect();
            let order = rank_correlation(&pairs).expect("there is an order");
            assert_eq!(order, Known::new(order.figure, Counted));
            order.figure
        };
        assert_eq!(of([10.0, 11.0, 12.0, 13.0]), 1.0);
        assert_eq!(of([4.0, 3.0, 2.0, -1.0]), -1.0);
        // One pair has changed places: 1 - 6 * 2 / (4 * 15).
        assert!((of([2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-9);
        let same = Known::new(2.0, Measured);
        assert_eq!(rank_correlation(&[(1.0, same)]), None);
        assert_eq!(rank_correlation(&[(1.0, same), (2.0, same)]), None);
    }

    fn json(claims: Vec<Claim>) -> Vec<serde_json::Value> {
        let json = serde_json::to_value(claims).expect("JSON");
        json.as_array().expect("a list").clone()
    }

    fn of_words<'a>(claims: &'a [serde_json::Value], words: &str) -> &'a serde_json::Value {
        let is = |claim: &&serde_json::Value| {
            let says = claim["says"].as_str();
            says.is_some_and(|says| says.contains(words))
        };
        claims.iter().find(is).expect("there is such a claim")
    }

    #[test]
    fn claims_are_decided_by_the_tables_and_open_without_them() {
        let open = json(of(&[]));
        assert!(open.iter().all(|claim| claim["verdict"] == "absent"));
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
        let of_words = |words| of_words(&decided, words);
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

    #[test]
    fn the_bus_limits_by_more_than_runs_differ() {
        let of = |share: f64| {
            let columns = ["rate", "bound", "% of the bound"].map(|of| column(of, Measured));
            let mut bus = Section::new("Figure 9", "x", &columns);
            for (page, share) in [("login", 10.0), ("logout", share), ("transfer", 99.0)] {
                bus.row(page, vec![ours(1.0), ours(1.0), ours(share)]);
            }
            of_words(&json(of(&[bus])), "limited by the bus")["verdict"].clone()
        };
        assert_eq!(of(LIMITED * 1.1), "undecided");
        assert_eq!(of(LIMITED * 1.2), "holds");
    }

    #[test]
    fn the_99th_percentile_is_beside_the_mean_under_load() {
        let columns = ["mean, ms", "p99, ms"].map(|of| column(of, Simulated));
        let mut loaded = Section::new(formed::NUMBER, "x", &columns);
        for (row, figures) in [
            ("layout b, 1 requests/s", [Some(2.0), Some(2.0)]),
            ("layout b, 2 requests/s", [Some(2.0), Some(6.0)]),
            ("layout b, 3 requests/s", [None, None]),
            ("layout c, 1 requests/s", [Some(2.0), Some(2.2)]),
        ] {
            loaded.row(row, figures.map(ours).into());
        }
        // A cohort that is alone on the card says nothing of it.
        let columns = ["a", "b", "c", "d", "e", "latency, ms", "p99, ms"];
        let mut alone = Section::new("Table 3, GPU", "x", &columns.map(|of| column(of, Measured)));
        alone.row("layout b", [1.0; 7].map(ours).into());
        let claims = json(of(&[alone, loaded]));
        let of_layout = |words| {
            let claim = of_words(&claims, words);
            (claim["figure"].as_f64(), claim["verdict"].clone())
        };
        assert_eq!(of_layout("hardly differs"), (Some(3.0), "differs".into()));
        assert_eq!(of_layout("and layout c's"), (Some(1.1), "holds".into()));
    }
}
