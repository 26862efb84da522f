//! Databases that threads of this process listen for: one for each file and what is said of it,
//! however many workers and reloads there are, for as long as a site has it.

use super::database::{self, SCHEMA};
use super::thread::{self, Shared};
use super::writer::Writer;
use crate::backend::words::Words;
use rhythm_engine::settings::BackendConfig;
use rhythm_net::{LocalListener, Peer};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread as threads};

/// A database that is listened for.
struct Listening {
    config: BackendConfig,
    listener: Arc<LocalListener>,
    shared: Arc<Shared>,
    threads: Arc<Threads>,
}

/// Those that are.
static LISTENING: Mutex<Vec<Listening>> = Mutex::new(Vec::new());

fn those_listening() -> MutexGuard<'static, Vec<Listening>> {
    LISTENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The peer by which a backend's database is reached. Those that no site has any more are not
/// listened for from now on.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn peer(config: &BackendConfig) -> Result<Peer, String> {
    let (path, is_made) = database::prepare(config)?;
    let mut listening = those_listening();
    if is_made {
        let is_same = |known: &Listening| database::path(&known.config) == path;
        tell_made(config, &path, listening.iter().any(is_same));
    }
    listening.retain(|known| {
        let is_known = known.listener.is_known();
        if !is_known {
            known.listener.stop();
        }
        is_known
    });
    let name = path.to_string_lossy().into_owned();
    if let Some(known) = listening.iter().find(|known| known.config == *config) {
        return Ok(known.listener.peer(&name));
    }
    let new =
        begin(config, &path).map_err(|why: io::Error| format!("no thread can be begun: {why}"))?;
    let peer = new.listener.peer(&name);
    listening.push(new);
    Ok(peer)
}

/// Begins to listen for a database.
fn begin(config: &BackendConfig, path: &Path) -> io::Result<Listening> {
    let timeout = config.pool.timeout;
    let shared = Arc::new(Shared {
        writer: Writer::new(path.to_owned(), timeout),
        path: path.to_owned(),
        timeout,
        words: Words::new(&config.name),
    });
    let listener = Arc::new(LocalListener::bind()?);
    let threads = Arc::new(Threads::of(config.pool.connections_max as usize));
    let listen = {
        let (listener, shared, threads) = (listener.clone(), shared.clone(), threads.clone());
        let name = format!("sqlite-{}", config.name);
        move || listen(&listener, &name, &shared, &threads)
    };
    threads::Builder::new()
        .name("sqlite".to_owned())
        .spawn(listen)?;
    Ok(Listening {
        config: config.clone(),
        listener,
        shared,
        threads,
    })
}

/// For how long a server that ends waits for the threads of its databases: their statements are
/// stopped as those who asked are gone.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// Closes the databases, since nobody asks them any more: the files alone have all that was written
/// then, as the last connection to one puts into it what is only in its log (`-wal`).
pub fn close() {
    let until = Instant::now() + LAST_MOMENT;
    let all: Vec<_> = (those_listening().iter())
        .map(|known| (known.shared.clone(), known.threads.clone()))
        .collect();
    for (shared, threads) in all {
        let have_ended = threads.have_ended(until);
        let has_all = shared.writer.close();
        if !have_ended || !has_all {
            tracing::warn!(
                file = %shared.path.display(),
                "the database is in use yet: what was written last may be in FILE-wal alone, so \
                 keep that beside it"
            );
        }
    }
}

/// A pool of a worker's is there, until this is dropped.
///
/// # Errors
/// Its database is not listened for.
pub(super) fn enter(config: &BackendConfig) -> Result<Pool, String> {
    let listening = those_listening();
    let known = listening.iter().find(|known| known.config == *config);
    let known = known.ok_or_else(|| "it was not looked up".to_owned())?;
    Ok(known.threads.enter())
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

/// The threads of a database, of which each pool may have so many.
#[derive(Debug)]
struct Threads {
    a_pool: usize,
    count: Mutex<Count>,
    has_room: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    pools: usize,
    threads: usize,
}

impl Threads {
    /// Those for pools that have so many connections.
    fn of(connections: usize) -> Threads {
        Threads {
            a_pool: connections.saturating_mul(THREADS_A_CONNECTION).max(1),
            count: Mutex::default(),
            has_room: Condvar::new(),
        }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a pool more.
    fn enter(self: &Arc<Threads>) -> Pool {
        self.count().pools += 1;
        self.has_room.notify_one();
        Pool(self.clone())
    }

    /// Waits until all have ended, and then at most. Whether they have.
    fn have_ended(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let are_there = |count: &mut Count| count.threads > 0;
        let waited = (self.has_room).wait_timeout_while(self.count(), left, are_there);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits until one more may be begun, and counts it.
    fn begin(self: &Arc<Threads>) -> Counted {
        let is_full = |count: &mut Count| {
            let most = self.a_pool.saturating_mul(count.pools.max(1));
            count.threads >= most
        };
        let waited = self.has_room.wait_while(self.count(), is_full);
        waited.unwrap_or_else(PoisonError::into_inner).threads += 1;
        Counted(self.clone())
    }
}

/// A pool that may have threads, until this is dropped.
#[derive(Debug)]
pub(super) struct Pool(Arc<Threads>);

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.count().pools -= 1;
    }
}

/// A thread that is counted, until this is dropped.
struct Counted(Arc<Threads>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count().threads -= 1;
        self.0.has_room.notify_all();
    }
}

/// How often a thread that listens looks whether any site has its database.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

/// Begins a thread for each connection, until no site has the database any more. With as many
/// threads as there may be the next connection waits for one of them to end: nobody greets it until
/// then.
fn listen(listener: &Arc<LocalListener>, name: &str, shared: &Arc<Shared>, threads: &Arc<Threads>) {
    loop {
        if !listener.waits(LOOKS_EVERY) {
            // Who looks it up has this lock, too.
            let mut listening = those_listening();
            if !listener.is_known() {
                return listening.retain(|known| !Arc::ptr_eq(&known.listener, listener));
            }
            continue;
        }
        let counted = threads.begin();
        let begun = listener.accept().and_then(|stream| {
            let shared = shared.clone();
            let run = move || {
                let _counted = counted;
                thread::run(stream, &shared);
            };
            threads::Builder::new().name(name.to_owned()).spawn(run)
        });
        if let Err(why) = begun {
            if !listener.is_known() {
                return;
            }
            shared.words.apart(
                &why.to_string(),
                "no thread can be begun for a connection to the database: see how many files and \
                 threads the process may have",
            );
            // Most often no more files or threads may be had for now.
            threads::sleep(Duration::from_millis(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_net::PeerAddress;
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::sync::mpsc::{RecvTimeoutError, channel};

    #[test]
    fn a_connection_that_nobody_takes_is_not_greeted_until_somebody_does() {
        let listener = Arc::new(LocalListener::bind().unwrap());
        let peer = listener.peer("test");
        let PeerAddress::Local(name) = &peer.address else {
            panic!("{peer} is of another world");
        };
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let shared = Arc::new(Shared {
            writer: Writer::new("nowhere".into(), Duration::MAX),
            path: "nowhere".into(),
            timeout: Duration::MAX,
            words: Words::new("test"),
        });
        let all = Arc::new(Threads::of(1));
        let is_greeted = |stream: &mut UnixStream, within: u64| {
            let within = Duration::from_millis(within);
            stream.set_read_timeout(Some(within)).unwrap();
            stream.read_exact(&mut [0]).is_ok()
        };
        threads::scope(|scope| {
            scope.spawn(|| listen(&listener, "test", &shared, &all));
            let mut first: Vec<UnixStream> = (0..THREADS_A_CONNECTION)
                .map(|_| UnixStream::connect_addr(&address).unwrap())
                .collect();
            assert!(first.iter_mut().all(|it| is_greeted(it, 20_000)));
            let mut last = UnixStream::connect_addr(&address).unwrap();
            assert!(!is_greeted(&mut last, 100));
            first.pop();
            assert!(is_greeted(&mut last, 20_000));
            drop((first, last));
            drop(peer);
            // Its thread ends.
            listener.stop();
        });
    }

    #[test]
    fn each_pool_may_have_threads_of_its_own() {
        let all = Arc::new(Threads::of(1));
        let first = all.enter();
        let mut counted: Vec<Counted> = (0..THREADS_A_CONNECTION).map(|_| all.begin()).collect();
        let (tell, told) = channel();
        let begin = || {
            let (all, tell) = (all.clone(), tell.clone());
            threads::spawn(move || tell.send(all.begin()))
        };
        let begun = [begin(), begin()];
        let soon = Duration::from_millis(50);
        let waits = told.recv_timeout(soon);
        assert!(matches!(waits, Err(RecvTimeoutError::Timeout)));
        // A thread's end is room for one, and another pool for as many as the first has.
        counted.pop();
        let at_last = Duration::from_secs(20);
        counted.push(told.recv_timeout(at_last).unwrap());
        let waits = told.recv_timeout(soon);
        assert!(matches!(waits, Err(RecvTimeoutError::Timeout)));
        let second = all.enter();
        counted.push(told.recv_timeout(at_last).unwrap());
        for begun in begun {
            assert!(begun.join().unwrap().is_ok());
        }
        drop((first, second, counted));
        let left = all.count();
        assert_eq!((left.pools, left.threads), (0, 0));
    }
}
