//! An epoch: a site as one pipeline serves it, from one reload to the next.
//!
//! Cohorts under way keep the epoch they began in, so that a reload changes nothing for them.

use crate::observe::metrics::{Count, PageMetrics, WorkerMetrics};
use crate::site::{PageInfo, Site};
use rhythm_engine::program::{Call, PageProgram};
use rhythm_http::HostId;
use rhythm_net::Key;
use std::sync::Arc;

/// Nothing is known of how long a page's answers are.
const UNKNOWN: u64 = u64::MAX;

/// Of what a page's answers are not any more, this part is forgotten with each cohort.
const FORGOTTEN: u64 = 32;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// Which of the sites served one after the other; the first is 1.
    pub(crate) number: u32,
    /// What is served.
    pub(crate) site: Arc<Site>,
    /// Of each page the longest answers of late, in bytes.
    longest: Vec<Count>,
    /// Figures of its pages.
    pub(crate) pages: Vec<Arc<PageMetrics>>,
    /// For each backend of the service, which it is of the pipeline's.
    pub(crate) backends: Vec<Key>,
    /// For each route of a host, that host; `None` where the pipeline was not given it.
    pub(crate) hosts: Vec<Option<HostId>>,
}

impl Epoch {
    /// The epoch of a site whose backends and hosts are these of the pipeline's.
    pub(crate) fn new(
        number: u32,
        site: Arc<Site>,
        backends: Vec<Key>,
        hosts: Vec<Option<HostId>>,
        metrics: &WorkerMetrics,
    ) -> Epoch {
        debug_assert_eq!(backends.len(), site.settings.backends.len());
        let pages = site.service.pages.iter();
        let longest = || {
            let unknown = Count::default();
            unknown.set(UNKNOWN);
            unknown
        };
        Epoch {
            number,
            longest: pages.clone().map(|_| longest()).collect(),
            pages: pages.map(|page| metrics.page(&page.name)).collect(),
            backends,
            hosts,
            site,
        }
    }

    /// A page's program.
    #[inline]
    pub(crate) fn program(&self, page: u32) -> &PageProgram {
        &self.site.service.pages[page as usize]
    }

    /// What is known ahead of a page.
    #[inline]
    pub(crate) fn page(&self, page: u32) -> &PageInfo {
        &self.site.pages[page as usize]
    }

    /// The figures of a page.
    #[inline]
    pub(crate) fn metrics(&self, page: u32) -> &Arc<PageMetrics> {
        &self.pages[page as usize]
    }

    /// How long a page's next answers may be, in bytes: as the longest of late. Of a page that has
    /// not answered yet nothing is known.
    #[inline]
    pub(crate) fn expected(&self, page: u32) -> usize {
        usize::try_from(self.longest[page as usize].get()).unwrap_or(usize::MAX)
    }

    /// A cohort of a page was answered, at most with so many bytes. What is longer counts at once,
    /// and is forgotten bit by bit.
    pub(crate) fn answered(&self, page: u32, bytes: u64) {
        let longest = &self.longest[page as usize];
        let of_late = match longest.get() {
            UNKNOWN => 0,
            known => known - known / FORGOTTEN,
        };
        longest.set(bytes.max(of_late));
    }

    /// The call that the stage before `stage` of a page ended with, if it did.
    pub(crate) fn call_before(&self, page: u32, stage: u32) -> Option<&Call> {
        let program = self.program(page);
        let done = program.stages.get((stage as usize).checked_sub(1)?)?;
        Some(&program.calls[done.call?])
    }
}
