//! Listeners: where clients come in, and the admin listener; opened, or inherited from the process
//! before.

use super::start_error::StartError;
use crate::intake::https::TLS;
use crate::limits::options::ServerOptions;
use rhythm_engine::settings::{ListenAt, ServerSettings};
use rhythm_net::workers::Entrance;
use rhythm_net::{ListenError, ListenOptions, Listener, Role};
use std::fmt;
use std::net::SocketAddr;

/// Where clients come in.
pub(super) struct Entrances {
    /// The first address, unspecified where that is a Unix socket.
    pub(super) local: SocketAddr,
    /// All of them, as settings name them: those without TLS, and those with it.
    pub(super) places: [Places; 2],
    /// For the workers.
    pub(super) entrances: Vec<Entrance>,
}

/// Where a server listens, as settings name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(Vec<String>);

impl Places {
    pub(super) fn of<'a>(listeners: impl IntoIterator<Item = &'a Listener>) -> Places {
        Places(listeners.into_iter().map(Listener::to_string).collect())
    }

    /// All in a line, where there are any.
    pub(super) fn line(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.to_string())
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Whether a server listens at the places of a setting: where no socket of its own kind was passed,
/// and where it speaks no TLS, none at all. Who passes a socket for TLS alone has not asked for
/// another beside it that everybody can read.
pub(super) fn are_its_own(setting: &str, own: &[Listener], any_is_passed: bool) -> bool {
    own.is_empty() && (setting != LISTEN || !any_is_passed)
}

/// The setting of where clients connect that speak no TLS.
pub(super) const LISTEN: &str = "listen";

fn warn_of_unused(setting: &str) {
    tracing::warn!("`{setting}` of [server] is not used: sockets were passed (LISTEN_FDS)");
}

/// Where clients come in: through the sockets that were inherited, each of which all workers have;
/// where none was of this kind, through one of each worker's own at each address, and Unix sockets
/// that all have. Those who speak TLS have listeners of their own.
pub(super) fn entrances(
    inherited: [Vec<Listener>; 2],
    options: &ServerOptions,
) -> Result<Entrances, StartError> {
    let workers = options.workers;
    let settings = [
        (LISTEN, &options.listen, Role::default()),
        ("tls_listen", &options.tls_listen, TLS),
    ];
    let any_is_passed = inherited.iter().any(|listeners| !listeners.is_empty());
    let mut groups: Vec<(Role, Vec<Listener>)> = Vec::new();
    for ((setting, places, role), inherited) in settings.into_iter().zip(inherited) {
        if are_its_own(setting, &inherited, any_is_passed) {
            let bound = bind_all(setting, places, options)?;
            groups.extend(bound.into_iter().map(|group| (role, group)));
        } else if !places.is_empty() && *places != ServerSettings::default().listen {
            // A default is nobody's wish.
            warn_of_unused(setting);
        }
        groups.extend(inherited.into_iter().map(|one| (role, vec![one])));
    }
    let firsts = || {
        groups
            .iter()
            .filter_map(|(role, group)| Some((*role, group.first()?)))
    };
    let local = firsts().next().map(|(_, first)| first.local_address());
    let places = [Role::default(), TLS].map(|role| {
        let of_role = firsts().filter(|(of, _)| *of == role);
        Places::of(of_role.map(|(_, first)| first))
    });
    let entrance = |(role, mut group): (Role, Vec<Listener>)| match group.len() {
        1 => Entrance::of_all(role, group.remove(0), workers),
        _ => Ok(Entrance::listeners(role, group)),
    };
    let entrances: Result<Vec<Entrance>, std::io::Error> =
        groups.into_iter().map(entrance).collect();
    Ok(Entrances {
        local: local.unwrap_or_else(|| SocketAddr::from(([0; 4], 0))),
        places,
        entrances: entrances?,
    })
}

/// The listeners of a setting, those of each place together.
fn bind_all(
    setting: &'static str,
    places: &[ListenAt],
    options: &ServerOptions,
) -> Result<Vec<Vec<Listener>>, StartError> {
    let listen = ListenOptions {
        backlog: options.backlog,
        ..ListenOptions::default()
    };
    let bound = places.iter().map(|at| match at {
        ListenAt::Tcp(address) => Listener::bind_group(*address, options.workers, &listen),
        ListenAt::Unix(_) => bind(at, options, &listen).map(|one| vec![one]),
    });
    bound
        .map(|group| group.map_err(|error| StartError::Listen { setting, error }))
        .collect()
}

/// The admin listener, if there is to be one.
pub(super) fn admin(
    inherited: Option<Listener>,
    options: &ServerOptions,
) -> Result<Option<Listener>, StartError> {
    let setting = "admin";
    match (inherited, &options.admin) {
        (Some(listener), at) => {
            if at.is_some() && *at != ServerSettings::default().admin {
                warn_of_unused(setting);
            }
            Ok(Some(listener))
        }
        (None, Some(at)) => bind(at, options, &ListenOptions::default())
            .map(Some)
            .map_err(|error| StartError::Listen { setting, error }),
        (None, None) => Ok(None),
    }
}

/// One listener.
fn bind(
    at: &ListenAt,
    options: &ServerOptions,
    listen: &ListenOptions,
) -> Result<Listener, ListenError> {
    match at {
        ListenAt::Tcp(address) => Listener::bind(*address, listen),
        ListenAt::Unix(path) => Listener::bind_unix(path, options.socket_mode, listen),
    }
}
