//! etcd's JSON gateway (its API version 3): JSON over HTTP/1.1, keys and values in base64, numbers
//! of 64 bits as text.

use crate::wire::base64;
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::client::{RequestWriter, ResponseFraming, ResponseHead, parse_response};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::Method;
use serde_json::{Value, json};
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

/// Why etcd could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// The place is none.
    #[error("{0:?} is no place of etcd: HOST:PORT[,HOST:PORT]/PREFIX")]
    Place(String),
    /// None of its servers answered; the last one's reason.
    #[error("etcd at {at} does not answer: {error}")]
    Silent {
        /// Which.
        at: String,
        /// Why.
        error: std::io::Error,
    },
    /// It refused.
    #[error("etcd at {at} refuses: {said}")]
    Refused {
        /// Which.
        at: String,
        /// What it said.
        said: String,
    },
    /// Another node has the name.
    #[error(
        "a node called {name} is registered already, of {at}: take another name, end that one, or, \
         where it has died, begin again when its lease is over"
    )]
    NameTaken {
        /// Which.
        name: String,
        /// Where clients find the other.
        at: String,
    },
    /// There are as many nodes as there may be.
    #[error("the ring has {nodes_max} nodes already, and may have no more")]
    RingFull {
        /// So many.
        nodes_max: usize,
    },
}

/// A key under the prefix, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, behind the prefix and its slash.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The lease under which it is; 0: none.
    pub lease: i64,
}

/// Servers of etcd, and the prefix of a ring's keys.
#[derive(Clone, Debug)]
pub struct Etcd {
    places: Vec<String>,
    prefix: String,
    /// The one that answered last.
    at: usize,
}

impl Etcd {
    /// From `HOST:PORT[,HOST:PORT]/PREFIX`, as it stands behind `etcd://`.
    ///
    /// # Errors
    /// It is none.
    pub fn new(place: &str) -> Result<Etcd, EtcdError> {
        let wrong = || EtcdError::Place(place.to_owned());
        let (servers, prefix) = place.split_once('/').ok_or_else(wrong)?;
        let prefix = prefix.trim_matches('/');
        let places: Vec<String> = servers.split(',').map(str::to_owned).collect();
        let has_port = |place: &String| {
            let port = place.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            matches!(port, Some(Ok(1..)))
        };
        match prefix.is_empty() || !places.iter().all(has_port) {
            true => Err(wrong()),
            false => Ok(Etcd {
                places,
                prefix: prefix.to_owned(),
                at: 0,
            }),
        }
    }

    /// What the keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A lease of so many seconds: its number.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub(crate) fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": seconds }))?;
        number(&answer["ID"]).ok_or_else(|| self.refused(answer.to_string()))
    }

    /// Renews a lease: the seconds that it has again; none: there is no such lease any more.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn keep_alive(&mut self, lease: i64) -> Result<Option<u64>, EtcdError> {
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": lease }))?;
        // Only who says so knows that it is gone.
        if answer["result"].is_null() && !answer.to_string().contains("not found") {
            return Err(self.refused(answer.to_string()));
        }
        let seconds = number(&answer["result"]["TTL"]).unwrap_or(0);
        Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0))
    }

    /// Ends a lease, and the keys under it.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        let asked = self.ask("/v3/lease/revoke", &json!({ "ID": lease }));
        asked.map(drop)
    }

    /// Has a key under a lease, if there is none of it. Whether it has: where not, the lease that
    /// the key is under may still be this one, as what is answered too late is asked again.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn create(&mut self, key: &str, value: &str, lease: i64) -> Result<bool, EtcdError> {
        let key = self.key(key);
        let body = json!({
            "compare": [
                { "target": "CREATE", "result": "EQUAL", "key": key, "create_revision": "0" }
            ],
            "success": [{ "request_put": { "key": key, "value": text(value), "lease": lease } }],
        });
        let answer = self.ask("/v3/kv/txn", &body)?;
        Ok(answer["succeeded"] == true)
    }

    /// Has a key, without a lease.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), EtcdError> {
        let body = json!({ "key": self.key(key), "value": text(value) });
        self.ask("/v3/kv/put", &body).map(drop)
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn delete(&mut self, key: &str) -> Result<(), EtcdError> {
        let body = json!({ "key": self.key(key) });
        self.ask("/v3/kv/deleterange", &body).map(drop)
    }

    /// All keys under the prefix, and the revision at which they are so.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn entries(&mut self) -> Result<(Vec<Entry>, i64), EtcdError> {
        let body = json!({ "key": self.key(""), "range_end": self.end() });
        let answer = self.ask("/v3/kv/range", &body)?;
        let revision = number(&answer["header"]["revision"]).unwrap_or(0);
        let bare = self.prefix.len() + 1;
        let none = Vec::new();
        let entries = answer["kvs"].as_array().unwrap_or(&none).iter();
        let entries = entries.filter_map(|entry| {
            Some(Entry {
                key: plain(&entry["key"])?.get(bare..)?.to_owned(),
                value: plain(&entry["value"]).unwrap_or_default(),
                lease: number(&entry["lease"]).unwrap_or(0),
            })
        });
        Ok((entries.collect(), revision))
    }

    /// Waits until something under the prefix has changed since a revision, or so much time is
    /// over.
    ///
    /// # Errors
    /// No server answers, or it refuses.
    pub fn wait(&mut self, since: i64, patience: Duration) -> Result<(), EtcdError> {
        let create = json!({
            "key": self.key(""), "range_end": self.end(), "start_revision": since + 1
        });
        let body = json!({ "create_request": create });
        let place = self.places[self.at].clone();
        let until = Instant::now() + patience;
        let waited = (|| {
            let mut answer = Answer::begin(&place, "/v3/watch", &body, true)?;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || answer.has_event() || !answer.more(left)? {
                    return Ok(());
                }
            }
        })();
        waited.map_err(|error| self.silent(error))
    }

    fn key(&self, key: &str) -> String {
        text(&format!("{}/{key}", self.prefix))
    }

    /// Behind the last key under the prefix: '0' follows '/'.
    fn end(&self) -> String {
        text(&format!("{}0", self.prefix))
    }

    fn silent(&mut self, error: std::io::Error) -> EtcdError {
        let at = self.places[self.at].clone();
        self.at = (self.at + 1) % self.places.len();
        EtcdError::Silent { at, error }
    }

    fn refused(&self, said: String) -> EtcdError {
        let at = self.places[self.at].clone();
        EtcdError::Refused { at, said }
    }

    /// Asks the servers, one after the other, until one answers.
    fn ask(&mut self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let mut tried = 0;
        loop {
            match ask_one(&self.places[self.at], path, body) {
                Ok((200, answer)) => return Ok(answer),
                Ok((_, answer))
                    if answer["error"]
                        .as_str()
                        .is_some_and(|e| e.contains("leader")) =>
                {
                    let error = std::io::Error::other("it has no leader");
                    let error = self.silent(error);
                    tried += 1;
                    if tried >= self.places.len() {
                        return Err(error);
                    }
                }
                // A lease that is not there is nothing that a renewal could find.
                Ok((404, answer)) => return Ok(answer),
                Ok((_, answer)) => return Err(self.refused(answer.to_string())),
                Err(error) => {
                    let error = self.silent(error);
                    tried += 1;
                    if tried >= self.places.len() {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The status and content of an answer.
fn ask_one(place: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
    let mut answer = Answer::begin(place, path, body, false)?;
    let until = Instant::now() + PATIENCE;
    while !answer.is_whole {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        if !answer.more(left)? && !answer.is_whole {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let content = serde_json::from_slice(&answer.body)?;
    Ok((answer.head.status(), content))
}

/// An answer that comes.
struct Answer {
    stream: TcpStream,
    head: ResponseHead,
    /// Bytes of the head that are not whole.
    gathered: Option<Vec<u8>>,
    chunks: Option<ChunkedDecoder>,
    body: Vec<u8>,
    is_whole: bool,
}

impl Answer {
    fn begin(place: &str, path: &str, body: &Value, is_long: bool) -> std::io::Result<Answer> {
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
    fn more(&mut self, patience: Duration) -> std::io::Result<bool> {
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
    fn has_event(&self) -> bool {
        let lines = self.body.split(|byte| *byte == b'\n');
        let mut told = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        told.any(|line| {
            let result = &line["result"];
            result["events"].is_array() || result["canceled"] == true || !line["error"].is_null()
        })
    }
}

/// A number, as the gateway writes it.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        value => value.as_i64(),
    }
}

fn text(plain: &str) -> String {
    let mut out = Vec::new();
    base64::encode(plain.as_bytes(), &mut out);
    out.into_iter().map(char::from).collect()
}

fn plain(value: &Value) -> Option<String> {
    let mut out = Vec::new();
    base64::decode(value.as_str()?.as_bytes(), &mut out)?;
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_servers_and_a_prefix() {
        let etcd = Etcd::new("10.0.0.1:2379,[::1]:2379/rings/a/").unwrap();
        assert_eq!(etcd.places, ["10.0.0.1:2379", "[::1]:2379"]);
        assert_eq!(etcd.prefix(), "rings/a");
        for wrong in ["", "host:1", "host/x", "host:1/", "host:0/x", "a:1,,b:2/x"] {
            assert!(Etcd::new(wrong).is_err(), "{wrong}");
        }
    }
}
