//! Databases that threads of this process listen for: one for each file and what is said of it,
//! however many workers and reloads there are.

use super::database;
use super::thread::{self, Shared};
use super::writer::Writer;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::{LocalListener, Peer};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread as threads};

/// Those that are listened for.
static LISTENING: Mutex<Vec<(BackendConfig, Peer)>> = Mutex::new(Vec::new());

/// The peer by which a backend's database is reached.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn peer(config: &BackendConfig) -> Result<Peer, String> {
    let path = database::prepare(config)?;
    let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, peer)) = listening.iter().find(|(known, _)| known == config) {
        return Ok(peer.clone());
    }
    let timeout = config.pool.timeout;
    let shared = Arc::new(Shared {
        writer: Writer::new(path.clone(), timeout),
        path,
        timeout,
        words: Words::new(&config.name),
    });
    let begin = || {
        let listener = LocalListener::bind()?;
        let peer = listener.peer(&shared.path.to_string_lossy());
        let name = format!("sqlite-{}", config.name);
        let listen = move || listen(&listener, &name, &shared);
        threads::Builder::new()
            .name("sqlite".to_owned())
            .spawn(listen)?;
        Ok(peer)
    };
    let peer = begin().map_err(|why: io::Error| format!("no thread can be begun: {why}"))?;
    listening.push((config.clone(), peer.clone()));
    Ok(peer)
}

/// Begins a thread for each connection, for as long as the process lives.
fn listen(listener: &LocalListener, name: &str, shared: &Arc<Shared>) {
    loop {
        let begun = listener.accept().and_then(|stream| {
            let shared = shared.clone();
            let run = move || thread::run(stream, &shared);
            threads::Builder::new().name(name.to_owned()).spawn(run)
        });
        if let Err(why) = begun {
            shared
                .words
                .tell("", &format!("no thread for a connection: {why}"));
            // Most often no more files or threads may be had for now.
            threads::sleep(Duration::from_millis(100));
        }
    }
}
