//! How many of the files that the process may have open are for clients: what else needs one must
//! get it, whatever clients do.

use super::options::ServerOptions;
use crate::site::Sites;
use rhythm_observe::admin;

/// What is open whatever is served: standard streams, logs, a device's files, and the folder's
/// while it is read.
const OTHERS: usize = 64;

/// What each worker has open: its loop, its wakers, its listener.
const OF_WORKER: usize = 8;

/// A connection of a backend: its socket, and where the backend is a file, the other end of that,
/// the file and its log.
const OF_BACKEND: usize = 4;

/// Files that are kept from clients: for backends, twice because a reload connects to the new ones
/// before the old ones are done with and opens static files that are held open, for the admin
/// listener, and for all else.
fn reserve(options: &ServerOptions, sites: &Sites) -> usize {
    let all = || sites.all().iter();
    let backends = all().flat_map(|site| &site.service().backends);
    let of_backends: usize = backends.map(|it| it.pool.connections_max as usize).sum();
    let proxies = all().flat_map(|site| &site.service().proxies);
    // One more to each, by which it is asked whether it is in order.
    let of_proxies = proxies.map(|it| it.to.len() * (it.settings.connections_max as usize + 1));
    let of_proxies: usize = of_proxies.sum();
    let of_worker = OF_WORKER + 2 * (OF_BACKEND * of_backends + of_proxies);
    let of_statics = 2 * all().map(|site| site.statics.streamed()).sum::<usize>();
    OTHERS + of_statics + admin::CONNECTIONS_MAX + options.workers.max(1) * of_worker
}

/// The connections of clients that there can be, where so many files may be open. Tells whoever
/// asked for more.
pub(crate) fn connections_max(options: &ServerOptions, sites: &Sites, open_files: u64) -> usize {
    let (asked, reserve) = (options.connections_max, reserve(options, sites));
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    let used = fitting(asked, reserve, open_files);
    if let Some(lack) = lack(asked, reserve, open_files) {
        tracing::warn!("{lack}");
    }
    used
}

/// Tells whoever has a site served from now on that does not fit beside the connections that there
/// can be already, where so many files may be open.
pub(crate) fn check(options: &ServerOptions, sites: &Sites, open_files: u64) {
    let (connections, reserve) = (options.connections_max, reserve(options, sites));
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    let needed = connections.saturating_add(reserve);
    if needed > open_files {
        tracing::warn!(
            "as it is now, what is served needs {needed} open files: {connections} for \
            connections, and {reserve} for backends, the admin listener and static files. This \
            process may open {open_files}: with so many connections, backends may find no file \
            left. Restart the server, which then lets in fewer, or let it open more (`ulimit -n`, \
            LimitNOFILE=)"
        );
    }
}

/// How many files may come to be open.
pub(crate) fn used(options: &ServerOptions, sites: &Sites) -> u64 {
    let used = options
        .connections_max
        .saturating_add(reserve(options, sites));
    u64::try_from(used).unwrap_or(u64::MAX)
}

/// As many of those asked for as fit beside the reserve.
fn fitting(asked: usize, reserve: usize, open_files: usize) -> usize {
    // Where hardly any may be open, clients get half of them.
    let left = open_files.saturating_sub(reserve).max(open_files / 2);
    asked.min(left).max(1)
}

/// What to tell whoever asked for more connections than fit beside the reserve.
fn lack(asked: usize, reserve: usize, open_files: usize) -> Option<String> {
    let needed = asked.saturating_add(reserve);
    if needed <= open_files {
        return None;
    }
    let used = fitting(asked, reserve, open_files);
    let lacking = match used.saturating_add(reserve) > open_files {
        true => ", and with so many backends may find no file left",
        false => "",
    };
    // What is advised fits.
    let fewer = match open_files.saturating_sub(reserve) {
        0 => String::new(),
        fit => format!(", or set limits.connections_max = {fit}"),
    };
    Some(format!(
        "limits.connections_max = {asked} needs {needed} open files: one a connection, and \
         {reserve} for backends, the admin listener and static files. This process may open \
         {open_files}, and lets in {used} connections at most{lacking}. Let it open {needed} \
         (`ulimit -n`, LimitNOFILE=){fewer}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_others_is_kept_from_clients() {
        assert_eq!(fitting(20_000, 300, 20_300), 20_000);
        assert_eq!(fitting(20_000, 300, 20_299), 19_999);
        assert_eq!(fitting(20_000, 300, 1024), 724);
        assert_eq!(fitting(20_000, 300, 256), 128);
        assert_eq!(fitting(20_000, 300, 0), 1);
        assert_eq!(fitting(100, 300, 1024), 100);
    }

    #[test]
    fn what_does_not_fit_is_told_and_what_is_advised_fits() {
        let advised = |lack: String| {
            let (_, number) = lack.split_once("or set limits.connections_max = ")?;
            number.parse::<usize>().ok()
        };
        for (asked, reserve, open_files, fewer) in [
            (20_000, 208, 300, Some(92)),
            (150, 208, 300, Some(92)),
            (4, 208, 120, None),
            (1, 300, 300, None),
        ] {
            let told = lack(asked, reserve, open_files).expect("it does not fit");
            assert!(
                told.contains(&format!("needs {} ", asked + reserve)),
                "{told}"
            );
            assert!(told.contains("no file left") || fewer.is_none(), "{told}");
            assert_eq!(advised(told), fewer);
        }
        assert_eq!(lack(92, 208, 300), None);
        let told = lack(20_000, 300, 1024).unwrap();
        assert!(!told.contains("no file left"), "{told}");
        assert_eq!(advised(told), Some(724));
    }
}
