//! Sites: all that one server serves, and which of them a request is for, by the name of its host
//! (RFC 9110, section 7.2).
//!
//! A site has names, or answers for all that no other has. They are compared as the DNS does, in
//! any case of letters and with a dot at the end or without; ports do not matter. A name that
//! begins with `*.` is every name below the rest: of several the longest, and before all the name
//! itself. A server of one site that has no names looks at none.

use crate::site::Site;
use rhythm_engine::settings::HOST_NAME_MAX;
use rhythm_http::{Incoming, RequestLimits};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// See the module's text.
#[derive(Debug)]
pub struct Sites {
    all: Vec<Arc<Site>>,
    /// There is one, for whatever name.
    is_one: bool,
    /// The site of a name, in lower case.
    by_name: HashMap<Box<[u8]>, usize>,
    /// The site of all names that end so, from the dot on.
    by_ending: HashMap<Box<[u8]>, usize>,
    /// The site of all other names.
    others: Option<usize>,
    limits: RequestLimits,
}

impl From<Arc<Site>> for Sites {
    fn from(site: Arc<Site>) -> Sites {
        Sites::new(vec![site]).expect("one site has nobody to be taken for")
    }
}

impl Sites {
    /// Those of one server, in an order in which a reload gives them, too.
    ///
    /// # Errors
    /// Two cannot be told apart, in words; or there is none.
    pub fn new(all: Vec<Arc<Site>>) -> Result<Sites, String> {
        let (mut by_name, mut by_ending, mut others) = (HashMap::new(), HashMap::new(), None);
        let shown = |index: usize| {
            let Site {
                settings, service, ..
            } = &*all[index];
            (settings.label.as_deref()).unwrap_or(&service.config.service.name)
        };
        for (index, site) in all.iter().enumerate() {
            for name in &site.settings.names {
                let (table, key) = match name.strip_prefix('*') {
                    Some(ending) => (&mut by_ending, ending),
                    None => (&mut by_name, name.as_str()),
                };
                match table.entry(key.as_bytes().into()) {
                    Entry::Vacant(free) => drop(free.insert(index)),
                    Entry::Occupied(taken) => {
                        let before = shown(*taken.get());
                        return Err(format!(
                            "the services {before} and {} both have the host {name}: leave it out \
                             of `host` of [service] in one of them",
                            shown(index)
                        ));
                    }
                }
            }
            if site.settings.names.is_empty()
                && let Some(before) = others.replace(index)
            {
                return Err(format!(
                    "neither of the services {} and {} has a host: say which names are whose, by \
                     `host = \"...\"` in [service]; one may be without, and has all others",
                    shown(before),
                    shown(index)
                ));
            }
        }
        if all.is_empty() {
            return Err("there is no service".to_owned());
        }
        let limits = all.iter().map(|site| site.request_limits);
        let limits = limits.reduce(widest).unwrap_or_default();
        Ok(Sites {
            is_one: all.len() == 1 && others.is_some(),
            all,
            by_name,
            by_ending,
            others,
            limits,
        })
    }

    /// All of them.
    pub fn all(&self) -> &[Arc<Site>] {
        &self.all
    }

    /// The first: what is the whole server's is the same in all.
    pub fn first(&self) -> &Arc<Site> {
        &self.all[0]
    }

    /// Limits of requests, whichever site they are for: that is known once their heads are.
    pub(crate) fn limits(&self) -> &RequestLimits {
        &self.limits
    }

    /// The index of the site that a request is for; of one whose head is not all there, too. `None`
    /// where there is no such site, or it is not known yet.
    #[inline]
    pub(crate) fn of(&self, request: Incoming<'_>) -> Option<usize> {
        match self.is_one {
            true => Some(0),
            false => self.find(request.head.host().of(request.bytes)),
        }
    }

    /// The index of the site of a host, which may have a port.
    fn find(&self, host: &[u8]) -> Option<usize> {
        let mut lower = [0; HOST_NAME_MAX];
        let name = bare(host);
        // A longer one is nobody's own.
        let Some(lower) = lower.get_mut(..name.len()) else {
            return self.others;
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let lower = &*lower;
        if let Some(site) = self.by_name.get(lower) {
            return Some(*site);
        }
        if !self.by_ending.is_empty() {
            let found = memchr::memchr_iter(b'.', lower)
                .filter(|dot| *dot > 0)
                .find_map(|dot| self.by_ending.get(&lower[dot..]));
            if let Some(site) = found {
                return Some(*site);
            }
        }
        self.others
    }
}

/// A host without port and without the dot at its end.
fn bare(host: &[u8]) -> &[u8] {
    let name = without_port(host);
    name.strip_suffix(b".").unwrap_or(name)
}

/// A host's name or address alone.
pub(crate) fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => memchr::memchr(b']', host).map(|at| at + 1),
        _ => memchr::memchr(b':', host),
    };
    &host[..end.unwrap_or(host.len())]
}

/// What either takes.
fn widest(mut one: RequestLimits, other: RequestLimits) -> RequestLimits {
    let (head, of_other) = (&mut one.head, other.head);
    head.head_max = head.head_max.max(of_other.head_max);
    head.target_max = head.target_max.max(of_other.target_max);
    head.headers_max = head.headers_max.max(of_other.headers_max);
    one.body_max = one.body_max.max(other.body_max);
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::SiteSettings;
    use crate::site::statics::Statics;
    use proptest::prelude::*;
    use rhythm_engine::program::Service;

    fn site(label: &str, names: &str) -> Arc<Site> {
        let settings = SiteSettings {
            label: Some(label.to_owned()),
            names: names.split_ascii_whitespace().map(str::to_owned).collect(),
            ..SiteSettings::default()
        };
        let statics = Statics::new("/static", Vec::new());
        let site = Site::new(Arc::new(Service::default()), statics, settings);
        Arc::new(site.expect("it is sound"))
    }

    fn sites(names: &[&str]) -> Result<Sites, String> {
        let label = |index: usize| ["bank", "shop", "blog", "rest"][index];
        let all = names.iter().enumerate();
        Sites::new(
            all.map(|(index, names)| site(label(index), names))
                .collect(),
        )
    }

    #[test]
    fn a_host_is_a_sites_in_any_spelling() {
        let names = [
            "bank.example www.bank.example",
            "shop.example",
            "*.example 10.0.0.1",
        ];
        let with_default = sites(&[&names[..], &[""]].concat()).expect("four");
        let without = sites(&names).expect("three");
        let deep = "a.".repeat(120) + "example";
        let deeper = "a.".repeat(130) + "example";
        for (host, found) in [
            ("bank.example", Some(0)),
            ("BANK.Example:8080", Some(0)),
            ("www.bank.example.", Some(0)),
            ("bank.example.:80", Some(0)),
            ("bank.example:", Some(0)),
            ("shop.example", Some(1)),
            ("other.example", Some(2)),
            ("www.shop.example:1", Some(2)),
            (&deep, Some(2)),
            ("10.0.0.1:8080", Some(2)),
            ("example", None),
            (".example", None),
            ("bank.example..", None),
            ("bank.example.evil", None),
            ("evilbank.example.org", None),
            ("[::1]", None),
            ("[::1]:8080", None),
            ("", None),
            (":80", None),
            (&deeper, None),
        ] {
            assert_eq!(without.find(host.as_bytes()), found, "{host}");
            assert_eq!(
                with_default.find(host.as_bytes()),
                found.or(Some(3)),
                "{host}"
            );
        }
    }

    #[test]
    fn the_longest_ending_goes_before_and_the_name_itself_before_all() {
        let sites = sites(&["*.example", "*.shop.example", "www.shop.example"]).expect("three");
        for (host, found) in [
            ("a.example", Some(0)),
            ("shop.example", Some(0)),
            ("a.shop.example", Some(1)),
            ("b.a.shop.example", Some(1)),
            ("www.shop.example", Some(2)),
            ("a.www.shop.example", Some(1)),
        ] {
            assert_eq!(sites.find(host.as_bytes()), found, "{host}");
        }
    }

    #[test]
    fn sites_that_cannot_be_told_apart_are_refused() {
        for (names, told) in [
            (
                &["a.example", "b.example a.example"][..],
                "bank and shop both have the host a.example",
            ),
            (
                &["*.a.example", "b", "*.a.example"],
                "bank and blog both have the host *.a.example",
            ),
            (
                &["", "a.example", ""],
                "neither of the services bank and blog has a host",
            ),
            (&[], "there is no service"),
        ] {
            let why = sites(names).expect_err("they are no server's");
            assert!(why.contains(told), "{why}");
        }
        assert!(sites(&["a.example", "*.a.example"]).is_ok());
    }

    #[test]
    fn one_site_looks_at_names_where_it_has_some() {
        assert!(sites(&[""]).expect("one").is_one);
        let named = sites(&["a.example"]).expect("one");
        assert!(!named.is_one);
        assert_eq!(
            (named.find(b"a.example"), named.find(b"b.example")),
            (Some(0), None)
        );
    }

    proptest! {
        /// Whatever comes as a host, it is one of the sites or none, and its letters' case, its
        /// port and a dot at its end do not matter.
        #[test]
        fn spelling_does_not_matter(name in "[a-cA-C.-]{0,12}", port: u16) {
            let sites = sites(&["a.b", "*.b", "b.c *.a.c"]).expect("three");
            let found = sites.find(name.as_bytes());
            let lower = name.to_ascii_lowercase();
            prop_assert_eq!(sites.find(lower.as_bytes()), found);
            prop_assert_eq!(sites.find(format!("{name}:{port}").as_bytes()), found);
            if !name.ends_with('.') {
                prop_assert_eq!(sites.find(format!("{name}.").as_bytes()), found);
                let ends = |ending: &str| lower.len() > ending.len() && lower.ends_with(ending);
                let expected = match lower.as_str() {
                    "a.b" => Some(0),
                    "b.c" => Some(2),
                    _ if ends(".b") => Some(1),
                    _ if ends(".a.c") => Some(2),
                    _ => None,
                };
                prop_assert_eq!(found, expected);
            }
        }
    }
}
