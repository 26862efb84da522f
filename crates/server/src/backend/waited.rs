//! A connection that is waited for, for whoever loads a site: a server is asked what it makes of
//! what pages ask.

use super::http_client::UrlPlace;
use crate::timed::{self, Timed, left};
use rhythm_engine::settings::BackendConfig;
use rhythm_net::tls::Connector;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long opening a connection and asking may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server that cannot be asked is not tried again for so long, so that a site of many pages does
/// not wait for it at each.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// An open connection.
pub(super) struct Waited {
    stream: Box<dyn Timed>,
    until: Instant,
}

impl Waited {
    /// Opens one.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn open(place: &UrlPlace, tls: Option<&Arc<Connector>>) -> io::Result<Waited> {
        let until = Instant::now() + PATIENCE;
        let stream = timed::connect(place, tls, until)?;
        stream.set_timeout(left(until)?)?;
        Ok(Waited { stream, until })
    }

    /// Sends all of this.
    ///
    /// # Errors
    /// The connection fails.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Appends what comes next.
    ///
    /// # Errors
    /// The connection fails, or nothing comes in time.
    pub(super) fn read(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        self.stream.set_timeout(left(self.until)?)?;
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                input.extend_from_slice(&bytes[..count]);
                Ok(())
            }
        }
    }
}

/// What to do about a server that cannot be connected to.
pub(super) const CURE: &str = "start it, or mend `url`";

/// What a failure of a connection to a place says, in words.
pub(super) fn in_words(place: &UrlPlace, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{place} does not answer")
        }
        // It was there.
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::InvalidData => format!("{place} does not go on: {why}"),
        _ => format!("{place} cannot be reached: {why}"),
    }
}

/// Whether there is a server at a place.
///
/// # Errors
/// Why none can be connected to, in words, and what to do about it.
pub(super) fn reach(place: &UrlPlace, tls: Option<&Arc<Connector>>) -> Result<(), String> {
    let opened = Waited::open(place, tls);
    (opened.map(drop)).map_err(|why| format!("{}; {CURE}", in_words(place, &why)))
}

/// A server that could not be asked, since when, and why.
type Tried<R> = (BackendConfig, Instant, R);

/// Servers of a kind that could not be asked.
pub(super) struct Absent<R>(Mutex<Vec<Tried<R>>>);

impl<R: Clone> Absent<R> {
    pub(super) const fn new() -> Absent<R> {
        Absent(Mutex::new(Vec::new()))
    }

    /// Asks one, unless it could not be asked of late.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub(super) fn unless_absent<T>(
        &self,
        config: &BackendConfig,
        ask: impl FnOnce() -> Result<T, R>,
    ) -> Result<T, R> {
        // It is held while the server is asked: one at a time does.
        let mut absent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        absent.retain(|(_, since, _)| since.elapsed() < LEFT_ALONE);
        if let Some((_, _, refusal)) = absent.iter().find(|(known, _, _)| known == config) {
            return Err(refusal.clone());
        }
        let answer = ask();
        if let Err(refusal) = &answer {
            absent.push((config.clone(), Instant::now(), refusal.clone()));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::channel;

    #[test]
    fn a_server_whose_queue_is_full_does_not_answer() {
        let path = std::env::temp_dir().join(format!("rhythm-waited-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        // None waits in its queue beside the first.
        rustix::net::listen(&listener, 0).unwrap();
        let _first = UnixStream::connect(&path).unwrap();
        let (tell, told) = channel();
        let place = UrlPlace::Socket(path.clone());
        std::thread::spawn(move || tell.send(reach(&place, None)));
        let reached = told.recv_timeout(10 * PATIENCE);
        // What still waits is refused now.
        drop(listener);
        let _ = std::fs::remove_file(&path);
        let told = format!("{} does not answer; {CURE}", path.display());
        assert_eq!(reached.unwrap(), Err(told));
    }
}
