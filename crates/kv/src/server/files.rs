//! How many of the files that the process may open are for clients: what else needs one, as the
//! admin listener does, is to get it whatever they do, and who is one too many is to be told so.

use crate::ring::NODES_MAX;
use crate::shared::Settings;
use rhythm_observe::admin;

/// Places for clients that are turned away or wait, beside those that are let in: a thread's where
/// there are files enough, and the fewest of all threads.
const BESIDE: usize = 1024;
const BESIDE_LEAST: usize = 32;
/// What is open whatever is served: standard streams, signals, the memory file, who asks etcd.
const OTHERS: usize = 32;
/// What each thread has open beside its sockets: its loop, its alarm, its waker.
const OF_THREAD: usize = 4;

/// The connections that there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// Of clients that are let in: `-c`, or fewer.
    pub(super) clients: usize,
    /// Of those beside them, of all threads.
    pub(super) beside: usize,
    /// Whether that is as many clients as `-c` says.
    pub(super) are_all: bool,
}

/// Connections that other nodes of a ring, of so many at most, may have here, and that this one may
/// have there.
pub(super) fn of_ring(places: usize) -> (usize, usize) {
    (4 * places + 16, 2 * places)
}

/// Files that are kept from clients.
fn reserve(settings: &Settings) -> usize {
    // Each address may be one of IPv4 and one of IPv6.
    let addresses = 2 * settings.listen.len().max(1);
    let protocols = usize::from(settings.port.is_some()) + usize::from(settings.udp_port.is_some());
    let of_threads = settings.threads * (OF_THREAD + addresses * protocols.max(1));
    let of_admin = match settings.admin {
        Some(_) => admin::CONNECTIONS_MAX + OF_THREAD + 1,
        None => 0,
    };
    let nodes = match (&settings.ring, &settings.candidate) {
        (Some(ring), _) => Some(ring.roster().places()),
        // It is not known yet how many there will be.
        (None, candidate) => candidate.as_ref().map(|_| NODES_MAX),
    };
    let of_ring = nodes.map_or(0, |nodes| {
        let (incoming, outgoing) = of_ring(nodes);
        incoming + outgoing + OF_THREAD + 1
    });
    OTHERS + of_threads + of_admin + of_ring
}

/// How many files a server may have open at a time that lets in all the clients of `-c`.
pub fn needed(settings: &Settings) -> u64 {
    let clients = settings.connections_max as usize;
    (clients + BESIDE_LEAST + reserve(settings)) as u64
}

/// The connections that there can be where so many files may be open. Where fewer than `-c` clients
/// can be let in, what there is to say of it comes with them.
pub(super) fn places(settings: &Settings, open_files: u64) -> (Places, Option<String>) {
    let asked = settings.connections_max as usize;
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    // Where hardly any may be open, clients get half of them.
    let left = open_files.saturating_sub(reserve(settings));
    let left = left.max(open_files / 2).max(BESIDE_LEAST + 1);
    let clients = asked.min(left - BESIDE_LEAST);
    let places = Places {
        clients,
        beside: (BESIDE * settings.threads).min(left - clients),
        are_all: clients == asked,
    };
    let lack = (!places.are_all).then(|| {
        let needed = needed(settings);
        format!(
            "-c {asked} needs {needed} open files, and this process may open {open_files}: \
             {clients} clients are let in at a time, and what is left is for the server itself and \
             for telling others that they are too many. Raise the limit to {needed} (ulimit -n, \
             LimitNOFILE= of systemd), or give -c {clients} or less"
        )
    });
    (places, lack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_needs_is_kept_from_clients_and_what_is_advised_fits() {
        let of = |connections_max, open_files| {
            let settings = Settings {
                connections_max,
                admin: Some(([127, 0, 0, 1], 0).into()),
                ..Settings::default()
            };
            let (places, lack) = places(&settings, open_files);
            let sum = places.clients + places.beside + reserve(&settings);
            assert!(sum as u64 <= open_files || open_files < 512, "{places:?}");
            (places, lack, needed(&settings))
        };
        let (places, lack, needed) = of(1024, 1024);
        assert!((700..1000).contains(&places.clients), "{places:?}");
        assert_eq!(places.beside, BESIDE_LEAST);
        let lack = lack.expect("it is told");
        assert!(
            lack.starts_with(&format!("-c 1024 needs {needed} open files")),
            "{lack}"
        );
        // Either cure is one.
        let (_, none, _) = of(places.clients as u32, 1024);
        assert_eq!(none, None);
        let (all, none, _) = of(1024, needed);
        assert_eq!((all.clients, none), (1024, None));
        let (all, none, _) = of(1024, 1 << 20);
        assert_eq!((all.clients, all.beside, none), (1024, 4 * BESIDE, None));
        // And where hardly any file may be open there is room for somebody.
        let (few, lack, _) = of(100, 64);
        assert!(few.clients >= 1 && lack.is_some(), "{few:?}");
    }
}
