//! A thread of the server by itself, for who counts what commands take: nothing but them happens.

use super::worker::{Worker, held_least};
use crate::shared::{Settings, Shared, Start};
use crate::store::{Store, StoreError, StoreOptions};
use rhythm_net::{
    Accepted, Client, ConnectionId, Handler, Peer, Port, Role, Sent, Time, WallClock,
};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Its one client.
const CLIENT: ConnectionId = ConnectionId::new(0, 1);
/// Keys are hashed alike each time, so that the same commands take the same.
const SECRET: [u64; 2] = [1, 2];

/// A thread of the server with a client in memory: no socket, no clock, no other thread.
pub struct Alone {
    worker: Worker,
    port: Taken,
    now: Time,
}

impl Alone {
    /// One with these settings.
    ///
    /// # Errors
    /// There is no memory for its items.
    pub fn new(settings: Settings) -> Result<Alone, StoreError> {
        let settings = Settings {
            threads: 1,
            ..settings
        };
        let options = StoreOptions {
            memory: settings.memory as usize,
            secret: Some(SECRET),
            ..StoreOptions::default()
        };
        let store = Arc::new(Store::new(options)?);
        let of_worker = store.worker()?;
        let held_most = settings.buffers_max.max(held_least(&settings));
        let shared = Shared::new(settings, store, Start::new(Time::ZERO, 0), |_| ());
        let mut alone = Alone {
            worker: Worker::new(Arc::new(shared), 0, of_worker, held_most, Time::ZERO),
            port: Taken::default(),
            now: Time::ZERO,
        };
        let accepted = Accepted {
            connection: CLIENT,
            role: Role::default(),
            peer: Client::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))),
        };
        alone.worker.opened(&mut alone.port, accepted, alone.now);
        Ok(alone)
    }

    /// A turn of the loop in which the client sends this; what it is answered.
    pub fn turn(&mut self, bytes: &[u8]) -> &[u8] {
        let Alone { worker, port, now } = self;
        port.0.clear();
        *now += Duration::from_micros(1);
        worker.received(port, CLIENT, bytes, *now);
        worker.tick(port, *now);
        worker.idle(port, *now);
        worker.turn_ended(*now);
        &port.0
    }
}

/// Takes all that is sent since the turn began.
#[derive(Default)]
struct Taken(Vec<u8>);

impl Port for Taken {
    fn send(&mut self, _: ConnectionId, bytes: &[u8]) -> Sent {
        self.0.extend_from_slice(bytes);
        Sent::Taken(bytes.len())
    }

    fn close(&mut self, _: ConnectionId) {}

    fn abort(&mut self, _: ConnectionId) {}

    fn pause(&mut self, _: ConnectionId) {}

    fn resume(&mut self, _: ConnectionId) {}

    fn connect(&mut self, _: &Peer) -> io::Result<ConnectionId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn stop_accepting(&mut self) {}

    fn wall_clock(&self) -> WallClock {
        WallClock::default()
    }
}
