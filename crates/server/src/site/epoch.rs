//! An epoch: a site as one pipeline serves it, from one reload to the next.
//!
//! Cohorts under way keep the epoch they began in, so that a reload changes nothing for them.

use crate::observe::metrics::{PageMetrics, SiteMetrics};
use crate::site::sizes::Sizes;
use crate::site::{PageInfo, Site};
use rhythm_engine::program::{Call, PageProgram};
use rhythm_http::HostId;
use rhythm_net::Key;
use std::collections::HashMap;
use std::sync::Arc;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Epoch {
    /// Which it is of all epochs, of whichever site; the first is 1.
    pub(crate) number: u32,
    /// Which its site is of those that are served beside each other.
    pub(crate) index: usize,
    /// What is served.
    pub(crate) site: Arc<Site>,
    /// How large the answers of its pages are.
    sizes: Vec<Sizes>,
    /// Figures of its pages.
    pub(crate) pages: Vec<Arc<PageMetrics>>,
    /// For each backend of the service, which it is of the pipeline's.
    pub(crate) backends: Vec<Key>,
    /// Some of them are told where requests come from.
    tells_backends: bool,
    /// For each route of a host, that host.
    pub(crate) hosts: Vec<HostId>,
    /// For each route to other servers, its number in the pipeline's proxy.
    pub(crate) proxies: Vec<u32>,
}

impl Epoch {
    /// The epoch of a site whose backends and hosts are these of the pipeline's, the backends with
    /// whether some are told where requests come from. Of the epoch before it keeps what is known
    /// of pages of the same names: most are as they were.
    pub(crate) fn new(
        number: u32,
        index: usize,
        site: Arc<Site>,
        before: Option<&Epoch>,
        (backends, tells_backends): (Vec<Key>, bool),
        (hosts, proxies): (Vec<HostId>, Vec<u32>),
        metrics: &SiteMetrics,
    ) -> Epoch {
        debug_assert_eq!(backends.len(), site.settings.backends.len());
        let pages = || site.service.pages.iter();
        let known: HashMap<&str, &Sizes> = (before.into_iter())
            .flat_map(|before| before.site.service.pages.iter().zip(&before.sizes))
            .map(|(page, sizes)| (page.name.as_str(), sizes))
            .collect();
        let sizes = |page: &PageProgram| {
            let unknown = Sizes::unknown(&site.service, !page.calls.is_empty());
            match known.get(page.name.as_str()) {
                Some(sizes) => unknown.known_as(sizes),
                None => unknown,
            }
        };
        Epoch {
            number,
            index,
            sizes: pages().map(sizes).collect(),
            pages: pages().map(|page| metrics.page(&page.name)).collect(),
            backends,
            tells_backends,
            hosts,
            proxies,
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

    /// Whether other servers may be told where a page's requests come from: a backend, or one that
    /// they are passed on to.
    #[inline]
    pub(crate) fn tells_others(&self, page: u32) -> bool {
        self.tells_backends || self.page(page).falls_through
    }

    /// The figures of a page.
    #[inline]
    pub(crate) fn metrics(&self, page: u32) -> &Arc<PageMetrics> {
        &self.pages[page as usize]
    }

    /// How large a page's answers are.
    #[inline]
    pub(crate) fn sizes(&self, page: u32) -> &Sizes {
        &self.sizes[page as usize]
    }

    /// The call that the stage before `stage` of a page ended with, if it did.
    pub(crate) fn call_before(&self, page: u32, stage: u32) -> Option<&Call> {
        let program = self.program(page);
        let done = program.stages.get((stage as usize).checked_sub(1)?)?;
        Some(&program.calls[done.call?])
    }

    /// How many of a page's calls before that one ask the same backend.
    pub(crate) fn calls_before(&self, page: u32, stage: u32) -> u32 {
        let backend = self.call_before(page, stage).map(|call| call.backend);
        let before = (1..stage).filter_map(|stage| self.call_before(page, stage));
        before.filter(|call| Some(call.backend) == backend).count() as u32
    }
}
