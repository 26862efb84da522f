//! What the paper says that its model decides.

use crate::reproduce::verdicts::Bound::{AtLeast, AtMost};
use crate::reproduce::verdicts::{Claim, known, times};
use rhythm_rpo::report::Table;

/// The column of response times.
const RESPONSE: usize = 1;
/// "Performs almost as well as the best observed policy": at worst it is 56.3 ms beside 50.0.
const ALMOST: f64 = 1.2;

/// The claims, in the paper's order.
pub(super) fn of(tables: &[Table]) -> Vec<Claim> {
    // One setting's response time in times of another's.
    let ratio = |number: &str, case: &str, [one, other]: [&str; 2]| {
        let of = |who: &str| known(tables.iter(), number, &format!("{case}, {who}"), RESPONSE);
        times(of(one), of(other))
    };
    let mut all = vec![
        Claim::new(
            "section II, Table I",
            "all threads answer browsing sooner: R of NOHT, times HT's, 1.6 GHz".to_owned(),
            ratio("I", "browsing, 1.6 GHz", ["NOHT", "HT"]),
            AtLeast(1.0),
        ),
        Claim::new(
            "section II, Table II",
            "one a core answers ordering sooner: R of HT, times NOHT's, 2.133 GHz".to_owned(),
            ratio("II", "ordering, 2.133 GHz", ["HT", "NOHT"]),
            AtLeast(1.0),
        ),
        Claim::new(
            "section IV-A, Table VI",
            "RPO is almost as good as the best setting of browsing: its R, times HT's".to_owned(),
            ratio("VI", "browsing, 1.6 GHz", ["RPO", "HT"]),
            AtMost(ALMOST),
        ),
        Claim::new(
            "section IV-A, Table VI",
            "and of ordering: its R, times NOHT's".to_owned(),
            ratio("VI", "ordering, 2.133 GHz", ["RPO", "NOHT"]),
            AtMost(ALMOST),
        ),
    ];
    for (number, at, case) in [
        ("IX", "section IV-B1, Table IX", "S(0)"),
        ("IX", "section IV-B1, Table IX", "S(0) 0.03 s"),
        ("X", "section IV-B2, Table X", "S(5)"),
        ("X", "section IV-B2, Table X", "S(15)"),
        ("X", "section IV-B2, Table X", "S(50)"),
    ] {
        for other in ["HT", "NOHT"] {
            all.push(Claim::new(
                at,
                format!("RPO answers {case} sooner than either setting: R of {other}, times RPO's"),
                ratio(number, &format!("{case}, 1.6 GHz"), [other, "RPO"]),
                AtLeast(1.0),
            ));
        }
    }
    all.push(Claim::new(
        "section IV-D, Table XIV",
        "batches of one are bad: their R, times that of 20".to_owned(),
        ratio("XIV", "S(50), 1.6 GHz", ["RPO, b = 1", "RPO"]),
        AtLeast(1.0),
    ));
    all
}
