//! What is compared, as data: a case is a file of crates/bench/cases, or the user's own, and
//! cases/peers.toml says how the servers are started that cases name.

use super::error::CompareError;
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

macro_rules! cases {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../cases/", $name, ".toml")))),*]
    };
}

/// The cases that there are.
const CASES: [(&str, &str); 8] = cases!(
    "account_summary" "account_summary-gzip" "account_summary-tls" "account_summary-tls-gzip"
    "fortunes" "fortunes-gzip" "proxy" "shop"
);
const PEERS: &str = include_str!("../../cases/peers.toml");

/// Connections of a case at most: their requests are under way all at once.
const CONNECTIONS_MAX: usize = 10_000;
/// Keys of a page at most: each of its pages is fetched from each server, and kept.
const KEYS_MAX: u32 = 10_000;

/// The names of the cases that there are, and what they are about.
///
/// # Errors
/// None that a test would not find: they are part of the program.
pub fn cases() -> Result<Vec<(&'static str, String)>, CompareError> {
    let about = |(name, text): (&'static str, &str)| Ok((name, Case::parse(name, text)?.about));
    CASES.into_iter().map(about).collect()
}

/// A case: servers that give the same pages, and how they are asked for them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    #[serde(skip)]
    pub name: String,
    /// What it is about, in a line.
    pub about: String,
    /// Requests under way at a time, each on a connection of its own: one run each.
    pub connections: Vec<usize>,
    /// Whether clients take gzip, and nothing else.
    #[serde(default)]
    pub gzip: bool,
    /// Whether they speak TLS.
    #[serde(default)]
    pub tls: bool,
    /// What is asked for.
    pub(super) page: Vec<Page>,
    /// What is no difference between pages.
    #[serde(default)]
    pub(super) alike: Vec<Alike>,
    /// The PostgreSQL that pages come from, if they do.
    #[serde(default)]
    pub(super) database: Option<Filled>,
    /// The peer that serves behind the servers, if one does.
    #[serde(default)]
    pub(super) upstream: Option<String>,
    /// The servers; the first is what the others are compared with.
    pub(super) server: Vec<Entry>,
    /// Servers that `peers.toml` does not have, or others under their names.
    #[serde(default)]
    pub(super) peer: BTreeMap<String, Peer>,
}

/// A page, or several of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) name: String,
    pub(super) target: String,
    /// `{key}` of the target is a number from 1 to this.
    #[serde(default)]
    pub(super) keys: Option<u32>,
    /// Whether each answer is another one, though an `alike` has them equal.
    #[serde(default)]
    pub(super) drawn: bool,
}

/// What is replaced before pages are compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alike {
    pub(super) find: String,
    pub(super) replace: String,
    /// Of which page; of all without it.
    #[serde(default)]
    pub(super) page: Option<String>,
}

/// A PostgreSQL of the case's own, and what it has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filled {
    pub(super) fill: Vec<Fill>,
}

/// Statements: a file, or what a command prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Fill {
    File { file: String },
    Command { command: Vec<String> },
}

/// A server of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) peer: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) with: BTreeMap<String, String>,
}

/// How a server is started: see cases/peers.toml.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) about: String,
    pub(super) command: Vec<String>,
    pub(super) install: String,
    #[serde(default)]
    pub(super) version: Vec<String>,
    #[serde(default)]
    pub(super) crates: Vec<String>,
    #[serde(default)]
    pub(super) cookie: Option<String>,
    #[serde(default)]
    pub(super) before: Option<Before>,
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) page_file: Option<String>,
    #[serde(default)]
    pub(super) page: Equality,
    #[serde(default)]
    pub(super) with: BTreeMap<String, String>,
}

/// What a server's page must be to the first server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Equality {
    /// The same, but for what is alike.
    #[default]
    Equal,
    /// As long, as it is sent.
    Length,
}

/// A request whose cookies the others have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Before {
    pub(super) method: String,
    pub(super) target: String,
    #[serde(default)]
    pub(super) form: String,
}

impl Case {
    /// The case of this name, or in this file (`NAME.toml`).
    ///
    /// # Errors
    /// There is none, or it is none: what is the matter.
    pub fn read(name: &str) -> Result<Case, CompareError> {
        if let Some((name, text)) = CASES.into_iter().find(|(known, _)| *known == name) {
            return Case::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Err(CompareError::NoCase {
                name: name.to_owned(),
                known: CASES.map(|(name, _)| name).join(", "),
            });
        }
        let text = fs::read_to_string(path).map_err(CompareError::file(path))?;
        let stem = path.file_stem().unwrap_or_default();
        Case::parse(&stem.to_string_lossy(), &text)
    }

    /// A case from the text of its file.
    ///
    /// # Errors
    /// What is the matter with it.
    pub fn parse(name: &str, text: &str) -> Result<Case, CompareError> {
        let failed = |why: String| CompareError::Case {
            case: name.to_owned(),
            why,
        };
        let mut case: Case = toml::from_str(text).map_err(|why| failed(why.to_string()))?;
        name.clone_into(&mut case.name);
        let peers: BTreeMap<String, Peer> =
            toml::from_str(PEERS).map_err(|why| failed(format!("peers.toml: {why}")))?;
        for (name, peer) in peers {
            case.peer.entry(name).or_insert(peer);
        }
        case.check().map_err(failed)?;
        Ok(case)
    }

    /// What is the matter with it.
    fn check(&self) -> Result<(), String> {
        let is_file = |name: &str| {
            !name.is_empty()
                && (name.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !is_file(&self.name) {
            return Err("its name, which files will have, has letters, digits, - and _".to_owned());
        }
        if self.page.is_empty() || self.server.is_empty() || self.connections.is_empty() {
            return Err("it has a [[page]], a [[server]] and connections at least".to_owned());
        }
        let sound = 1..=CONNECTIONS_MAX;
        if let Some(wrong) = (self.connections.iter()).find(|number| !sound.contains(number)) {
            return Err(format!(
                "connections: {wrong} is not 1 to {CONNECTIONS_MAX}"
            ));
        }
        for page in &self.page {
            match page.keys {
                Some(keys) if keys == 0 || keys > KEYS_MAX => {
                    return Err(format!("keys of {}: 1 to {KEYS_MAX}", page.name));
                }
                keys if keys.is_some() != page.target.contains("{key}") => {
                    return Err(format!(
                        "{}: a target with {{key}} has keys, and no other",
                        page.name
                    ));
                }
                _ => {}
            }
            if !page.target.starts_with(['/', '{']) || page.target.contains([' ', '\r', '\n']) {
                return Err(format!("the target of {} is a path", page.name));
            }
        }
        for alike in &self.alike {
            Regex::new(&alike.find).map_err(|why| why.to_string())?;
            let of = alike.page.as_deref();
            if of.is_some_and(|of| self.page.iter().all(|page| page.name != of)) {
                return Err(format!(
                    "alike: there is no page {}",
                    of.unwrap_or_default()
                ));
            }
        }
        for (number, entry) in self.server.iter().enumerate() {
            let peer = self.peer_of(entry)?;
            if self.server[..number]
                .iter()
                .any(|other| other.name == entry.name)
            {
                return Err(format!("two servers are called {}", entry.name));
            }
            if peer.command.is_empty() {
                return Err(format!("{} has no command", entry.peer));
            }
            let texts = peer.command.iter().chain(peer.files.values());
            let needs_page =
                peer.page_file.is_some() || texts.clone().any(|it| it.contains("{bytes}"));
            if needs_page && (number == 0 || self.page.len() > 1 || self.page[0].keys.is_some()) {
                return Err(format!(
                    "{} serves the page of the first server: it is not the first itself, and the \
                     case has one page",
                    entry.name
                ));
            }
            if self.upstream.is_none() && texts.clone().any(|it| it.contains("{upstream}")) {
                return Err(format!("{} needs an `upstream`", entry.name));
            }
            if self.database.is_none() && texts.clone().any(|it| it.contains("{database}")) {
                return Err(format!("{} needs a [[database.fill]]", entry.name));
            }
        }
        if let Some(entry) = self.entry_behind()
            && self.peer_of(&entry)?.command.is_empty()
        {
            return Err(format!("{} has no command", entry.peer));
        }
        if self.peer_of(&self.server[0])?.page == Equality::Length {
            return Err("the first server has the page that the others are to give".to_owned());
        }
        Ok(())
    }

    /// The server behind the others, if there is one, and how it is started.
    pub(super) fn behind(&self) -> Option<(Entry, &Peer)> {
        let entry = self.entry_behind()?;
        let peer = self.peer.get(&entry.peer)?;
        Some((entry, peer))
    }

    fn entry_behind(&self) -> Option<Entry> {
        let peer = self.upstream.clone()?;
        Some(Entry {
            name: peer.clone(),
            peer,
            with: BTreeMap::new(),
        })
    }

    /// Whether something of it is in the repository.
    pub(super) fn needs_root(&self) -> bool {
        let behind = self.entry_behind();
        let texts = self.server.iter().chain(&behind).flat_map(|entry| {
            let of_peer = self.peer.get(&entry.peer).into_iter().flat_map(|peer| {
                let texts = peer.command.iter().chain(peer.files.values());
                texts.chain(peer.with.values())
            });
            of_peer.chain(entry.with.values())
        });
        let fills = self.database.iter().flat_map(|database| &database.fill);
        let fills = fills.flat_map(|fill| match fill {
            Fill::File { file } => std::slice::from_ref(file),
            Fill::Command { command } => command,
        });
        texts.chain(fills).any(|text| text.contains("{root}"))
    }

    /// How a server of this case is started.
    ///
    /// # Errors
    /// There is no such.
    pub(super) fn peer_of(&self, entry: &Entry) -> Result<&Peer, String> {
        let peer = self.peer.get(&entry.peer);
        peer.ok_or_else(|| {
            let known: Vec<&str> = self.peer.keys().map(String::as_str).collect();
            format!(
                "there is no peer {}: there are {}",
                entry.peer,
                known.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = r#"
        about = "a test"
        connections = [1]
        [[page]]
        name = "page"
        target = "/"
        [[server]]
        peer = "banking"
        name = "one"
    "#;

    #[test]
    fn the_cases_that_there_are_can_be_read() {
        let cases = cases().expect("they can");
        assert_eq!(cases.len(), CASES.len());
        assert!(cases.iter().all(|(_, about)| !about.is_empty()));
        let case = Case::read("account_summary").expect("it is there");
        assert_eq!(
            (case.gzip, case.tls, &case.connections[..]),
            (false, false, &[1, 64][..])
        );
        assert_eq!(
            case.peer_of(&case.server[1]).expect("it is").page,
            Equality::Length
        );
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        Case::parse("own", OWN).expect("it makes sense");
        for (from, to, why) in [
            ("[1]", "[0]", "connections: 0 is not 1 to"),
            ("[1]", "[]", "connections at least"),
            ("\"/\"", "\"/{key}\"", "has keys"),
            ("\"/\"", "\"/\"\nkeys = 5", "has keys"),
            ("\"/\"", "\"x\"", "is a path"),
            ("banking", "bank", "there is no peer bank: there are "),
            ("banking", "limit", "not the first itself"),
            ("banking", "fortunes", "needs a [[database.fill]]"),
            ("banking", "proxy", "needs an `upstream`"),
            (
                "connections",
                "upstream = 'none'\nconnections",
                "there is no peer none",
            ),
            ("about", "abuot", "unknown field `abuot`"),
            (
                "[[server]]",
                "[[alike]]\nfind = '('\nreplace = ''\n[[server]]",
                "regex",
            ),
        ] {
            let text = OWN.replacen(from, to, 1);
            assert_ne!(text, OWN);
            let error = Case::parse("own", &text).expect_err(to).to_string();
            assert!(error.starts_with("own: ") && error.contains(why), "{error}");
        }
        let twice = format!("{OWN}\n[[server]]\npeer = \"banking\"\nname = \"one\"");
        assert!(Case::parse("own", &twice).is_err());
        let silent = "[peer.own]\nabout = ''\ncommand = []\ninstall = ''";
        let behind = format!("upstream = 'own'{OWN}\n{silent}");
        let error = Case::parse("own", &behind).expect_err("it cannot be started");
        assert_eq!(error.to_string(), "own: own has no command");
        assert!(Case::parse("../own", OWN).is_err());
        let error = Case::read("nothing")
            .expect_err("there is none")
            .to_string();
        assert!(error.contains("account_summary-gzip"), "{error}");
    }

    #[test]
    fn a_case_needs_the_repository_whatever_names_it() {
        let values = "with = { it = '{root}' }";
        for (top, of_server, of_peer, is_needed) in [
            ("", "", "", false),
            ("", values, "", true),
            ("", "", values, true),
            ("upstream = 'constant'", "", "", false),
            ("upstream = 'banking'", "", "", true),
        ] {
            let servers = OWN.replace("banking", "own");
            let peer = "[peer.own]\nabout = ''\ncommand = ['it']\ninstall = ''";
            let text = format!("{top}{servers}{of_server}\n{peer}\n{of_peer}");
            let case = Case::parse("own", &text).expect("it makes sense");
            assert_eq!(case.needs_root(), is_needed, "{text}");
        }
    }
}
