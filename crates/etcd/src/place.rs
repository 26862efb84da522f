//! Where a server of etcd is: a name, and the addresses that it has.
//!
//! A name is looked up once, and anew where none of its addresses takes a connection. The system
//! may take its time for that, so a thread does it, and nobody waits longer than he wants to.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    name: String,
    /// The one that took a connection last comes first.
    addresses: Vec<SocketAddr>,
    look_up: Option<LookUp>,
}

/// A look-up under way.
type LookUp = Arc<Mutex<Receiver<Result<Vec<SocketAddr>>>>>;

impl Place {
    /// At HOST:PORT.
    pub(crate) fn new(name: &str) -> Place {
        Place {
            name: name.to_owned(),
            addresses: name.parse().into_iter().collect(),
            look_up: None,
        }
    }

    /// HOST:PORT.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A connection to one of its addresses.
    pub(crate) fn connect(&mut self, until: Instant) -> Result<TcpStream> {
        let is_name = self.name.parse::<SocketAddr>().is_err();
        let known = self.addresses.clone();
        let tried = self.connect_to(&known, usize::from(is_name), until);
        if tried.is_ok() || !is_name {
            return tried;
        }
        let found = self.look_up(until)?;
        let mut new = found.clone();
        new.retain(|address| !known.contains(address));
        self.addresses = found;
        match tried {
            Err(error) if new.is_empty() => Err(error),
            _ => self.connect_to(&new, 0, until),
        }
    }

    /// Tries these addresses, one after the other, until one takes a connection. Each has its share
    /// of the time, and so has what else there is to be done.
    fn connect_to(
        &mut self,
        addresses: &[SocketAddr],
        others: usize,
        until: Instant,
    ) -> Result<TcpStream> {
        let mut last = Error::from(ErrorKind::AddrNotAvailable);
        for (at, address) in addresses.iter().enumerate() {
            let rest = (addresses.len() - at + others) as u32;
            match TcpStream::connect_timeout(address, left(until)? / rest) {
                Ok(stream) => {
                    self.addresses = addresses.to_vec();
                    self.addresses.rotate_left(at);
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Has its name looked up, or waits on for what was begun before.
    fn look_up(&mut self, until: Instant) -> Result<Vec<SocketAddr>> {
        let look_up = match self.look_up.take() {
            Some(look_up) => look_up,
            None => {
                let (tell, told) = mpsc::channel();
                let name = self.name.clone();
                let look = move || {
                    let found = name.to_socket_addrs().map(Iterator::collect);
                    // Nobody may want to know any more.
                    let _ = tell.send(found);
                };
                thread::Builder::new()
                    .name("etcd address".into())
                    .spawn(look)?;
                Arc::new(Mutex::new(told))
            }
        };
        let told = {
            let told = look_up.lock().unwrap_or_else(PoisonError::into_inner);
            told.recv_timeout(left(until)?)
        };
        match told {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => {
                self.look_up = Some(look_up);
                let late = "its address is not found in time";
                Err(Error::new(ErrorKind::TimedOut, late))
            }
            // One of the copies of this place took what was found.
            Err(RecvTimeoutError::Disconnected) => Err(ErrorKind::Interrupted.into()),
        }
    }
}

/// How long it is until then; an error where that is past.
pub(crate) fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(Error::new(ErrorKind::TimedOut, "it did not answer in time")),
        false => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[test]
    fn all_addresses_of_a_name_are_tried_and_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let mut place = Place::new(&format!("localhost:{}", at.port()));
        let stream = place.connect(soon()).expect("it listens at one of them");
        assert_eq!(stream.peer_addr().expect("it is there"), at);
        assert_eq!(place.addresses.first(), Some(&at));
        // Nobody listens at another address of the name, which may have had it first.
        place.addresses = vec![([127, 0, 0, 2], at.port()).into(), at];
        place.connect(soon()).expect("it listens at the second");
        assert_eq!(place.addresses.first(), Some(&at));
        // It is somewhere else by now.
        place.addresses = vec![([127, 0, 0, 2], at.port()).into()];
        place.connect(soon()).expect("it is looked up anew");
        assert_eq!(place.addresses.first(), Some(&at));
        drop(listener);
        assert!(place.connect(soon()).is_err());
        assert!(place.addresses.contains(&at));
        let error = place.connect(Instant::now()).expect_err("there is no time");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(place.addresses.contains(&at));
    }
}
