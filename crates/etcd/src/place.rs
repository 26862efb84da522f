//! Where a server of etcd is: a name, and the addresses that it has.
//!
//! A name is looked up once, and anew where none of its addresses takes a connection, or none that
//! does can answer. The system may take its time for that, so a thread does it, and nobody waits
//! longer than he wants to.

use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long what was found counts where nobody waited for it.
const FRESH: Duration = Duration::from_secs(5);

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    name: String,
    /// The one that took a connection last comes first, and who could not answer then last.
    addresses: Vec<SocketAddr>,
    /// So many could not, one after the other.
    failed: usize,
    /// None of them could: the name may have others by now.
    is_stale: bool,
    look_up: Option<LookUp>,
}

/// A look-up under way: what was found, and when.
type LookUp = Arc<Mutex<Receiver<(Instant, Result<Vec<SocketAddr>>)>>>;

impl Place {
    /// At HOST:PORT.
    pub(crate) fn new(name: &str) -> Place {
        Place {
            name: name.to_owned(),
            addresses: name.parse().into_iter().collect(),
            failed: 0,
            is_stale: false,
            look_up: None,
        }
    }

    /// One whose name has been looked up.
    #[cfg(test)]
    pub(crate) fn at(name: &str, addresses: &[SocketAddr]) -> Place {
        Place {
            addresses: addresses.to_vec(),
            ..Place::new(name)
        }
    }

    /// HOST:PORT.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A connection to one of its addresses.
    pub(crate) fn connect(&mut self, until: Instant) -> Result<TcpStream> {
        let mut can_look_up = self.name.parse::<SocketAddr>().is_err();
        if can_look_up && self.is_stale {
            // Where it is not found in half of the time, the addresses that are known may do yet.
            let half = Instant::now() + left(until)? / 2;
            can_look_up = self.look_up(half).is_err();
        }
        let known = self.addresses.clone();
        let tried = self.connect_to(&known, usize::from(can_look_up), until);
        if tried.is_ok() || !can_look_up {
            return tried;
        }
        self.look_up(until)?;
        let mut new = self.addresses.clone();
        new.retain(|address| !known.contains(address));
        match tried {
            Err(error) if new.is_empty() => Err(error),
            _ => self.connect_to(&new, 0, until),
        }
    }

    /// The address that took the last connection cannot answer now: it is the last to be tried from
    /// now on. Whether there is another that can, as far as is known.
    pub(crate) fn pass_over(&mut self) -> bool {
        let count = self.addresses.len();
        self.addresses.rotate_left(1.min(count));
        self.failed += 1;
        let is_another = self.failed < count;
        if !is_another {
            (self.failed, self.is_stale) = (0, true);
        }
        is_another
    }

    /// The address that took the last connection answered.
    pub(crate) fn answered(&mut self) {
        (self.failed, self.is_stale) = (0, false);
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

    /// Has the addresses of its name looked up, or waits on for what was begun before.
    fn look_up(&mut self, until: Instant) -> Result<()> {
        loop {
            let look_up = match &self.look_up {
                Some(look_up) => Arc::clone(look_up),
                None => Arc::clone(self.look_up.insert(begin(self.name.clone())?)),
            };
            let told = {
                let told = look_up.lock().unwrap_or_else(PoisonError::into_inner);
                told.recv_timeout(left(until)?)
            };
            if matches!(told, Err(RecvTimeoutError::Timeout)) {
                let late = "its address is not found in time";
                return Err(Error::new(ErrorKind::TimedOut, late));
            }
            self.look_up = None;
            match told {
                Ok((at, found)) if at.elapsed() < FRESH => {
                    self.addresses = found?;
                    (self.failed, self.is_stale) = (0, false);
                    return Ok(());
                }
                // It is from when the name was last asked for; or a copy of this place took it.
                _ => {}
            }
        }
    }
}

/// Begins to look a name up.
fn begin(name: String) -> Result<LookUp> {
    let (tell, told) = mpsc::channel();
    let look = move || {
        let found = name.to_socket_addrs().map(Iterator::collect);
        // Nobody may want to know any more.
        let _ = tell.send((Instant::now(), found));
    };
    thread::Builder::new()
        .name("etcd address".into())
        .spawn(look)?;
    Ok(Arc::new(Mutex::new(told)))
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

    #[test]
    fn who_cannot_answer_is_tried_last_and_the_name_looked_up_when_nobody_can() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let mut place = Place::new(&format!("localhost:{}", at.port()));
        let others = [2, 3].map(|last| ([127, 0, 0, last], at.port()).into());
        let _listeners = others.map(|at: SocketAddr| TcpListener::bind(at).expect("it is free"));
        place.addresses = others.to_vec();
        let connect = |place: &mut Place| {
            let stream = place.connect(soon()).expect("it listens there");
            stream.peer_addr().expect("it is there")
        };
        assert_eq!(connect(&mut place), others[0]);
        assert!(place.pass_over());
        assert_eq!(connect(&mut place), others[1]);
        // Who answered once counts no more as one who cannot.
        place.answered();
        assert!(place.pass_over());
        assert_eq!(connect(&mut place), others[0]);
        assert!(!place.pass_over());
        assert_eq!(connect(&mut place), at, "it is looked up anew");
    }

    #[test]
    fn what_is_found_is_waited_for_on_and_does_not_count_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let mut place = Place::new("nowhere.invalid:1");
        let (tell, told) = mpsc::channel();
        place.look_up = Some(Arc::new(Mutex::new(told)));
        let late = place.look_up(Instant::now() + Duration::from_millis(1));
        assert_eq!(late.expect_err("it is late").kind(), ErrorKind::TimedOut);
        assert!(place.look_up(Instant::now()).is_err(), "there is no time");
        tell.send((Instant::now(), Ok(vec![at]))).expect("it waits");
        let stream = place.connect(soon()).expect("it listens there");
        assert_eq!(stream.peer_addr().expect("it is there"), at);
        // From long ago.
        let (tell, told) = mpsc::channel();
        let begun = Instant::now().checked_sub(2 * FRESH).expect("it is up");
        let elsewhere = ([127, 0, 0, 2], at.port()).into();
        tell.send((begun, Ok(vec![elsewhere]))).expect("it waits");
        place.name = format!("127.1:{}", at.port());
        (place.addresses, place.look_up) = (Vec::new(), Some(Arc::new(Mutex::new(told))));
        drop(tell);
        place.look_up(soon()).expect("it is looked up anew");
        assert_eq!(place.addresses, [at]);
        assert!(place.look_up.is_none());
    }
}
