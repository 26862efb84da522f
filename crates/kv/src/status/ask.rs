//! A question to a node, and its answer.

use super::place::Place;
use super::text::shown;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
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
    let address = at.to_socket_addrs()?.next().ok_or(AskError::NoAddress)?;
    let until = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    heard(Speaker { stream, until }, of)
}

/// What a server says until a time.
struct Speaker {
    stream: TcpStream,
    until: Instant,
}

impl Read for Speaker {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
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
