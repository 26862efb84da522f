//! What the paper says that a run decides.

use super::{channels, paper};
use crate::reproduce::section::Section;
use crate::reproduce::verdicts::Bound::{AtLeast, AtMost};
use crate::reproduce::verdicts::{Claim, Found, Known, times};

/// What a donor's work loses is "negligible": it takes so many times as long at most.
const NEGLIGIBLE: f64 = 1.1;
/// "Performance improves almost linearly with the number of accelerators": what two are worth, in
/// times of one, at least.
const ALMOST_LINEAR: f64 = 1.5;

/// The claims, in the paper's order.
pub(super) fn of(sections: &[Section]) -> Vec<Claim> {
    let found = Found(sections);
    let column = |number, of| found.all(number, of).into_iter().map(|(_, value)| value);
    let most =
        |number, of| column(number, of).max_by(|one, other| one.figure.total_cmp(&other.figure));
    let cache: Vec<Known> = column("Figure 14", 2).collect();
    vec![
        Claim::new(
            "section 4.1, Figure 3",
            "memory over a commodity link is slow: times all local, at worst",
            most("Figure 3", 0),
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
            times(cache.first().copied(), cache.last().copied()),
            AtLeast(1.0),
        ),
        Claim::new(
            "section 7.1",
            "a donor's work hardly suffers: times as long as without",
            found.at("Figure 14, donor", "redis's memory is lent", 1),
            AtMost(NEGLIGIBLE),
        ),
        Claim::new(
            "section 7.1, Figure 15",
            "three quarters of the memory remote cost at most 2.5 times all local, at worst",
            most("Figure 15", 0),
            AtMost(paper::REMOTE_SLOWER.1),
        ),
        Claim::new(
            "section 7.1, Figure 16a",
            "performance improves almost linearly with accelerators: two of a donor, times one",
            found.ratio("Figure 16a", ["2 remote", "1 remote"], 0),
            AtLeast(ALMOST_LINEAR),
        ),
        Claim::new(
            "section 7.1, Figure 16b",
            "packets of 256 bytes use more of three remote NICs than those of 4, times",
            times(
                found.at("Figure 16b", "3 remote", 1),
                found.at("Figure 16b", "3 remote", 0),
            ),
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
