//! The host path: those who answer without cohorts, at once or later.

use crate::host::disk::Disk;
use crate::host::files::SharedFiles;
use rhythm_http::{Host, HostId, Hosts};

/// Those who answer without cohorts.
pub(super) struct HostPath {
    pub(super) hosts: Hosts,
    /// One of them: files that are read while they are sent.
    pub(super) files: SharedFiles,
    pub(super) files_id: HostId,
}

impl HostPath {
    /// These hosts, each with its name, and files of a disk, of which so many bytes are held.
    pub(super) fn new(
        hosts: Vec<(String, Box<dyn Host>)>,
        disk: Box<dyn Disk>,
        held_max: usize,
    ) -> HostPath {
        let files = SharedFiles::new(disk, held_max);
        let (hosts, files_id) = files.among(hosts);
        HostPath {
            hosts,
            files,
            files_id,
        }
    }
}
