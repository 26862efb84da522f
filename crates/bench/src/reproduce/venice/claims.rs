//! What the paper says that a run decides.

use super::{channels, memory, paper};
use crate::reproduce::section::Section;
use crate::reproduce::verdicts::Bound::{AtLeast, AtMost};
use crate::reproduce::verdicts::{Claim, Found, Known};

/// What a donor's work loses is "negligible": it takes so many times as long at most.
const NEGLIGIBLE: f64 = 1.1;
/// "Performance improves almost linearly with the number of accelerators": what two are worth, in
/// times of one, at least.
const ALMOST_LINEAR: f64 = 1.5;

/// The claims, in the paper's order.
pub(super) fn of(sections: &[Section]) -> Vec<Claim> {
    let found = Found(sections);
    let column = |number, of| found.all(number, of).into_iter();
    // What is compared is no figure of itself.
    let slower = |number| -> Vec<Known> {
        let remote = column(number, 0).filter(|(name, _)| *name != memory::ALL_LOCAL);
        remote.map(|(_, value)| value).collect()
    };
    vec![
        Claim::of_greatest(
            "section 4.1, Figure 3",
            "memory over a commodity link is slow: times all local, at worst",
            &slower("Figure 3"),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 4.2.1, Figure 5",
            "on the chip is faster than off it: PageRank by CRMA",
            found.at("Figure 5, on the chip", "CRMA", 0),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 4.2.2, Figure 6",
            "a router makes CRMA slower by 20 %: PageRank, times without",
            found.at("Figure 6", "CRMA", 0),
            AtLeast(paper::ROUTER_SLOWER),
        ),
        Claim::new(
            "section 7.1, Figure 14",
            "a cache with more remote memory answers sooner: the least memory's time, times the \
             most's",
            column("Figure 14", 0).next().map(|(_, value)| value),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 7.1",
            "a donor's work hardly suffers: times as long as without",
            found.at("Figure 14, donor", "redis's memory is lent", 1),
            AtMost(NEGLIGIBLE),
        ),
        Claim::of_greatest(
            "section 7.1, Figure 15",
            "three quarters of the memory remote cost at most 2.5 times all local, at worst",
            &slower("Figure 15"),
            AtMost(paper::REMOTE_SLOWER.1),
        ),
        Claim::new(
            "section 7.1, Figure 16a",
            "performance improves almost linearly with accelerators: two of a donor, times one",
            found.at("Figure 16a", channels::TWO_REMOTE, 0),
            AtLeast(ALMOST_LINEAR),
        ),
        Claim::new(
            "section 7.1, Figure 16b",
            "packets of 256 bytes use more of three remote NICs than those of 4, times",
            found.at("Figure 16b", "3 remote", 6),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 7.2, Figure 18",
            "credits by CRMA give more bandwidth, both ways over TCP: times, over all sizes",
            found.at("Figure 18", channels::ALL_SIZES, 1),
            AtLeast(1.0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::benched::Row;
    use super::super::latency;
    use super::*;

    /// As `rhythm venice bench` has it, of a machine that is slower in each turn.
    fn row(part: &str, transport: &str, bytes: Option<usize>, what: &str, first: f64) -> Row {
        Row {
            part: part.to_owned(),
            transport: transport.to_owned(),
            bytes,
            what: what.to_owned(),
            turns: vec![first, 1.1 * first, 1.2 * first],
        }
    }

    #[test]
    fn what_is_benched_has_its_claims() {
        let program = |what, first| row("pagerank (Figure 5)", "", None, what, first);
        let programs = [
            program("local", 0.1),
            program("QPair, tcp", 80.0),
            program("CRMA, tcp", 40.0),
            program("CRMA, shared memory", 20.0),
            program("CRMA, relay", 80.0),
        ];
        let fft = |what, first| row("fft (Figure 16a)", "tcp", Some(1 << 18), what, first);
        let accelerators = [
            fft("1 local", 10.0),
            fft("1 remote", 5.0),
            fft("2 remote (paper: almost 2 x)", 9.0),
        ];
        let credits =
            |bytes, what, first| row("both ways (Figure 18)", "tcp", Some(bytes), what, first);
        let credits = [
            credits(4, "credits by messages", 1.0),
            credits(4, "credits by CRMA", 4.0),
            credits(64, "credits by messages", 1.0),
            credits(64, "credits by CRMA", 1.0),
        ];
        let sections = [
            latency::by_channel(&programs),
            latency::by_place(&programs),
            latency::by_relay(&programs),
            channels::by_accelerators(&accelerators),
            channels::by_credits(&credits),
        ];
        let told = serde_json::to_value(of(&sections)).expect("claims");
        let told = told.as_array().expect("a list").iter();
        let told: Vec<_> = told
            .filter_map(|claim| {
                let at = claim["at"].as_str()?.rsplit(' ').next()?;
                Some((at, claim["figure"].as_f64()?, claim["verdict"].as_str()?))
            })
            .collect();
        let figures = ["5", "6", "16a", "18"];
        assert_eq!(told.len(), figures.len(), "{told:?}");
        for ((told, figure), ours) in told.iter().zip(figures).zip([2.0, 2.0, 1.8, 2.0]) {
            assert_eq!((told.0, told.2), (figure, "holds"), "{told:?}");
            assert!((told.1 - ours).abs() < 1e-9, "{told:?}");
        }
    }
}
