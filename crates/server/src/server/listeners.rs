//! Listeners: where clients come in, and the admin listener; opened, or inherited from the process
//! before.

use super::start_error::StartError;
use crate::limits::options::ServerOptions;
use rhythm_net::workers::Entrance;
use rhythm_net::{ListenOptions, Listener, Role};
use std::net::SocketAddr;

/// Where clients come in, and its address: through the sockets that were inherited, each of which
/// all workers have, or else through one of each worker's own.
pub(super) fn entrances(
    inherited: Vec<Listener>,
    options: &ServerOptions,
) -> Result<(SocketAddr, Vec<Entrance>), StartError> {
    let (role, workers) = (Role::default(), options.workers);
    let Some(first) = inherited.first() else {
        let setting = "listen";
        let listen = ListenOptions {
            backlog: options.backlog,
            ..ListenOptions::default()
        };
        let listeners = Listener::bind_group(options.listen, workers, &listen)
            .map_err(|error| StartError::Listen { setting, error })?;
        let local = (listeners.first()).map_or(options.listen, Listener::local_address);
        return Ok((local, vec![Entrance::listeners(role, listeners)]));
    };
    let local = first.local_address();
    let of_all = |listener: Listener| {
        let mut all = Vec::with_capacity(workers);
        for _ in 1..workers {
            all.push(listener.try_clone()?);
        }
        all.push(listener);
        Ok(Entrance::listeners(role, all))
    };
    let entrances: Result<Vec<Entrance>, std::io::Error> =
        inherited.into_iter().map(of_all).collect();
    Ok((local, entrances?))
}

/// The admin listener, if there is to be one.
pub(super) fn admin(
    inherited: Option<Listener>,
    address: Option<SocketAddr>,
) -> Result<Option<Listener>, StartError> {
    let setting = "admin";
    match (inherited, address) {
        (Some(listener), _) => Ok(Some(listener)),
        (None, Some(address)) => Listener::bind(address, &ListenOptions::default())
            .map(Some)
            .map_err(|error| StartError::Listen { setting, error }),
        (None, None) => Ok(None),
    }
}
