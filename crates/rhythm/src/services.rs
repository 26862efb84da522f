//! The services of one server: their folders, read together, and what they have in common.
//!
//! One that cannot be read or compiled keeps the others from nothing, but for what they have to
//! agree on.

use crate::backends::BackendArgs;
use crate::folder::Folder;
use anyhow::{Context, Error, Result, bail};
use rhythm_engine::program::Service;
use rhythm_engine::settings::{BackendConfig, Origin, ServiceConfig, UrlPlace};
use rhythm_net::Peer;
use rhythm_server::{ProxyRoute, Site, SiteSettings, backend};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A service's folder, and what it was compiled to.
pub(crate) struct Compiled {
    pub(crate) folder: Folder,
    pub(crate) service: Service,
    /// What it is called where there are several.
    pub(crate) label: Option<String>,
}

/// Reads and compiles folders, with the flags that say where backends are. What is wrong is said of
/// each; `finish` does what else belongs to one.
pub(crate) fn compile(
    folders: &[PathBuf],
    backends: &BackendArgs,
    finish: impl Fn(&mut Service) -> Result<()>,
) -> Vec<Result<Compiled>> {
    let mut read: Vec<Result<Folder>> = folders.iter().map(|at| Folder::read(at)).collect();
    let there = read.iter_mut().flatten();
    let mut sources: Vec<_> = there.map(|folder| &mut folder.sources).collect();
    let applied = backends.apply(&mut sources, folders.len());
    let one = |folder: Result<Folder>, at: &Path| {
        let folder = folder?;
        if let Err(why) = &applied {
            bail!("{why:#}");
        }
        let mut service = folder.compile()?;
        finish(&mut service)?;
        Ok(Compiled::new(folder, service, at, folders.len()))
    };
    let all = read.into_iter().zip(folders);
    all.map(|(folder, at)| match (one(folder, at), folders.len()) {
        (compiled, 1) => compiled,
        (compiled, _) => compiled.with_context(|| at.display().to_string()),
    })
    .collect()
}

impl Compiled {
    /// A service of this folder, one of so many.
    pub(crate) fn new(folder: Folder, mut service: Service, at: &Path, count: usize) -> Compiled {
        let label = (count > 1).then(|| called(&service.config, at));
        if let Some(label) = &label {
            service.config.service.name.clone_from(label);
        }
        Compiled {
            folder,
            service,
            label,
        }
    }

    /// Makes a site of it, whose backends are where `locate` finds them, as are the servers of its
    /// proxy routes where `find` does, and which follows the site `before`.
    ///
    /// # Errors
    /// What cannot be served.
    pub(crate) fn into_site(
        self,
        locate: impl Fn(&BackendConfig) -> Result<Vec<Peer>>,
        find: impl Fn(&UrlPlace) -> Result<Vec<Peer>>,
        before: Option<&Site>,
    ) -> Result<Arc<Site>> {
        let mut settings = SiteSettings {
            label: self.label,
            ..SiteSettings::of(&self.service)
        };
        for (config, settings) in self.service.backends.iter().zip(&mut settings.backends) {
            settings.peers = locate(config)?;
        }
        for route in &mut settings.proxies {
            find_servers(route, self.folder.at(), &find)
                .with_context(|| format!("[[proxy]] {}", route.config.name()))?;
        }
        let site = (self.folder).into_site_after(before, self.service, settings)?;
        Ok(Arc::new(site))
    }
}

/// Finds where a route's servers are, and what connections to them are sealed with.
fn find_servers(
    route: &mut ProxyRoute,
    folder: &Path,
    find: impl Fn(&UrlPlace) -> Result<Vec<Peer>>,
) -> Result<()> {
    let settings = &route.config.settings;
    let files = [
        &*settings.tls_ca,
        &*settings.tls_certificate,
        &*settings.tls_key,
    ];
    for ((_, url), peers) in route.config.to.iter().zip(&mut route.peers) {
        let seal = backend::seal_of(url, folder, files).map_err(Error::msg)?;
        let found = find(&url.place)?.into_iter();
        *peers = found.map(|peer| peer.sealed(seal.clone())).collect();
    }
    Ok(())
}

/// What a service is called among others: as it says, or by its folder.
pub(crate) fn called(config: &ServiceConfig, folder: &Path) -> String {
    let by_folder = || {
        let folder = folder.canonicalize().ok()?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    };
    match config.origin("service", "name") {
        Origin::Default => by_folder(),
        Origin::File | Origin::Flag => None,
    }
    .unwrap_or_else(|| config.service.name.clone())
}

/// Has services agree on what is the whole server's.
///
/// # Errors
/// Two have the same name, or say different things.
pub(crate) fn agree(configs: &mut [&mut ServiceConfig]) -> Result<()> {
    let names: Vec<String> = (configs.iter())
        .map(|config| config.service.name.clone())
        .collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            bail!(
                "two services are called {name}: give one another `name` in [service], by which \
                 the log and figures tell them apart"
            );
        }
    }
    let configs = configs.iter_mut().map(|config| &mut **config);
    let mut named: Vec<_> = names.iter().map(String::as_str).zip(configs).collect();
    ServiceConfig::agree(&mut named).map_err(Error::msg)
}
