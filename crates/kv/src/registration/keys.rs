//! The keys of a ring.

use crate::checksum::checksum;
use crate::ring::{Member, NODES_MAX};
use rhythm_etcd::{Entry, EtcdError, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The key of a node, by its number.
pub(super) fn place_key(number: usize) -> String {
    format!("nodes/{number}")
}

/// The key by which a node is asked to leave.
pub(super) fn leave_key(name: &str) -> String {
    format!("leave/{name}")
}

/// All numbers, those first that a node of this name is to have: where all leases have ended, who
/// begins is not to take the number of one that is about to register anew.
pub(super) fn numbers(name: &str) -> impl Iterator<Item = usize> {
    let first = (checksum([0, 0], name.as_bytes()) % NODES_MAX as u64) as usize;
    (first..first + NODES_MAX).map(|number| number % NODES_MAX)
}

/// Has a node have a number under a lease, if nobody has it.
pub(super) fn create(
    store: &mut impl Store,
    place: usize,
    me: &Member,
    lease: i64,
) -> Result<bool, EtcdError> {
    let value = json!({
        "name": me.name,
        "client": format!("{}:{}", me.host, me.port),
        "backbone": me.backbone.to_string(),
    });
    store.create(&place_key(place), &value.to_string(), lease)
}

/// The nodes that are there.
///
/// # Errors
/// No server answers, or it refuses.
pub fn registered(store: &mut impl Store) -> Result<Vec<Member>, EtcdError> {
    let (entries, _) = store.entries()?;
    Ok(members(&entries).into_values().collect())
}

/// The members among the keys.
pub(super) fn members(entries: &[Entry]) -> BTreeMap<usize, Member> {
    let entries = entries.iter();
    let member = |entry: &Entry| {
        let number = entry.key.strip_prefix("nodes/")?.parse().ok()?;
        let value: serde_json::Value = serde_json::from_str(&entry.value).ok()?;
        let of = |field: &str| value[field].as_str();
        let (host, port) = of("client")?.rsplit_once(':')?;
        let backbone: SocketAddr = of("backbone")?.parse().ok()?;
        let member = Member {
            name: of("name")?.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
            backbone,
            place: backbone.to_string(),
        };
        (number < NODES_MAX).then_some((number, member))
    };
    entries.filter_map(member).collect()
}

/// The lease under which the key of a number is, if there is one.
pub(super) fn under(entries: &[Entry], number: usize) -> Option<i64> {
    let key = place_key(number);
    let entry = entries.iter().find(|entry| entry.key == key);
    entry.map(|entry| entry.lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Those who are about to register anew have theirs.
    #[test]
    fn a_number_is_of_its_name_and_the_next_one_where_that_is_taken() {
        let of = |name: &str| numbers(name).collect::<Vec<_>>();
        let all: BTreeSet<usize> = of("a").into_iter().collect();
        assert_eq!(all, (0..NODES_MAX).collect());
        assert_eq!((of("a")[0] + 1) % NODES_MAX, of("a")[1]);
        let firsts: BTreeSet<usize> = ('a'..='j').map(|name| of(&name.to_string())[0]).collect();
        assert!(firsts.len() >= 8, "{firsts:?}");
    }
}
