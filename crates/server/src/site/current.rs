//! What all threads of a server are to know of it now.

use crate::drain::{Drain, DrainOptions};
use crate::site::names::Relocated;
use crate::site::{Site, Sites};
use rhythm_engine::settings::ServiceConfig;
use rhythm_net::Time;
use std::sync::{Arc, Mutex, PoisonError};

/// What holds for every worker, and for one that starts anew.
#[derive(Debug)]
pub(crate) struct Current {
    sites: Mutex<Arc<Sites>>,
    /// The settings in effect of each site: its own, but those that a reload does not change.
    configs: Mutex<Vec<ServiceConfig>>,
    /// Backends of the sites that are elsewhere since.
    relocated: Mutex<Vec<Relocated>>,
    /// How the server ends, once it is to.
    drain: Mutex<Option<Drain>>,
}

impl Current {
    /// A server that serves these sites.
    pub(crate) fn new(sites: Arc<Sites>) -> Current {
        let configs = sites.all().iter().map(|site| site.service().config.clone());
        Current {
            configs: Mutex::new(configs.collect()),
            sites: Mutex::new(sites),
            relocated: Mutex::default(),
            drain: Mutex::new(None),
        }
    }

    /// What is served.
    pub(crate) fn sites(&self) -> Arc<Sites> {
        let sites = self.sites.lock();
        sites.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings in effect of each site.
    pub(crate) fn configs(&self) -> Vec<ServiceConfig> {
        let configs = self.configs.lock();
        configs.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These sites are served from now on. Gives for each that is another than before the settings
    /// that keep their values until a restart though it has others.
    pub(crate) fn reload(&self, sites: Arc<Sites>) -> Vec<(Arc<Site>, Vec<String>)> {
        let mut configs = (self.configs.lock()).unwrap_or_else(PoisonError::into_inner);
        let mut before = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let relocated = self.relocated.lock();
        let mut relocated = relocated.unwrap_or_else(PoisonError::into_inner);
        let mut new = Vec::new();
        let all = sites.all().iter().zip(before.all()).zip(&mut *configs);
        for (index, ((site, before), config)) in all.enumerate() {
            if Arc::ptr_eq(site, before) {
                continue;
            }
            let (reloaded, kept) = config.reloaded(&site.service().config);
            *config = reloaded;
            if !site.keep_stored(before) {
                tracing::warn!(
                    service = site.label(),
                    "`session.fields` has changed: what sessions had in them is lost"
                );
            }
            // Its names were looked up as it was loaded.
            relocated.retain(|known| known.site != index);
            new.push((site.clone(), kept));
        }
        *before = sites;
        new
    }

    /// Backends that are elsewhere than the sites say.
    pub(crate) fn relocated(&self) -> Vec<Relocated> {
        let relocated = self.relocated.lock();
        relocated.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These backends are elsewhere from now on.
    pub(crate) fn relocate(&self, relocated: &[Relocated]) {
        let all = self.relocated.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        let is_same = |new: &Relocated, known: &Relocated| {
            (new.site, &new.config) == (known.site, &known.config)
        };
        all.retain(|known| !relocated.iter().any(|new| is_same(new, known)));
        all.extend_from_slice(relocated);
    }

    /// How the server ends, once it is to.
    pub(crate) fn drain(&self) -> Option<Drain> {
        *self.drain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server is to end, or to do so sooner.
    pub(crate) fn shut_down(&self, options: DrainOptions, now: Time) -> Drain {
        let mut drain = self.drain.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(drain) = &mut *drain {
            drain.hasten(now);
        }
        *drain.get_or_insert_with(|| Drain::begin(options, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kinds;
    use crate::site::SiteSettings;
    use crate::site::statics::Statics;
    use rhythm_engine::compile::compile;
    use rhythm_engine::source::Sources;
    use rhythm_net::Peer;

    /// A site of this name, whose backend is asked by a name.
    fn site(name: &str) -> Arc<Site> {
        let settings = "[backend.db]\nkind = \"besim\"\nurl = \"http://db.test:81/besim\"\n";
        let files = [("service.toml".to_owned(), settings.to_owned())];
        let sources = Sources {
            files: files.into(),
            ..Sources::default()
        };
        let service = compile(&sources, &kinds()).expect("it is sound");
        let settings = SiteSettings {
            label: Some(name.to_owned()),
            names: vec![name.to_owned()],
            ..SiteSettings::of(&service)
        };
        let statics = Statics::new("/static/", Vec::new());
        Arc::new(Site::new(Arc::new(service), statics, settings).expect("it is sound"))
    }

    #[test]
    fn a_reload_of_one_site_leaves_anothers_backend_where_it_is_now() {
        let [bank, shop] = ["bank.test", "shop.test"].map(site);
        let sites = |shop: Arc<Site>| {
            let all = Sites::new(vec![bank.clone(), shop]);
            Arc::new(all.expect("they are told apart"))
        };
        let current = Current::new(sites(shop.clone()));
        let at = |site: usize, address: &str| Relocated {
            site,
            config: bank.service().backends[0].clone(),
            peers: vec![Peer::tcp("db.test", address.parse().expect("an address"))],
        };
        let [of_bank, of_shop] = [at(0, "192.0.2.7:81"), at(1, "192.0.2.7:81")];
        current.relocate(&[of_bank.clone(), of_shop.clone()]);
        assert_eq!(current.relocated(), [of_bank.clone(), of_shop]);
        // Each moves by itself.
        let later = at(1, "192.0.2.8:81");
        current.relocate(std::slice::from_ref(&later));
        assert_eq!(current.relocated(), [of_bank.clone(), later]);
        // Where those of one are was found as it was loaded.
        current.reload(sites(site("shop.test")));
        assert_eq!(current.relocated(), [of_bank]);
    }
}
