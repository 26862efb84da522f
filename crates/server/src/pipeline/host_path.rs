//! The host path: those who answer without cohorts, at once or later.

use crate::flight::asker::ClientsBy;
use crate::host::challenges::Challenges;
use crate::host::disk::Disk;
use crate::host::files::SharedFiles;
use crate::proxy::SharedProxies;
use rhythm_http::{Host, HostId, Hosts};

/// Those who answer without cohorts.
pub(super) struct HostPath {
    pub(super) hosts: Hosts,
    /// One of them: files that are read while they are sent.
    pub(super) files: SharedFiles,
    pub(super) files_id: HostId,
    /// Another: what other servers answer.
    pub(super) proxies: SharedProxies,
    pub(super) proxies_id: HostId,
    /// And one more, where there is a folder for it: what proves to an authority whose names are
    /// this server's.
    pub(super) challenges_id: Option<HostId>,
}

impl HostPath {
    /// These hosts, each with its name, and files of a disk, of which so many bytes are held. For
    /// other servers clients are told apart so.
    pub(super) fn new(
        hosts: Vec<(String, Box<dyn Host>)>,
        disk: Box<dyn Disk>,
        held_max: usize,
        clients_by: ClientsBy,
    ) -> HostPath {
        let files = SharedFiles::new(disk, held_max);
        let proxies = SharedProxies::new(clients_by);
        let mut hosts = hosts;
        hosts.push((SharedProxies::NAME.to_owned(), Box::new(proxies.clone())));
        let (hosts, files_id) = files.among(hosts);
        let proxies_id = hosts.find(SharedProxies::NAME);
        HostPath {
            proxies,
            challenges_id: hosts.find(Challenges::NAME),
            proxies_id: proxies_id.expect("it was just put in"),
            hosts,
            files,
            files_id,
        }
    }
}
