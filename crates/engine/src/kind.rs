//! What the compiler must know of the kinds of backends that there are: the keys of their tables in
//! service.toml, and of the calls of pages. The backends themselves are the server's.

use crate::diagnostic::{Place, Report, Severity, did_you_mean_or};
use crate::program::{Asking, Form, Type};
use crate::settings::BackendConfig;
pub use crate::settings::BackendKey;

/// What the compiler must know of a kind of backend.
#[derive(Clone, Debug)]
pub struct BackendKind {
    /// What `kind = "..."` of service.toml says.
    pub name: &'static str,
    /// Keys of its own in its table of service.toml, beside those that all have.
    pub keys: &'static [BackendKey],
    /// How a page's call says what is asked.
    pub asks: Asks<'static>,
    /// Tells what is wrong with a call.
    pub check: fn(&PageCall<'_>) -> Option<CallMistake>,
    /// Tells what is wrong with a backend, as far as that is seen in files of its service: before
    /// its calls are looked at, which then are not.
    pub check_backend: fn(&BackendConfig) -> Option<BackendMistake>,
    /// How it keeps the sessions of several machines, if it can (`store` of `[session]`).
    pub keeps_sessions: Option<KeepsSessions>,
}

/// How a kind keeps sessions: the words of a command for each thing that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepsSessions {
    /// Gives the record under a key, if there is one, and keeps it for so long from now on.
    pub look_up: &'static [SessionWord],
    /// Puts a record under a key that nothing is under.
    pub begin: &'static [SessionWord],
    /// Puts another one there, if there is one. Answered by no row, or by 0, where there is none.
    pub change: &'static [SessionWord],
    /// Removes it.
    pub end: &'static [SessionWord],
    /// For how many seconds it keeps anything at most.
    pub seconds_max: u64,
}

/// A word of such a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionWord {
    /// This one.
    Is(&'static str),
    /// The key.
    Key,
    /// The record.
    Record,
    /// For how many seconds it is kept.
    Seconds,
}

/// How the calls of a kind's pages say what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks<'k> {
    /// By a template under this key: its outputs are the arguments.
    Template(&'k str),
    /// By a statement of SQL: under `query` where it only reads, under `exec` where it changes
    /// something; or by several that are one `transaction`. Their arguments have names, `:name`,
    /// and `args` says what each is.
    Sql,
    /// By the words of a command, a list of templates.
    Command(Command<'k>),
    /// By one of these keys, each a verb: what is asked are the words of a command, the verb first.
    Verbs(&'k [Verb]),
    /// By a request of HTTP: its method is a key with the path, a template; beside it what is sent,
    /// and where in the document that is answered rows and cells are.
    Http,
}

/// A command whose words are templates. What outputs print is part of their word, whatever it
/// holds ([`Form::words`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'k> {
    /// The key with the list of its words.
    pub key: &'k str,
    /// The commands that only read, in capital letters: their first word, or their first two, with
    /// a blank between. Others count as changing something.
    pub reads: &'k [&'k str],
    /// Those that look up the one key behind their name, in capital letters: several are merged,
    /// unless a page says otherwise.
    pub merges: &'k [&'k str],
}

impl Command<'_> {
    /// How a command of these words asks.
    pub(crate) fn asking<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Asking {
        let mut words = words.into_iter().map(str::to_ascii_uppercase);
        let name = words.next().unwrap_or_default();
        let both = format!("{name} {}", words.next().unwrap_or_default());
        let is = |known: &&str| **known == name || **known == both;
        match self.reads.iter().any(is) {
            true => Asking::Query,
            false => Asking::Exec,
        }
    }

    /// Whether several commands of these words are merged.
    pub(crate) fn merges<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> bool {
        let words: Vec<&str> = words.into_iter().collect();
        let is = |name: &str| self.merges.contains(&&*name.to_ascii_uppercase());
        matches!(words[..], [name, _] if is(name))
    }
}

/// A verb by which a kind is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verb {
    /// Its key; the value, a template, is the word behind it.
    pub key: &'static str,
    /// The words that follow, each under a key of its own: the key, and what it is where it is
    /// absent, if it may be.
    pub beside: &'static [(&'static str, Option<&'static str>)],
    /// It only reads.
    pub reads: bool,
}

impl<'k> Asks<'k> {
    /// The keys of a call that say it.
    pub fn keys(self) -> Vec<&'k str> {
        match self {
            Asks::Template(key) => vec![key],
            Asks::Sql => SQL_KEYS.to_vec(),
            Asks::Http => HTTP_KEYS.to_vec(),
            Asks::Command(command) => vec![command.key],
            Asks::Verbs(verbs) => {
                let keys = verbs.iter().flat_map(|verb| {
                    let beside = verb.beside.iter().map(|(key, _)| *key);
                    [verb.key].into_iter().chain(beside)
                });
                let mut all: Vec<&str> = Vec::new();
                for key in keys {
                    if !all.contains(&key) {
                        all.push(key);
                    }
                }
                all
            }
        }
    }
}

/// The keys of a call in SQL that say what is asked.
pub(crate) const SQL_KEYS: [&str; 4] = ["query", "exec", "transaction", "args"];

/// The keys of a call over HTTP that say what is asked.
pub(crate) const HTTP_KEYS: [&str; 9] = [
    "get", "post", "put", "patch", "delete", "json", "headers", "at", "fields",
];

/// A page's call, as its kind looks at it when the page is compiled. Of a transaction each
/// statement is one.
#[derive(Clone, Copy, Debug)]
pub struct PageCall<'a> {
    /// The backend, as service.toml has it.
    pub backend: &'a BackendConfig,
    /// What it asks.
    pub form: &'a Form,
    /// How.
    pub asking: Asking,
    /// The columns that the page names.
    pub columns: &'a [(String, Type)],
    /// Whether its answer has a name by which the page can look at it.
    pub has_name: bool,
    /// `row = ...`: one row must be answered, not any number.
    pub one_row: bool,
}

/// What is wrong with a backend, for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendMistake {
    /// The key of its table that it is about.
    pub key: &'static str,
    /// Where it is, if that is in a file which the key names.
    pub within: Option<Within>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// The file, by its path within the service's folder.
    pub file: String,
    /// Its text.
    pub text: String,
    /// How many bytes into that.
    pub offset: usize,
}

/// The part of a call that a mistake is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPart {
    /// What is asked.
    Asked,
    /// The columns of the answer.
    Columns,
}

/// What is wrong with a page's call, for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallMistake {
    /// What it is about.
    pub part: CallPart,
    /// Where in what is asked, if that is known: in which piece of its form, and how many bytes
    /// into it.
    pub at: Option<(usize, usize)>,
    /// Whether the page is refused.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: String,
}

/// The kinds, and the backends of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds<'k> {
    pub(crate) kinds: &'k [BackendKind],
    pub(crate) backends: &'k [BackendConfig],
    /// Whether mistakes that are reported are why a backend may be absent.
    pub(crate) backends_lost: bool,
}

impl<'k> Kinds<'k> {
    /// A backend and its kind.
    pub(crate) fn of(&self, backend: &str) -> Option<(&'k BackendConfig, &'k BackendKind)> {
        let config = self.backends.iter().find(|config| config.name == backend)?;
        let kind = self.kinds.iter().find(|kind| kind.name == config.kind)?;
        Some((config, kind))
    }

    /// A backend's number, by its name; reports what there is where it is not.
    pub(crate) fn find(&self, name: &str, place: Place<'_>, report: &mut Report) -> Option<usize> {
        let found = (self.backends.iter()).position(|backend| backend.name == name);
        if found.is_none() && !self.backends_lost {
            let names = self.backends.iter().map(|backend| backend.name.as_str());
            let nothing = format!("service.toml needs a table [backend.{name}]");
            let hint = did_you_mean_or(name, names, &nothing);
            report.error(place, format!("service.toml has no backend `{name}`"), hint);
        }
        found
    }
}
