//! The paper's own figures (*Rhythm*, ASPLOS 2014), as data.

use crate::load::Page;

/// A page of Table 2.
pub(super) struct PaperPage {
    pub(super) page: Page,
    /// x86 instructions a request of the C server.
    pub(super) instructions: f64,
    /// KB of the answer as SPECweb has it.
    pub(super) kb: f64,
    /// KB of the buffer: the next power of two.
    pub(super) buffer_kb: f64,
    pub(super) percent: f64,
}

const fn page(page: Page, instructions: f64, kb: f64, buffer_kb: f64, percent: f64) -> PaperPage {
    PaperPage {
        page,
        instructions,
        kb,
        buffer_kb,
        percent,
    }
}

/// Table 2.
pub(super) const PAGES: [PaperPage; 14] = [
    page(Page::Login, 132_401.0, 4.0, 8.0, 28.17),
    page(Page::AccountSummary, 392_243.0, 17.0, 32.0, 19.77),
    page(Page::AddPayee, 335_605.0, 18.0, 32.0, 1.47),
    page(Page::BillPay, 334_105.0, 15.0, 32.0, 18.18),
    page(Page::BillPayStatusOutput, 485_176.0, 24.0, 32.0, 2.92),
    page(Page::ChangeProfile, 560_505.0, 29.0, 32.0, 1.60),
    page(Page::CheckDetailHtml, 240_615.0, 11.0, 16.0, 11.06),
    page(Page::OrderCheck, 433_352.0, 21.0, 32.0, 1.60),
    page(Page::PlaceCheckOrder, 466_283.0, 25.0, 32.0, 1.15),
    page(Page::PostPayee, 638_598.0, 34.0, 64.0, 1.05),
    page(Page::PostTransfer, 334_267.0, 16.0, 32.0, 1.60),
    page(Page::Profile, 590_816.0, 32.0, 64.0, 1.15),
    page(Page::Transfer, 277_235.0, 13.0, 16.0, 2.24),
    page(Page::Logout, 792_684.0, 46.0, 64.0, 8.06),
];
/// Its last row.
pub(super) const INSTRUCTIONS_MEAN: f64 = 429_563.0;
pub(super) const KB_MEAN: f64 = 15.5;
pub(super) const BUFFER_KB_MEAN: f64 = 26.4;
/// Section 2.3.
pub(super) const INSTRUCTIONS_A_SYSTEM_CALL: f64 = 33_000.0;

/// A platform of Table 3.
pub(super) struct Platform {
    pub(super) name: &'static str,
    pub(super) wall_watts: f64,
    pub(super) dynamic_watts: f64,
    pub(super) latency_ms: f64,
    pub(super) kreq_per_s: f64,
    pub(super) per_wall_joule: f64,
    pub(super) per_dynamic_joule: f64,
}

const fn platform(name: &'static str, watts: [f64; 2], ms: f64, rates: [f64; 3]) -> Platform {
    Platform {
        name,
        wall_watts: watts[0],
        dynamic_watts: watts[1],
        latency_ms: ms,
        kreq_per_s: rates[0],
        per_wall_joule: rates[1],
        per_dynamic_joule: rates[2],
    }
}

/// Table 3.
pub(super) const PLATFORMS: [Platform; 9] = [
    platform(
        "Core i5, 1 worker",
        [67.0, 20.0],
        0.016,
        [75.0, 972.0, 3283.0],
    ),
    platform(
        "Core i5, 4 workers",
        [98.0, 51.0],
        0.016,
        [282.0, 2447.0, 4712.0],
    ),
    platform(
        "Core i7, 4 workers",
        [147.0, 102.0],
        0.014,
        [331.0, 1901.0, 2735.0],
    ),
    platform(
        "Core i7, 8 workers",
        [156.0, 111.0],
        0.014,
        [377.0, 2042.0, 2873.0],
    ),
    platform("ARM A9, 1 worker", [3.4, 1.4], 0.176, [8.0, 1672.0, 4061.0]),
    platform(
        "ARM A9, 2 workers",
        [4.5, 2.5],
        0.176,
        [16.0, 2683.0, 4830.0],
    ),
    platform("Titan A", [226.0, 152.0], 86.0, [398.0, 1469.0, 2193.0]),
    platform("Titan B", [306.0, 232.0], 24.0, [1535.0, 3329.0, 4410.0]),
    platform("Titan C", [285.0, 211.0], 10.0, [3082.0, 9070.0, 12264.0]),
];

/// What throughput is told in times of (section 6.1).
pub(super) const I7: &Platform = &PLATFORMS[3];
/// What efficiency is told in times of.
pub(super) const A9: &Platform = &PLATFORMS[5];
/// One thread of each, which section 6.2 scales.
pub(super) const I5_CORE: &Platform = &PLATFORMS[0];
pub(super) const A9_CORE: &Platform = &PLATFORMS[4];
/// What stands beside layouts a, b and c.
pub(super) fn titan(layout: &str) -> Option<&'static Platform> {
    match layout {
        "a" => Some(&PLATFORMS[6]),
        "b" => Some(&PLATFORMS[7]),
        "c" => Some(&PLATFORMS[8]),
        _ => None,
    }
}

/// Dynamic watts of a core (section 6.2).
pub(super) const A9_CORE_WATTS: f64 = 1.0;
pub(super) const I5_CORE_WATTS: f64 = 10.0;
/// Cores of the A9 and of the i5 that match Titan B and C, as the paper says them.
pub(super) const CORES: [(&str, f64, f64); 2] = [("b", 192.0, 21.0), ("c", 385.0, 41.0)];
/// Watts that are left beside Titan B, for the A9's and for the i5's uncore.
pub(super) const WATTS_LEFT: [f64; 2] = [40.0, 22.0];
/// Gbit/s that Titan A, B and C need (section 6.3).
pub(super) const GBIT_S: [(&str, f64); 3] = [("a", 67.0), ("b", 258.0), ("c", 517.0)];
/// KB of a request, of a backend's request and of its answer (section 6.3).
pub(super) const REQUEST_KB: f64 = 0.5;
pub(super) const BACKEND_KB: f64 = 1.0 + 4.0;
/// GB/s of PCIe 3.0 and 4.0, and what the paper projects of the latter (section 6.1.1).
pub(super) const PCIE_GB_S: [(&str, f64); 2] = [("PCIe 3.0", 12.0), ("PCIe 4.0", 24.0)];
pub(super) const PCIE_4_KREQ_S: f64 = 864.0;
/// KB that cross to the host for a request: its page's buffer and 1.2 requests of its backend.
pub(super) const TO_HOST_KB: f64 = BUFFER_KB_MEAN + 1.2;
/// Bytes of a session, sessions, and cohorts in flight, of so many requests (section 6.3).
pub(super) const SESSION_BYTES: f64 = 40.0;
pub(super) const SESSIONS: f64 = 16e6;
pub(super) const IN_FLIGHT: f64 = 8.0;
pub(super) const COHORT: f64 = 4096.0;
/// The parser, of a mixed trace (section 6.4): microseconds a cohort, million requests a second.
pub(super) const PARSER_US: f64 = 556.0;
pub(super) const PARSER_M_S: f64 = 7.4;

/// The mean over the paper's pages by their shares.
pub(super) fn mean(of: impl Fn(&PaperPage) -> Option<f64>) -> Option<f64> {
    let whole: f64 = PAGES.iter().map(|page| page.percent).sum();
    let sum: Option<f64> = (PAGES.iter())
        .map(|page| of(page).map(|value| value * page.percent))
        .sum();
    sum.map(|sum| sum / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulate::{TABLE_3, mix14};

    #[test]
    fn the_papers_tables_agree_with_themselves_and_with_the_emulations() {
        for page in &PAGES {
            assert_eq!(page.percent, mix14(page.page), "{}", page.page.name());
            // What a page is put into is a power of two, some larger than they need be.
            assert!(page.buffer_kb > page.kb);
            assert!((page.buffer_kb as u64).is_power_of_two());
        }
        let kb = mean(|page| Some(page.kb)).expect("all are there");
        assert!((kb - KB_MEAN).abs() < 0.6, "{kb}");
        for (platform, row) in PLATFORMS.iter().zip(TABLE_3) {
            assert_eq!(platform.name, row.platform);
            assert_eq!(platform.kreq_per_s, row.kreq_per_s);
            assert_eq!(platform.latency_ms, row.latency_ms);
            assert_eq!(platform.per_dynamic_joule, row.req_per_joule);
        }
        let cores = |layout: &str| titan(layout).expect("one of three").kreq_per_s;
        for (layout, a9, i5) in CORES {
            assert!((cores(layout) / A9_CORE.kreq_per_s - a9).abs() < 1.0);
            assert!((cores(layout) / I5_CORE.kreq_per_s - i5).abs() < 1.0);
        }
    }
}
