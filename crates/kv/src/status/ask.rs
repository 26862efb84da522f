//! A question to a node, and its answer.

use super::place::Place;
use super::text::shown;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a node may take to answer, and how many bytes that may be.
const PATIENCE: Duration = Duration::from_secs(2);
const SAID_MAX: u64 = 256 << 10;

/// What a node said: values by their names.
pub(super) type Said = BTreeMap<String, String>;

/// Why a node has said nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// It is not reached, or does not answer in time.
    #[error(transparent)]
    Unreached(#[from] io::Error),
    /// Its name means no address.
    #[error("it has no address")]
    NoAddress,
    /// It ended in the midst of it, or went on and on.
    #[error("it said no more, or too much")]
    Unfinished,
    /// It answered something else, or calls others what no node is called.
    #[error("it is no node of a {0}")]
    NoNode(&'static str),
}

/// Asks each of these places, all at one time; the answers are in the order of the places. `of` is
/// what they are to be nodes of.
pub(super) fn ask_all(
    places: &[Place],
    command: &str,
    of: &'static str,
) -> Vec<Result<Said, AskError>> {
    thread::scope(|scope| {
        let asks: Vec<_> = (places.iter())
            .map(|place| {
                let one = move || ask(&place.at, command, of);
                thread::Builder::new().spawn_scoped(scope, one)
            })
            .collect();
        let answers = asks.into_iter().zip(places);
        answers
            .map(|(asked, place)| match asked.map(|thread| thread.join()) {
                Ok(Ok(said)) => said,
                // Where the system has no thread for it, it is asked behind the others.
                _ => ask(&place.at, command, of),
            })
            .collect()
    })
}

/// Asks one node, at `HOST:PORT`, for 2 seconds at most.
///
/// # Errors
/// It is not reached, or says something else than values.
pub(super) fn ask(at: &str, command: &str, of: &'static str) -> Result<Said, AskError> {
    heard(Speaker::told(at, command)?, of)
}

/// Asks one node likewise; the first line of its answer.
///
/// # Errors
/// It is not reached, or says no line.
#[cfg(feature = "consensus")]
pub(super) fn ask_line(at: &str, command: &str) -> Result<String, AskError> {
    let mut line = Vec::new();
    let speaker = Speaker::told(at, command)?.take(SAID_MAX);
    BufReader::new(speaker).read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(shown(&String::from_utf8_lossy(line))),
        None => Err(AskError::Unfinished),
    }
}

/// What a server says until a time.
struct Speaker {
    stream: TcpStream,
    until: Instant,
}

impl Speaker {
    /// The server at `HOST:PORT`, which is told this.
    fn told(at: &str, command: &str) -> Result<Speaker, AskError> {
        let until = Instant::now() + PATIENCE;
        let mut stream = connect(&addresses(at, until)?, until)?;
        stream.set_write_timeout(Some(left(until)?))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        Ok(Speaker { stream, until })
    }
}

impl Read for Speaker {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        self.stream.read(bytes)
    }
}

/// The time that is left.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

/// The addresses of a place, found until a time. The system may take longer to look a name up:
/// the thread that waits for it is left alone then.
fn addresses(at: &str, until: Instant) -> Result<Vec<SocketAddr>, AskError> {
    if let Ok(address) = at.parse() {
        return Ok(vec![address]);
    }
    let (tell, told) = mpsc::channel();
    let name = at.to_owned();
    thread::Builder::new().spawn(move || {
        // Who asked may have given up.
        let _ = tell.send(name.to_socket_addrs().map(Iterator::collect));
    })?;
    let found = told.recv_timeout(left(until)?).map_err(|_| {
        let late = "its address is not found in time";
        io::Error::new(ErrorKind::TimedOut, late)
    })?;
    let addresses: Vec<SocketAddr> = found?;
    match addresses.is_empty() {
        true => Err(AskError::NoAddress),
        false => Ok(addresses),
    }
}

/// A connection to the first of the addresses that takes one. Each has its share of the time.
fn connect(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for (at, address) in addresses.iter().enumerate() {
        let share = left(until)? / (addresses.len() - at) as u32;
        match TcpStream::connect_timeout(address, share) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What is said, up to its end; who knows by whom.
pub(super) fn heard(speaker: impl Read, of: &'static str) -> Result<Said, AskError> {
    let mut said = BufReader::new(speaker.take(SAID_MAX));
    let (mut stats, mut line) = (Said::new(), Vec::new());
    loop {
        line.clear();
        said.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(AskError::Unfinished);
        }
        let text = shown(&String::from_utf8_lossy(&line));
        let mut words = text.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("STAT"), Some(name), value) => {
                stats.insert(name.to_owned(), value.unwrap_or("").to_owned());
            }
            (Some("END"), ..) => return Ok(stats),
            _ => return Err(AskError::NoNode(of)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_a_node_says_is_bounded_and_escaped() {
        let stats = heard(&b"STAT node \x9b2J\xff\r\nEND\r\n"[..], "ring").unwrap();
        assert_eq!(stats["node"], "\\u{fffd}2J\\u{fffd}");
        let too_much = [b"STAT a 1\r\n".repeat(30_000), vec![b'a'; 1 << 20]];
        for said in too_much {
            let error = heard(said.as_slice(), "ring");
            assert!(matches!(error, Err(AskError::Unfinished)), "{error:?}");
        }
        let other = heard(&b"ERROR\r\n"[..], "ring").unwrap_err().to_string();
        assert_eq!(other, "it is no node of a ring");
    }

    /// As a name may have an address of each kind, and the node listens at one.
    #[test]
    fn all_addresses_are_tried_within_one_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let nobody = free.local_addr().unwrap();
        drop(free);
        let until = Instant::now() + PATIENCE;
        let stream = connect(&[nobody, there], until).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        let refused = connect(&[nobody, nobody], until).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let late = connect(&[nobody, there], Instant::now()).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let late = addresses("a.name:1", Instant::now()).unwrap_err();
        let is_late = |error: &io::Error| error.kind() == ErrorKind::TimedOut;
        assert!(matches!(late, AskError::Unreached(error) if is_late(&error)));
    }

    #[test]
    fn who_goes_on_slowly_is_not_waited_for() {
        let until = Instant::now() + Duration::from_millis(50);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut slow, _) = listener.accept().unwrap();
        let speaks = thread::spawn(move || {
            while slow.write_all(b"STAT a 1\r\n").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        assert!(heard(Speaker { stream, until }, "ring").is_err());
        speaks.join().unwrap();
    }

    /// Each takes its time, and all together take no longer.
    #[test]
    fn all_are_asked_at_one_time_and_answer_in_order() {
        let listeners = [(); 8].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let places = listeners.each_ref().map(|listener| Place {
            name: None,
            at: listener.local_addr().unwrap().to_string(),
        });
        let speak: Vec<_> = (listeners.into_iter().enumerate())
            .map(|(index, listener)| {
                thread::spawn(move || {
                    let (mut stream, _) = listener.accept().unwrap();
                    thread::sleep(Duration::from_millis(400));
                    write!(stream, "STAT node n{index}\r\nEND\r\n").unwrap();
                })
            })
            .collect();
        let begun = Instant::now();
        let said = ask_all(&places, "stats", "keyspace");
        assert!(begun.elapsed() < Duration::from_secs(2));
        for (index, said) in said.into_iter().enumerate() {
            assert_eq!(said.unwrap()["node"], format!("n{index}"));
        }
        speak.into_iter().for_each(|one| one.join().unwrap());
    }
}
