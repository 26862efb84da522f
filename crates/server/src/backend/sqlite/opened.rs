//! Databases that threads of this process listen for: one for each file and what is said of it,
//! however many workers and reloads there are.

use super::database::{self, SCHEMA};
use super::thread::{self, Shared};
use super::writer::Writer;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::{LocalListener, Peer};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread as threads};

/// Those that are listened for.
static LISTENING: Mutex<Vec<(BackendConfig, Peer)>> = Mutex::new(Vec::new());

/// The peer by which a backend's database is reached.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn peer(config: &BackendConfig) -> Result<Peer, String> {
    let (path, is_made) = database::prepare(config)?;
    let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_made {
        let is_same = |(known, _): &(BackendConfig, Peer)| database::path(known) == path;
        tell_made(config, &path, listening.iter().any(is_same));
    }
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
        // Each worker has a pool, and there are as many as processors, most often.
        let workers = threads::available_parallelism().map_or(1, NonZero::get);
        let connections = config.pool.connections_max as usize * workers;
        let most = connections.saturating_mul(THREADS_A_CONNECTION).max(1);
        let listen = move || listen(&listener, &name, &shared, most);
        threads::Builder::new()
            .name("sqlite".to_owned())
            .spawn(listen)?;
        Ok(peer)
    };
    let peer = begin().map_err(|why: io::Error| format!("no thread can be begun: {why}"))?;
    listening.push((config.clone(), peer.clone()));
    Ok(peer)
}

/// Tells that a database was made: most often that is meant, but not of one that was there before.
fn tell_made(config: &BackendConfig, path: &Path, was_there: bool) {
    let (backend, schema) = (&*config.name, config.text(SCHEMA));
    match was_there {
        true => tracing::warn!(
            backend,
            file = %path.display(),
            "the database was there before and is not any more: it is made anew of {schema}"
        ),
        false => tracing::info!(
            backend,
            file = %path.display(),
            "the database was not there, or had no tables: it is made of {schema}"
        ),
    }
}

/// Threads that a database has at most, for each connection of its pools: one whose connection was
/// given up ends when SQLite lets go of its statement.
pub(super) const THREADS_A_CONNECTION: usize = 2;

/// The threads of a database that there are.
#[derive(Default)]
struct Threads {
    count: Mutex<usize>,
    one_ended: Condvar,
}

impl Threads {
    /// Waits until there are fewer than so many, and counts one more.
    fn begin(self: &Arc<Threads>, most: usize) -> Counted {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.one_ended.wait_while(count, |count| *count >= most);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Counted(self.clone())
    }
}

/// A thread that is counted, until this is dropped.
struct Counted(Arc<Threads>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.one_ended.notify_one();
    }
}

/// Begins a thread for each connection, for as long as the process lives. With so many threads the
/// next connection waits for one of them to end.
fn listen(listener: &LocalListener, name: &str, shared: &Arc<Shared>, most: usize) {
    let all = Arc::<Threads>::default();
    loop {
        let counted = all.begin(most);
        let begun = listener.accept().and_then(|stream| {
            let shared = shared.clone();
            let run = move || {
                let _counted = counted;
                thread::run(stream, &shared);
            };
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
