//! One request to a server of etcd, on a connection of its own, and its answer as it comes.

use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{RequestWriter, ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::Method;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long etcd may take to take a connection, and to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an answer, and of its head.
const ANSWER_MAX: usize = 4 << 20;
const HEAD_MAX: usize = 16 << 10;
/// Bytes of what a watch tells over its life: then it is begun anew.
const WATCH_MAX: u64 = 64 << 20;

/// The status and content of an answer.
pub(crate) fn ask(place: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
    let mut answer = Answer::begin(place, path, body, false)?;
    let until = Instant::now() + PATIENCE;
    while !answer.is_whole {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !answer.more(left)? {
            let late = format!("it did not answer within {} s", PATIENCE.as_secs());
            return Err(std::io::Error::new(ErrorKind::TimedOut, late));
        }
    }
    let content = serde_json::from_slice(&answer.body)?;
    Ok((answer.head.status(), content))
}

/// An answer that comes.
pub(crate) struct Answer {
    stream: TcpStream,
    head: ResponseHead,
    /// Bytes of the head that are not whole.
    gathered: Option<Vec<u8>>,
    chunks: Option<ChunkedDecoder>,
    body: Vec<u8>,
    is_whole: bool,
}

impl Answer {
    pub(crate) fn begin(
        place: &str,
        path: &str,
        body: &Value,
        is_long: bool,
    ) -> std::io::Result<Answer> {
        let mut addresses = place.to_socket_addrs()?;
        let address = addresses.next().ok_or(ErrorKind::AddrNotAvailable)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = Vec::new();
        RequestWriter::new(&mut request, Method::Post, path.as_bytes(), place)
            .body(body.to_string().as_bytes());
        stream.write_all(&request)?;
        let body_max = match is_long {
            true => WATCH_MAX,
            false => ANSWER_MAX as u64,
        };
        let limits = ChunkLimits {
            body_max,
            ..ChunkLimits::default()
        };
        Ok(Answer {
            stream,
            head: ResponseHead::new(),
            gathered: Some(Vec::new()),
            chunks: Some(ChunkedDecoder::new(&limits)),
            body: Vec::new(),
            is_whole: false,
        })
    }

    /// Reads on, for so long at most. False: nothing came.
    pub(crate) fn more(&mut self, patience: Duration) -> std::io::Result<bool> {
        let invalid = || std::io::Error::from(ErrorKind::InvalidData);
        self.stream.set_read_timeout(Some(patience))?;
        let mut buffer = [0; 4096];
        let count = match self.stream.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        if count == 0 {
            // What has no length ends with the connection.
            let ends = self.head.framing() == ResponseFraming::UntilClose;
            self.is_whole |= self.gathered.is_none() && ends;
            return match self.is_whole {
                true => Ok(true),
                false => Err(ErrorKind::UnexpectedEof.into()),
            };
        }
        let mut read = &buffer[..count];
        let mut all;
        if let Some(gathered) = &mut self.gathered {
            gathered.extend_from_slice(read);
            let progress = parse_response(&mut self.head, gathered, HEAD_MAX, false);
            let Progress::Complete { head_len } = progress.map_err(|_| invalid())? else {
                return Ok(true);
            };
            all = self.gathered.take().unwrap_or_default();
            all.drain(..head_len);
            read = &all;
        }
        match (self.head.framing(), &mut self.chunks) {
            (ResponseFraming::Chunked, Some(chunks)) => {
                let decoded = chunks.decode(read, &mut self.body).map_err(|_| invalid())?;
                self.is_whole = decoded.done;
            }
            (framing, _) => {
                self.body.extend_from_slice(read);
                self.is_whole = match framing {
                    ResponseFraming::Length(length) => self.body.len() as u64 >= length,
                    ResponseFraming::None => true,
                    _ => false,
                };
            }
        }
        match self.body.len() <= ANSWER_MAX {
            true => Ok(true),
            false => Err(invalid()),
        }
    }

    /// Whether a line told of a change, and not only that the watch began.
    pub(crate) fn has_event(&self) -> bool {
        let lines = self.body.split(|byte| *byte == b'\n');
        let mut told = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        told.any(|line| {
            let result = &line["result"];
            result["events"].is_array() || result["canceled"] == true || !line["error"].is_null()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_says_nothing_is_late_and_who_hangs_up_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let place = listener.local_addr().expect("it has one").to_string();
        // The system takes the connection; nobody reads it.
        let error = ask(&place, "/x", &Value::Null).expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "it did not answer within 1 s");
        let hangs_up = std::thread::spawn(move || {
            drop(listener.accept());
            let (mut stream, _) = listener.accept().expect("the second");
            // All that was asked, so that its end is not a reset.
            let _ = stream.read(&mut [0; 4096]);
        });
        let error = ask(&place, "/x", &Value::Null).expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        hangs_up.join().expect("it ends");
    }
}
