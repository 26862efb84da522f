//! A client of all nodes of a cluster, one thing at a time: where one does not answer it asks the
//! next.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after a node could not be asked the next is.
const PAUSE: Duration = Duration::from_millis(2);

/// See the head of this file.
pub(super) struct Client {
    places: Vec<SocketAddr>,
    streams: Vec<Option<BufReader<TcpStream>>>,
    next: usize,
}

impl Client {
    /// The client of this number; they begin with different nodes.
    pub(super) fn new(places: &[SocketAddr], number: usize) -> Client {
        Client {
            places: places.to_vec(),
            streams: places.iter().map(|_| None).collect(),
            next: number % places.len(),
        }
    }

    /// Asks a node after the other what `ask` asks, until one answers.
    fn until<T>(&mut self, mut ask: impl FnMut(&mut BufReader<TcpStream>) -> io::Result<T>) -> T {
        loop {
            let node = self.next;
            self.next = (node + 1) % self.places.len();
            let answer = self.stream(node).and_then(&mut ask);
            match answer {
                Ok(answer) => return answer,
                // What else comes on it belongs to nothing that is asked from now on.
                Err(_) => self.streams[node] = None,
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
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let command = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        self.until(|stream| {
            stream.get_mut().write_all(command.as_bytes())?;
            match line(stream)?.as_str() {
                "STORED" => Ok(()),
                other => Err(io::Error::other(other.to_owned())),
            }
        });
    }

    /// How many of these keys are there.
    pub(super) fn count(&mut self, keys: &[String]) -> usize {
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
