//! The sites of a run: the two versions of the service that reloads alternate between.

use crate::config::Config;
use crate::disks::{DiskFile, DiskSabotage};
use crate::hosts;
use crate::reference::Reference;
use rhythm_server::{
    BackendSettings, FileContent, HostRoute, Site, SiteSettings, StaticFile, Statics,
};
use std::sync::Arc;
use std::time::Duration;

/// Both, by the number of reloads modulo two.
pub(super) fn sites(
    reference: &Reference,
    config: &Config,
    sabotage: DiskSabotage,
) -> [Arc<Site>; 2] {
    let files = || {
        reference.statics.iter().map(|(path, bytes)| StaticFile {
            path: path.clone(),
            content: match bytes.len() > config.disk.kept_max {
                false => bytes.clone().into(),
                true => FileContent::Streamed {
                    length: bytes.len() as u64,
                    version: 1,
                    volume: bytes.len() as u64 % 2,
                    source: Arc::new(DiskFile {
                        bytes: bytes.clone(),
                        sabotage,
                    }),
                },
            },
            modified: None,
        })
    };
    let sites = [0, 1].map(|version| {
        let mut backend =
            BackendSettings::new("besim", Duration::from_nanos(config.backend_timeout));
        backend.straggler_delay = Duration::from_nanos(config.straggler_delay);
        let settings = SiteSettings {
            read_timeout: Duration::from_nanos(config.disk.timeout),
            redirects: vec![("/".to_owned(), "/bank/login.php".to_owned())],
            backends: vec![backend],
            hosts: vec![HostRoute {
                path: hosts::PATH.to_owned(),
                host: "slow".to_owned(),
            }],
            ..SiteSettings::default()
        };
        let statics = Statics::new("/bank/static/", files());
        let first = reference.first_sites.get();
        let first = first.map(|sites| &*sites[version]);
        let service = reference.services[version].clone();
        let site = Site::following(first, service, statics, settings);
        Arc::new(site.expect("Banking can be served"))
    });
    let _ = reference.first_sites.set(sites.clone());
    sites
}
