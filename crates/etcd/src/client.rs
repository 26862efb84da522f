//! etcd's JSON gateway (its API version 3): JSON over HTTP/1.1, keys and values in base64, numbers
//! of 64 bits as text.

use crate::answer::{self, Answer};
use crate::error::EtcdError;
use crate::place::Place;
use crate::refusal::{self, Refusal, legible};
use crate::store::{At, Entry, Renewed, Store};
use crate::transaction::Transaction;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{Error, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

/// How long one server may take to take a connection, and to answer; and all of them together, of
/// which some may be out of reach: leases end meanwhile. Before one has answered none is at stake,
/// and nobody knows which are there: then each has its time, however many they are.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_IN_ALL: Duration = Duration::from_secs(2);
/// How long it is waited before etcd is asked again for what it did not answer.
const REST: Duration = Duration::from_millis(50);

/// Servers of etcd, and the prefix of all keys that are meant.
#[derive(Clone, Debug)]
pub struct Etcd {
    places: Vec<String>,
    /// The same, and where they are.
    servers: Vec<Place>,
    prefix: String,
    /// The one that answered last, if one has.
    at: usize,
    has_answered: bool,
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
                servers: places.iter().map(|place| Place::new(place)).collect(),
                places,
                prefix: prefix.to_owned(),
                at: 0,
                has_answered: false,
            }),
        }
    }

    /// The servers, as HOST:PORT.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// What the keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Waits until something under the prefix has changed since a revision, or so much time is
    /// over.
    ///
    /// # Errors
    /// No server answers, or it refuses, or it ends the wait before either.
    pub fn wait(&mut self, since: i64, patience: Duration) -> Result<(), EtcdError> {
        let range = json!({ "key": self.key(""), "range_end": self.behind("") });
        self.watch(range, since, patience)
    }

    /// Waits until a key has changed since a revision, or so much time is over.
    ///
    /// # Errors
    /// No server answers, or it refuses, or it ends the wait before either.
    pub fn wait_for(&mut self, key: &str, since: i64, patience: Duration) -> Result<(), EtcdError> {
        self.watch(json!({ "key": self.key(key) }), since, patience)
    }

    fn watch(&mut self, mut range: Value, since: i64, patience: Duration) -> Result<(), EtcdError> {
        range["start_revision"] = json!(since + 1);
        let body = json!({ "create_request": range });
        let (place, begun) = (&mut self.servers[self.at], Instant::now());
        let (soon, until) = (begun + PATIENCE, begun + patience);
        let waited = (|| {
            let stream = place.connect(soon)?;
            let mut answer = Answer::begin(stream, place.name(), "/v3/watch", &body, soon)?;
            loop {
                if let Some(news) = answer.news() {
                    return Ok(Some((answer.status(), news)));
                }
                if answer.is_whole() {
                    return Err(Error::new(ErrorKind::UnexpectedEof, "it ended a watch"));
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !answer.more(left)? {
                    return Ok(None);
                }
            }
        })();
        let ended = match waited {
            Ok(None) => return Ok(()),
            Ok(Some((_, news))) if news["result"]["events"].is_array() => return Ok(()),
            Ok(Some(ended)) => Ok(ended),
            Err(error) => Err(error),
        };
        place.pass_over();
        let (status, news) = ended.map_err(|error| self.silent(error))?;
        let result = &news["result"];
        Err(match refusal::read(status, &news) {
            Some(Refusal::Final(said) | Refusal::Stranger(said)) => self.refused(said),
            Some(Refusal::NoSpace(said) | Refusal::NotFound(said) | Refusal::Now(said)) => {
                self.silent(Error::other(said))
            }
            // What it was to begin with is compacted by now, or something else.
            None => self.silent(Error::other(legible(&format!(
                "it ended a watch: {result}"
            )))),
        })
    }

    /// The keys of an answer, as they are under the prefix.
    fn found(&self, answer: &Value) -> Vec<Entry> {
        let bare = self.prefix.len() + 1;
        let entries = answer["kvs"].as_array().into_iter().flatten();
        let entries = entries.filter_map(|entry| {
            Some(Entry {
                key: plain(&entry["key"])?.get(bare..)?.to_owned(),
                value: plain(&entry["value"]).unwrap_or_default(),
                lease: number(&entry["lease"]).unwrap_or(0),
            })
        });
        entries.collect()
    }

    fn key(&self, key: &str) -> String {
        text(&format!("{}/{key}", self.prefix))
    }

    /// Behind the last key that begins with the prefix, this, and a slash: '0' follows '/'.
    fn behind(&self, folder: &str) -> String {
        text(&format!("{}{folder}0", self.prefix))
    }

    /// The server that was asked did not answer: the next is asked from now on.
    fn silent(&mut self, error: Error) -> EtcdError {
        let at = self.place();
        self.at = (self.at + 1) % self.places.len();
        EtcdError::Silent { at, error }
    }

    fn refused(&self, said: String) -> EtcdError {
        let at = self.place();
        EtcdError::Refused { at, said }
    }

    /// The server that is asked.
    fn place(&self) -> String {
        self.places[self.at].clone()
    }

    /// Asks the servers, one after the other, until one answers.
    fn ask(&mut self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let answer = self.ask_of(path, body)?;
        answer.ok_or_else(|| self.refused("there is no such thing".to_owned()))
    }

    /// The same, of something that may not be there: then it is none.
    fn ask_of(&mut self, path: &str, body: &Value) -> Result<Option<Value>, EtcdError> {
        let all = self.places.len() as u32;
        let (in_all, each) = match self.has_answered {
            true => (PATIENCE_IN_ALL, PATIENCE),
            false => {
                let in_all = PATIENCE_IN_ALL.max(PATIENCE * all);
                (in_all, in_all / all)
            }
        };
        let until = Instant::now() + in_all;
        let mut tried = 0;
        loop {
            let soon = until.min(Instant::now() + each);
            let place = &mut self.servers[self.at];
            let why = match ask_place(place, path, body, soon) {
                Ok(told) => {
                    self.has_answered = true;
                    return told.or_else(|refusal| self.read(refusal));
                }
                Err(why) => why,
            };
            let silent = self.silent(why);
            tried += 1;
            if tried >= all || Instant::now() >= until {
                return Err(silent);
            }
        }
    }

    /// What a refusal is, of what may not be there.
    fn read(&self, refusal: Refusal) -> Result<Option<Value>, EtcdError> {
        let at = self.place();
        match refusal {
            Refusal::NotFound(_) => Ok(None),
            Refusal::NoSpace(said) => Err(EtcdError::NoSpace { at, said }),
            Refusal::Final(said) | Refusal::Stranger(said) => Err(EtcdError::Refused { at, said }),
            Refusal::Now(said) => {
                let error = Error::other(said);
                Err(EtcdError::Silent { at, error })
            }
        }
    }
}

impl Store for Etcd {
    fn grant(&mut self, seconds: u64) -> Result<i64, EtcdError> {
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": seconds }))?;
        number(&answer["ID"]).ok_or_else(|| self.refused(legible(&answer.to_string())))
    }

    fn keep_alive(&mut self, lease: i64) -> Result<Option<Renewed>, EtcdError> {
        let answer = self.ask_of("/v3/lease/keepalive", &json!({ "ID": lease }))?;
        // Only who says so knows that it is gone.
        let Some(answer) = answer else {
            return Ok(None);
        };
        let result = &answer["result"];
        if result.is_null() {
            return Err(self.refused(legible(&answer.to_string())));
        }
        let seconds = number(&result["TTL"]).and_then(|seconds| u64::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| *seconds > 0);
        // The header is of before it was renewed.
        Ok(seconds.map(|seconds| Renewed {
            seconds,
            term: at(result).term,
        }))
    }

    fn revoke(&mut self, lease: i64) -> Result<(), EtcdError> {
        let asked = self.ask_of("/v3/lease/revoke", &json!({ "ID": lease }));
        asked.map(drop)
    }

    fn get(&mut self, key: &str) -> Result<(Option<Entry>, At), EtcdError> {
        let body = json!({ "key": self.key(key) });
        let answer = self.ask("/v3/kv/range", &body)?;
        Ok((self.found(&answer).pop(), at(&answer)))
    }

    fn entries(&mut self) -> Result<(Vec<Entry>, At), EtcdError> {
        let body = json!({ "key": self.key(""), "range_end": self.behind("") });
        let answer = self.ask("/v3/kv/range", &body)?;
        Ok((self.found(&answer), at(&answer)))
    }

    fn page(
        &mut self,
        folder: &str,
        behind: Option<&str>,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), EtcdError> {
        let from = match behind {
            // The next that there could be.
            Some(key) => format!("{key}\0"),
            None => format!("{folder}/"),
        };
        let body = json!({
            "key": self.key(&from),
            "range_end": self.behind(&format!("/{folder}")),
            "limit": most,
        });
        let answer = self.ask("/v3/kv/range", &body)?;
        Ok((self.found(&answer), answer["more"] == true))
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<bool, EtcdError> {
        let body = transaction.body(|key| self.key(key));
        // A lease that is not there has no keys.
        let answer = self.ask_of("/v3/kv/txn", &body)?;
        Ok(answer.is_some_and(|answer| answer["succeeded"] == true))
    }

    fn rest(&mut self) {
        thread::sleep(REST);
    }
}

/// Asks a server at its addresses, one after the other, until one can answer. One that may later
/// counts for more than one where somebody else answers.
fn ask_place(
    place: &mut Place,
    path: &str,
    body: &Value,
    until: Instant,
) -> std::io::Result<Result<Option<Value>, Refusal>> {
    let mut late = None;
    loop {
        // No address takes a connection where this fails.
        let stream = place.connect(until)?;
        let why = match answer::ask(stream, place.name(), path, body, until) {
            Ok((status, answer)) => match refusal::read(status, &answer) {
                Some(Refusal::Now(said)) => Err(Error::other(said)),
                Some(stranger @ Refusal::Stranger(_)) => Ok(stranger),
                told => {
                    place.answered();
                    return Ok(told.map_or(Ok(Some(answer)), Err));
                }
            },
            Err(error) => Err(error),
        };
        let why = late.map_or(why, Err);
        if !place.pass_over() || Instant::now() >= until {
            return why.map(Err);
        }
        late = why.err();
    }
}

/// A number, as the gateway writes it.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        value => value.as_i64(),
    }
}

/// When an answer was so.
fn at(answer: &Value) -> At {
    let of = |field: &str| number(&answer["header"][field]).unwrap_or(0);
    At {
        revision: of("revision"),
        term: of("raft_term").unsigned_abs(),
    }
}

fn text(plain: &str) -> String {
    STANDARD.encode(plain)
}

fn plain(value: &Value) -> Option<String> {
    let bytes = STANDARD.decode(value.as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
