//! The epochs of all sites that one pipeline serves now: one of each, in the order of the sites.

use crate::site::epoch::Epoch;
use crate::site::sites::Sites;
use rhythm_http::{Incoming, RequestLimits};
use std::sync::Arc;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Epochs {
    sites: Arc<Sites>,
    all: Vec<Arc<Epoch>>,
    /// Of the epoch that was made last: no two have the same.
    last: u32,
}

impl Epochs {
    /// The first of these sites, each of which `make` makes, given its index and its number.
    pub(crate) fn new(sites: Arc<Sites>, mut make: impl FnMut(usize, u32) -> Epoch) -> Epochs {
        let mut last = 0;
        let all = (0..sites.all().len()).map(|index| {
            last += 1;
            Arc::new(make(index, last))
        });
        Epochs {
            all: all.collect(),
            sites,
            last,
        }
    }

    /// These sites are served from now on: `make` makes the epochs of those that are others than
    /// before, given the one before and a number.
    pub(crate) fn replace(
        &mut self,
        sites: Arc<Sites>,
        mut make: impl FnMut(&Arc<Epoch>, u32) -> Epoch,
    ) {
        for (epoch, site) in self.all.iter_mut().zip(sites.all()) {
            if !Arc::ptr_eq(&epoch.site, site) {
                self.last = self.last.wrapping_add(1);
                *epoch = Arc::new(make(epoch, self.last));
            }
        }
        self.sites = sites;
    }

    /// Limits of requests, whichever site they are for.
    #[inline]
    pub(crate) fn limits(&self) -> &RequestLimits {
        self.sites.limits()
    }

    /// That of the site which a request is for, if it is known and there is one.
    #[inline]
    pub(crate) fn of(&self, request: Incoming<'_>) -> Option<&Arc<Epoch>> {
        self.sites.of(request).map(|index| &self.all[index])
    }

    /// That of the site which answers for a connection of whose request hardly anything is known.
    pub(crate) fn of_part(&self, part: Option<Incoming<'_>>) -> Option<&Arc<Epoch>> {
        match (part, &self.all[..]) {
            (_, [only]) => Some(only),
            // Without a name it may be anybody's.
            (Some(part), _) if part.head.host().of(part.bytes) != b"" => self.of(part),
            _ => None,
        }
    }

    /// Those of all sites.
    pub(crate) fn all(&self) -> &[Arc<Epoch>] {
        &self.all
    }

    /// Whether one of them has this number: requests belong to it now.
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        self.all.iter().any(|epoch| epoch.number == number)
    }
}
