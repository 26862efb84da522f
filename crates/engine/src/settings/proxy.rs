//! What `service.toml` says of routes that another server answers: `[[proxy]]`.

use super::definition::{Mistake, bytes, choice, count, text, time, timeout};
use super::network::trusted;
use super::section::Section;
use super::url::BackendUrl;
use super::value::Value;
use crate::{choice, section};
use rhythm_protocol::http::head::is_token;
use rhythm_protocol::http::request::Method;
use std::cmp::Ordering;
use std::fmt::{self, Write};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// A `[[proxy]]` of `service.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Which paths.
    pub matches: Vec<ProxyPattern>,
    /// Where the servers are, as written; they have no path of their own.
    pub to: Vec<(String, BackendUrl)>,
    /// What else is said of it.
    pub settings: ProxySettings,
}

impl ProxyConfig {
    /// What logs and figures call it: the first of its patterns.
    pub fn name(&self) -> &str {
        self.matches.first().map_or("", ProxyPattern::as_str)
    }

    /// Its table as `service.toml` has it, with all keys.
    pub fn to_toml(&self) -> String {
        let list = |texts: Vec<&str>| {
            let quoted = texts
                .iter()
                .map(|it| Value::Text((*it).to_owned()).to_toml());
            quoted.collect::<Vec<_>>().join(", ")
        };
        let matches = list(self.matches.iter().map(ProxyPattern::as_str).collect());
        let to = list(self.to.iter().map(|(url, _)| url.as_str()).collect());
        let mut toml = format!("[[proxy]]\nmatch = [{matches}]\nto = [{to}]\n");
        for definition in self.settings.definitions() {
            let (key, value) = (definition.key, self.settings.get(definition.key));
            // Writing to a string cannot fail.
            let _ = writeln!(toml, "{key} = {}", value.to_toml());
        }
        toml
    }
}

/// Which paths a route has: segments, of which `*` is any one, and a last `**` all that follow, if
/// any do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyPattern {
    text: String,
    segments: Vec<PatternSegment>,
}

/// A segment of a pattern. Of two patterns that fit, the one goes before whose first segment that
/// differs comes first here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PatternSegment {
    /// This, after decoding.
    Literal(String),
    /// Any one that is not empty.
    One,
    /// All that follow, if any do.
    Rest,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not begin with a slash.
    #[error("a path begins with `/`")]
    Relative,
    /// `**` stands before the end.
    #[error("`**` is all that follows, and stands at the end")]
    RestWithin,
    /// A star stands beside other characters.
    #[error("`*` is a whole segment, as in `/a/*/b`")]
    StarWithin,
    /// A segment that no request's path has.
    #[error("no path has segments that are `.` or `..`, nor `?`, `#` or control characters")]
    Impossible,
}

impl ProxyPattern {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its path, where it is one alone.
    pub fn path(&self) -> Option<&str> {
        let is_literal = |segment: &PatternSegment| matches!(segment, PatternSegment::Literal(_));
        (self.segments.iter().all(is_literal)).then_some(&self.text)
    }

    /// Whether it has the path of these segments, decoded.
    pub fn has<'s>(&self, mut segments: impl Iterator<Item = &'s [u8]>) -> bool {
        for wanted in &self.segments {
            let fits = match (wanted, segments.next()) {
                (PatternSegment::Rest, _) => return true,
                (PatternSegment::Literal(text), Some(segment)) => text.as_bytes() == segment,
                (PatternSegment::One, Some(segment)) => !segment.is_empty(),
                (_, None) => false,
            };
            if !fits {
                return false;
            }
        }
        segments.next().is_none()
    }

    /// Whether it has all paths of these segments, of which some are any that are not empty.
    pub(crate) fn has_all_of<'s>(
        &self,
        mut segments: impl Iterator<Item = Option<&'s str>>,
    ) -> bool {
        for wanted in &self.segments {
            let fits = match (wanted, segments.next()) {
                (PatternSegment::Rest, _) => return true,
                (PatternSegment::Literal(text), Some(Some(segment))) => text == segment,
                (PatternSegment::One, Some(segment)) => segment != Some(""),
                (_, _) => false,
            };
            if !fits {
                return false;
            }
        }
        segments.next().is_none()
    }

    /// Which of two patterns that have a path goes before, being more specific: `Less`, this one.
    pub fn specificity(&self, other: &ProxyPattern) -> Ordering {
        self.segments.cmp(&other.segments)
    }

    /// Whether both have the same paths.
    pub fn is_same(&self, other: &ProxyPattern) -> bool {
        self.segments == other.segments
    }
}

impl fmt::Display for ProxyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ProxyPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<ProxyPattern, PatternError> {
        let path = text.strip_prefix('/').ok_or(PatternError::Relative)?;
        let mut segments = Vec::new();
        for segment in path.split('/') {
            if segments.last() == Some(&PatternSegment::Rest) {
                return Err(PatternError::RestWithin);
            }
            let is_impossible = |c: char| c.is_control() || matches!(c, '?' | '#');
            segments.push(match segment {
                "**" => PatternSegment::Rest,
                "*" => PatternSegment::One,
                "." | ".." => return Err(PatternError::Impossible),
                _ if segment.contains('*') => return Err(PatternError::StarWithin),
                _ if segment.contains(is_impossible) => return Err(PatternError::Impossible),
                _ => PatternSegment::Literal(segment.to_owned()),
            });
        }
        Ok(ProxyPattern {
            text: text.to_owned(),
            segments,
        })
    }
}

choice! {
    /// Which `Host` a server is told.
    pub enum HostSent {
        /// The client's.
        Client = "client",
        /// That of the server's URL.
        Upstream = "upstream",
    }
}

/// How the server is chosen that gets a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// The one with the fewest requests under way.
    Least,
    /// Always the same one for what requests have in common, as long as it is well.
    Same(KeptBy),
}

/// By what requests go to the same server. Where a request has no such value, or an empty one, it
/// is its client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptBy {
    /// Their client's address.
    Client,
    /// The value of a cookie of this name.
    Cookie(String),
    /// The value of the first field of this name, in lower case.
    Header(String),
}

impl FromStr for Balance {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Balance, Mistake> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let is_name = |name: &str| is_token(name.as_bytes());
        Ok(match words[..] {
            ["least"] => Balance::Least,
            ["client"] => Balance::Same(KeptBy::Client),
            ["cookie", name] if is_name(name) => Balance::Same(KeptBy::Cookie(name.to_owned())),
            ["header", name] if is_name(name) => {
                Balance::Same(KeptBy::Header(name.to_ascii_lowercase()))
            }
            _ => {
                return Err(Mistake::new(
                    "`balance` must be \"least\", \"client\", \"cookie NAME\" or \"header NAME\"",
                    "such as \"cookie JSESSIONID\"",
                ));
            }
        })
    }
}

fn balance(text: String) -> Result<String, Mistake> {
    text.parse::<Balance>().map(|_| text)
}

impl ProxySettings {
    /// Whether requests of this method are passed on.
    pub fn takes_method(&self, name: &[u8]) -> bool {
        let mut words = self.methods.split_ascii_whitespace();
        words.any(|word| word == ANY || word.as_bytes() == name)
    }

    /// The methods that are passed on, in the order of the settings.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.methods.split_ascii_whitespace()
    }

    /// How the server is chosen that gets a request.
    pub fn balance(&self) -> Balance {
        // It was read as such.
        self.balance.parse().unwrap_or(Balance::Least)
    }
}

/// Stands for all methods.
const ANY: &str = "any";

fn methods(text: String) -> Result<String, Mistake> {
    let mut words = text.split_ascii_whitespace();
    let wrong = words.find(|word| *word != ANY && !Method::is_taken(word.as_bytes()));
    let message = match wrong {
        Some(wrong) => format!("`methods` has `{wrong}`, which is no method that is passed on"),
        None if text.trim_ascii().is_empty() => "`methods` names none".to_owned(),
        None => return Ok(text),
    };
    Err(Mistake::new(
        message,
        "such as \"GET HEAD POST\", in capitals and with spaces between them, or \"any\"",
    ))
}

fn health_path(text: String) -> Result<String, Mistake> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_path || text.is_empty() {
        true => Ok(text),
        false => Err(Mistake::new(
            "`health` must be a path that begins with `/`",
            "such as \"/healthz\"; an empty one asks nothing",
        )),
    }
}

section! {
    /// A route that another server answers, beside `match` and `to`: docs/proxy.md.
    pub struct ProxySettings = "[proxy]" {
        /// The Host that the server is told: the client's, or that of the server's URL.
        host: HostSent = HostSent::Client; choice(HostSent::WORDS),
        /// Methods that are passed on, with spaces between them; others answer 405, or 501 where
        /// nothing here knows them. `"any"` passes on all but CONNECT, also those by which servers
        /// are managed (`PURGE`, `MKCOL`, `MOVE`): only for one that asks who may do that, and does
        /// not take all that comes from this machine for its own.
        methods: String = "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE".to_owned(); text(methods),
        /// Which of several servers gets a request: `"least"`, the one with the fewest under way;
        /// `"client"`, always the same one for a client's address, as long as it is well;
        /// `"cookie NAME"` and `"header NAME"`, the same one for the value of that cookie or header
        /// field, and for the client's address where a request has none.
        balance: String = "least".to_owned(); text(balance),
        /// For servers of `https://`: a file with the certificates (PEM) of those who may have
        /// signed the servers', in place of the system's.
        tls_ca: String = String::new(); text(Ok),
        /// A file with the certificate (PEM) that is shown to a server that asks for one.
        tls_certificate: String = String::new(); text(Ok),
        /// A file with its private key (PEM).
        tls_key: String = String::new(); text(Ok),
        /// Who may say in X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and Forwarded for
        /// whom it asks: addresses and networks such as "10.0.0.0/8", and `unix` for clients at a
        /// Unix socket, with spaces between them. What others say there is not passed on.
        trusted_proxies: String = String::new(); text(trusted),
        /// Connections of a worker to each of its servers at a time; a WebSocket holds one. One
        /// client has half of them at most, and so have all WebSockets together.
        connections_max: u32 = 64; count(1, 4096),
        /// Requests of a worker that wait for a connection at a time; beyond, they answer 503.
        waiting_max: u32 = 128; count(0, 65_536),
        /// The longest that a request waits for a connection to be free; then it answers 503.
        wait_timeout: Duration = Duration::from_secs(5); timeout(),
        /// The longest that opening a connection takes; then another server is tried, or the
        /// request answers 504.
        connect_timeout: Duration = Duration::from_secs(2); timeout(),
        /// How long after a server has begun to refuse connections requests wait for it, for which
        /// there is no other, since it may be started anew; those beyond `waiting_max`, and then
        /// all, answer 502 at once. Nothing of them was sent, whatever their method. 0s: they do so
        /// from the beginning.
        restart_timeout: Duration = Duration::from_secs(2); time(),
        /// The longest that an answer's head takes once the request is sent; then it answers 504.
        answer_timeout: Duration = Duration::from_secs(60); timeout(),
        /// The longest that a server takes nothing of a request, or sends nothing of an answer that
        /// it has begun, while it could; then it is given up. Of a WebSocket it holds for what the
        /// server does not take.
        piece_timeout: Duration = Duration::from_secs(60); timeout(),
        /// The longest that nothing passes either way on a WebSocket; then it is closed, since who
        /// is gone without a word would hold its connection for ever.
        tunnel_timeout: Duration = Duration::from_secs(3600); timeout(),
        /// For how long an idle connection is kept: less than the server keeps it (Node.js: 5s,
        /// gunicorn: 2s), since a request that meets its end may be lost. 0s: each request has a
        /// connection of its own.
        keep_alive: Duration = Duration::from_millis(1500); time(),
        /// How often a request is sent again whose connection died before anything of an answer
        /// came, where it has no content and its method may be repeated: GET, HEAD and OPTIONS.
        retries_max: u32 = 2; count(0, 10),
        /// Bytes of a request's content; beyond, it answers 413.
        content_bytes_max: Option<NonZeroU32> = None;
            bytes(1, u32::MAX).or_none("as many as the server takes"),
        /// Connections to a server that fail one after the other for it to be put aside, where
        /// there are others.
        failures_max: u32 = 1; count(1, 1000),
        /// For how long it is; then one request tries it.
        aside: Duration = Duration::from_secs(5); timeout(),
        /// A path that each server is asked for by GET, and that one in order answers with a status
        /// from 200 to 399; others are put aside. Empty: nothing is asked.
        health: String = String::new(); text(health_path),
        /// How often it is.
        health_interval: Duration = Duration::from_secs(5); timeout(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> ProxyPattern {
        text.parse().expect("a pattern")
    }

    fn has(text: &str, path: &str) -> bool {
        pattern(text).has(path[1..].split('/').map(str::as_bytes))
    }

    #[test]
    fn patterns_have_paths() {
        for (text, path, is_had) in [
            ("/app/**", "/app", true),
            ("/app/**", "/app/", true),
            ("/app/**", "/app/a/b", true),
            ("/app/**", "/apps", false),
            ("/**", "/", true),
            ("/**", "/a/b", true),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/", false),
            ("/a/*", "/a/b/c", false),
            ("/a/*/c", "/a/b/c", true),
            ("/a", "/a", true),
            ("/a", "/a/", false),
            ("/", "/", true),
        ] {
            assert_eq!(has(text, path), is_had, "{text} and {path}");
        }
    }

    #[test]
    fn the_more_specific_goes_before() {
        let ordered = ["/a/b", "/a/b/**", "/a/*", "/a/*/c", "/a/**", "/*", "/**"];
        for (index, text) in ordered.iter().enumerate() {
            for other in &ordered[index + 1..] {
                let order = pattern(text).specificity(&pattern(other));
                assert_eq!(order, Ordering::Less, "{text} before {other}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, error) in [
            ("app", PatternError::Relative),
            ("/**/a", PatternError::RestWithin),
            ("/a*", PatternError::StarWithin),
            ("/***", PatternError::StarWithin),
            ("/a/../b", PatternError::Impossible),
            ("/a?b", PatternError::Impossible),
        ] {
            assert_eq!(text.parse::<ProxyPattern>(), Err(error), "{text}");
        }
    }

    #[test]
    fn methods_are_named_or_any() {
        let of = |text: &str| {
            methods(text.to_owned()).map(|methods| ProxySettings {
                methods,
                ..ProxySettings::default()
            })
        };
        let default = ProxySettings::default();
        for (name, is_taken) in [
            ("GET", true),
            ("TRACE", true),
            ("PURGE", false),
            ("get", false),
        ] {
            assert_eq!(default.takes_method(name.as_bytes()), is_taken, "{name}");
        }
        let named = of("GET  PURGE").expect("methods");
        assert!(named.takes_method(b"PURGE") && !named.takes_method(b"POST"));
        assert!(of("any").expect("a word").takes_method(b"MKCOL"));
        for wrong in ["", " ", "get", "GET, POST", "CONNECT", "Any"] {
            let read = of(wrong);
            assert_eq!(read.is_err(), wrong != "Any", "{wrong}");
        }
    }

    #[test]
    fn a_balance_is_a_word_or_names_what_keeps_requests_together() {
        let same = |by| Ok(Balance::Same(by));
        let wrong = "such as \"cookie JSESSIONID\"".to_owned();
        for (text, balance) in [
            ("least", Ok(Balance::Least)),
            ("client", same(KeptBy::Client)),
            (
                "cookie JSESSIONID",
                same(KeptBy::Cookie("JSESSIONID".to_owned())),
            ),
            (
                "header X-Tenant",
                same(KeptBy::Header("x-tenant".to_owned())),
            ),
            ("cookie", Err(wrong.clone())),
            ("header X:Tenant", Err(wrong.clone())),
            ("hash", Err(wrong.clone())),
            ("", Err(wrong)),
        ] {
            let read = text.parse::<Balance>().map_err(|mistake| mistake.hint);
            assert_eq!(read, balance, "{text}");
        }
    }
}
