//! A client of all nodes of a cluster, one thing at a time: where one does not answer it asks the
//! next, and gives up where none does for long.

use crate::reproduce::error::ReproduceError;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after a node could not be asked the next is.
const PAUSE: Duration = Duration::from_millis(2);

/// See the head of this file.
pub(super) struct Client {
    places: Vec<SocketAddr>,
    streams: Vec<Option<BufReader<TcpStream>>>,
    next: usize,
    gives_up_after: Duration,
}

impl Client {
    /// The client of this number; they begin with different nodes.
    pub(super) fn new(places: &[SocketAddr], number: usize, gives_up_after: Duration) -> Client {
        Client {
            places: places.to_vec(),
            streams: places.iter().map(|_| None).collect(),
            next: number % places.len(),
            gives_up_after,
        }
    }

    /// Asks a node after the other what `ask` asks, until one answers.
    fn until<T>(
        &mut self,
        mut ask: impl FnMut(&mut BufReader<TcpStream>) -> io::Result<T>,
    ) -> Result<T, ReproduceError> {
        let began = Instant::now();
        loop {
            let node = self.next;
            self.next = (node + 1) % self.places.len();
            let answer = self.stream(node).and_then(&mut ask);
            let why = match answer {
                Ok(answer) => return Ok(answer),
                Err(why) => why,
            };
            // What else comes on it belongs to nothing that is asked from now on.
            self.streams[node] = None;
            if began.elapsed() >= self.gives_up_after {
                return Err(ReproduceError::NoAnswer {
                    nodes: self.places.len(),
                    seconds: began.elapsed().as_secs(),
                    last: self.places[node],
                    said: why.to_string(),
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn stream(&mut self, node: usize) -> io::Result<&mut BufReader<TcpStream>> {
        Ok(match &mut self.streams[node] {
            Some(stream) => stream,
            none => {
                let stream = TcpStream::connect_timeout(&self.places[node], PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                none.insert(BufReader::new(stream))
            }
        })
    }

    /// Stores a value, and returns when that is confirmed.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), ReproduceError> {
        let command = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        self.until(|stream| {
            stream.get_mut().write_all(command.as_bytes())?;
            match line(stream)?.as_str() {
                "STORED" => Ok(()),
                other => Err(io::Error::other(other.to_owned())),
            }
        })
    }

    /// How many of these keys are there.
    pub(super) fn count(&mut self, keys: &[String]) -> Result<usize, ReproduceError> {
        let command = format!("get {}\r\n", keys.join(" "));
        self.until(|stream| {
            stream.get_mut().write_all(command.as_bytes())?;
            let mut found = 0;
            loop {
                let line = line(stream)?;
                if line == "END" {
                    return Ok(found);
                }
                let length = line
                    .strip_prefix("VALUE ")
                    .and_then(|rest| rest.rsplit(' ').next())
                    .and_then(|length| length.parse::<u64>().ok());
                let length = length.ok_or_else(|| io::Error::other(line))?;
                io::copy(&mut stream.by_ref().take(length + 2), &mut io::sink())?;
                found += 1;
            }
        })
    }
}

/// A line, without its end.
fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_is_answered_by_nobody_gives_up_and_says_what_the_last_node_said() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            assert_eq!(line(&mut stream).unwrap(), "get key");
            stream.get_mut().write_all(b"SERVER_ERROR no\r\n").unwrap();
        });
        let mut client = Client::new(&[place], 0, Duration::ZERO);
        let error = client.count(&["key".to_owned()]).unwrap_err().to_string();
        let expected = format!("none of 1 nodes answered for 0 s; {place}: SERVER_ERROR no");
        assert_eq!(error, expected);
        server.join().unwrap();
        // Nobody is there any more; it is tried again for a while.
        client.gives_up_after = Duration::from_millis(20);
        assert!(client.set("key", "value").is_err());
    }
}
