//! One request to a server of etcd, on a connection of its own, and its answer as it comes.

use crate::place::left;
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{RequestWriter, ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::Method;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes of an answer, and of its head.
const ANSWER_MAX: usize = 4 << 20;
const HEAD_MAX: usize = 16 << 10;
/// Bytes of what a watch tells over its life: then it is begun anew.
const WATCH_MAX: u64 = 64 << 20;

/// The status and content of an answer that has come by then, of a server of this name. What is no
/// JSON is a text.
pub(crate) fn ask(
    stream: TcpStream,
    name: &str,
    path: &str,
    body: &Value,
    until: Instant,
) -> std::io::Result<(u16, Value)> {
    let mut answer = Answer::begin(stream, name, path, body, until)?;
    while !answer.is_whole {
        answer.more(left(until)?)?;
    }
    Ok(answer.told())
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
    /// Where the line of the body begins that is looked at next, and up to where it has no end.
    line: usize,
    searched: usize,
}

impl Answer {
    /// Asks. What comes may be long: it is looked at bit by bit.
    pub(crate) fn begin(
        mut stream: TcpStream,
        name: &str,
        path: &str,
        body: &Value,
        until: Instant,
    ) -> std::io::Result<Answer> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(left(until)?))?;
        let mut request = Vec::new();
        RequestWriter::new(&mut request, Method::Post, path.as_bytes(), name)
            .body(body.to_string().as_bytes());
        stream.write_all(&request)?;
        let limits = ChunkLimits {
            body_max: WATCH_MAX,
            ..ChunkLimits::default()
        };
        Ok(Answer {
            stream,
            head: ResponseHead::new(),
            gathered: Some(Vec::new()),
            chunks: Some(ChunkedDecoder::new(&limits)),
            body: Vec::new(),
            is_whole: false,
            line: 0,
            searched: 0,
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

    /// As its head says; of no meaning before that has come.
    pub(crate) fn status(&self) -> u16 {
        self.head.status()
    }

    /// Whether all of it has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Its status and content.
    pub(crate) fn told(&self) -> (u16, Value) {
        let content = serde_json::from_slice(&self.body);
        let content = content
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&self.body).into_owned()));
        (self.head.status(), content)
    }

    /// The next line that tells of a change, or why nothing is told any more; others tell that the
    /// watch began. Each line is looked at once, when all of it has come.
    pub(crate) fn news(&mut self) -> Option<Value> {
        while self.line < self.body.len() {
            let mut rest = self.body[self.searched..].iter();
            let end = match rest.position(|byte| *byte == b'\n') {
                Some(at) => self.searched + at,
                // The last one needs none.
                None if self.is_whole => self.body.len(),
                None => {
                    self.searched = self.body.len();
                    return None;
                }
            };
            let told = serde_json::from_slice::<Value>(&self.body[self.line..end]);
            self.line = self.body.len().min(end + 1);
            self.searched = self.line;
            if let Ok(told) = told
                && is_news(&told)
            {
                return Some(told);
            }
        }
        None
    }
}

/// Whether a line of a watch tells of a change, or of its end.
fn is_news(line: &Value) -> bool {
    let result = &line["result"];
    result["events"].is_array() || result["canceled"] == true || result.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc;

    /// Long enough to mean never: with it a test that would hang fails.
    const NEVER: Duration = Duration::from_secs(60);

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(500)
    }

    #[test]
    fn a_line_is_looked_at_once_when_all_of_it_has_come() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let (say, says) = mpsc::channel::<&str>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            // All that was asked, so that the end is not a reset.
            let _ = stream.read(&mut [0; 4096]);
            for piece in says {
                stream.write_all(piece.as_bytes()).expect("it reads");
            }
        });
        let stream = TcpStream::connect(at).expect("it listens");
        let until = Instant::now() + NEVER;
        let mut answer = Answer::begin(stream, "x", "/x", &Value::Null, until).expect("asked");
        say.send("HTTP/1.1 200 X\r\n\r\n").expect("it runs");
        let mut sent = 0;
        let mut news = |pieces: &[&'static str]| {
            for piece in pieces {
                say.send(piece).expect("it runs");
                sent += piece.len();
            }
            let mut all = Vec::new();
            while answer.body.len() < sent {
                answer.more(NEVER).expect("it goes on");
                all.extend(std::iter::from_fn(|| answer.news()));
            }
            all
        };
        let begun = "{\"result\":{\"header\":{},\"created\":true}}\n";
        assert!(news(&[begun]).is_empty());
        let event = r#"{"result":{"events":[1]}}"#;
        assert!(news(&[event]).is_empty(), "it has no end yet");
        let told = |event: i32| serde_json::json!({ "result": { "events": [event] } });
        assert_eq!(news(&["\n", begun]), [told(1)]);
        assert!(news(&["{\"result\":{\"ev"]).is_empty());
        let rest = "ents\":[2]}}\n\n{\"result\":{\"events\":[3]}}\n{\"resu";
        assert_eq!(news(&[rest]), [told(2), told(3)]);
        // The last one ends with all of it.
        say.send("lt\":{\"events\":[4]}}").expect("it runs");
        drop(say);
        while !answer.is_whole() {
            answer.more(NEVER).expect("it ends well");
        }
        assert_eq!(answer.news(), Some(told(4)));
        assert_eq!(answer.news(), None);
        server.join().expect("it ends");
    }

    #[test]
    fn who_says_nothing_is_late_and_who_hangs_up_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let ask = || {
            let stream = TcpStream::connect(at).expect("it listens");
            ask(stream, "x", "/x", &Value::Null, soon())
        };
        // The system takes the connection; nobody reads it.
        let error = ask().expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "it did not answer in time");
        let hangs_up = std::thread::spawn(move || {
            drop(listener.accept());
            let (mut stream, _) = listener.accept().expect("the second");
            // All that was asked, so that its end is not a reset.
            let _ = stream.read(&mut [0; 4096]);
        });
        let error = ask().expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        hangs_up.join().expect("it ends");
    }
}
