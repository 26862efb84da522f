//! `rhythm kv ring status`: how a ring is, as its nodes see it.

use super::super::nodes::place;
use super::super::verdict::verdict;
use super::{ETCD, members};
use anyhow::{Result, ensure};
use rhythm_etcd::Etcd;
use rhythm_kv::registration::registered;
use rhythm_kv::status::ring::{Known, look};
use std::path::Path;
use std::process::ExitCode;

/// Asks the nodes of a ring, or one, how they see it, and shows that. The status tells whether all
/// is well.
pub(super) fn tell_of(of: &str) -> Result<ExitCode> {
    let file = Path::new(of);
    if let Some(etcd) = of.strip_prefix(ETCD) {
        let members = registered(&mut Etcd::new(etcd)?)?;
        ensure!(!members.is_empty(), "no node is registered at {of}");
        return verdict(look(Known::Etcd(&members)));
    }
    if file.is_file() {
        let members = members(file, false)?;
        return verdict(look(Known::File(&members)));
    }
    ensure!(
        place(of).is_ok(),
        "there is no file {of}; give the file that the nodes are started with (--ring), \
         etcd://HOST:PORT/PREFIX, or HOST:PORT of a node"
    );
    verdict(look(Known::Node(of)))
}
