//! BeSim, the backend simulator of the Banking workload: in this process, or over HTTP.

mod embedded;
mod query_plan;
#[cfg(test)]
mod tests;
mod wire;

pub use embedded::EmbeddedBesim;
pub use wire::BesimWire;

use crate::backend::http_client::{BackendUrl, ResponseLimits};
use crate::backend::kind::{Kind, Opened, peers};
use crate::backend::waited;
use crate::backend::{ConnectionPool, InProcess, PoolOptions};
use rhythm_besim::{Bank, Command, EMBEDDED, Query};
use rhythm_engine::diagnostic::Severity;
use rhythm_engine::kind::{Asks, BackendKey, BackendKind, CallMistake, CallPart, PageCall};
use rhythm_engine::settings::{BackendConfig, Setting};
use rhythm_net::Peer;

/// Most queries at a time on a connection: BeSim answers what came together at once.
const DEPTH_MAX: usize = 128;

/// The kind. Its table in service.toml has `url` and `users`, its calls have `request`.
pub(in crate::backend) const KIND: Kind = Kind {
    declaration: BackendKind {
        name: rhythm_besim::KIND,
        asks: Asks::Template("request"),
        keys: &[
            BackendKey {
                name: "url",
                about: "in this process, or `\"http://HOST:PORT/PATH\"`, or at a Unix socket \
                        `\"http://unix:/SOCKET:/PATH\"`",
                default: Setting::Text(EMBEDDED),
                check: check_url,
                wrong: "this is no address of a backend",
                hint: "\"embedded\", or such as \"http://127.0.0.1:8081/besim\"; TLS (https) is \
                       not spoken: put a proxy that speaks it between",
            },
            BackendKey {
                name: "users",
                about: "embedded: user ids 1 to this number exist",
                default: Setting::Int(Bank::USERS_DEFAULT as i64),
                check: check_users,
                wrong: "`users` must be from 1 to 1073741824",
                hint: "",
            },
        ],
        check,
        check_backend: |_| None,
        keeps_sessions: None,
    },
    locate,
    reach,
    query_bytes_max,
    open,
};

fn check_url(url: &Setting) -> bool {
    let url = url.text();
    url == EMBEDDED || url.parse::<BackendUrl>().is_ok_and(|url| !url.speaks_tls)
}

fn check_users(users: &Setting) -> bool {
    (1..=1 << 30).contains(&users.int())
}

/// What BeSim refuses is warned of: a page may look at the status. Rows of another width fail the
/// page always. What answers at a URL may have more commands than BeSim.
fn check(call: &PageCall<'_>) -> Option<CallMistake> {
    let refused = |message: String, hint: String| CallMistake {
        part: CallPart::Asked,
        at: None,
        severity: Severity::Warning,
        message,
        hint,
    };
    let pieces = &call.form.pieces;
    let asked = pieces[0].strip_prefix(b"1&");
    let is_sound = match asked {
        Some([]) => !call.form.arguments.is_empty(),
        Some([first, ..]) => first.is_ascii_digit(),
        None => false,
    };
    let Some(asked) = asked.filter(|_| is_sound) else {
        let hint = "`1&`, a command's number, and its arguments: \"1&3&{{ session.userid }}\"";
        let message = "BeSim refuses all requests of this form";
        return Some(refused(message.to_owned(), hint.to_owned()));
    };
    // Which command a page's values choose is not known here.
    let end = asked.iter().position(|byte| *byte == b'&');
    let end = end.or((pieces.len() == 1).then_some(asked.len()))?;
    let number = Query::command_named(&asked[..end])?;
    let Some(command) = Command::of(number) else {
        // Command 0 asks for nothing, and gets that.
        let may_be = number == 0 || call.backend.text("url") != EMBEDDED;
        let message = format!("BeSim has no command {number}");
        let hint = format!("1 to {}: docs/backends.md lists them", Command::LAST);
        return (!may_be).then(|| refused(message, hint));
    };
    let separators = |piece: &[u8]| piece.iter().filter(|byte| **byte == b'&').count();
    let rest = pieces[1..].iter().map(|piece| separators(piece));
    let given = separators(&asked[end..]) + rest.sum::<usize>();
    let wanted = command.arguments.len();
    if given != wanted {
        let message = format!(
            "BeSim's command {number} takes {}",
            so_many(wanted, "argument", given)
        );
        return Some(refused(message, all_of(command.arguments)));
    }
    let (given, wanted) = (call.columns.len(), command.columns.len());
    (given != wanted).then(|| CallMistake {
        part: CallPart::Columns,
        at: None,
        severity: Severity::Error,
        message: format!(
            "BeSim's command {number} answers {}",
            so_many(wanted, "column", given)
        ),
        hint: all_of(command.columns),
    })
}

/// What a command takes or answers.
fn all_of(names: &[&str]) -> String {
    match names {
        [] => "it has none".to_owned(),
        names => names.join(", "),
    }
}

/// A number of things, and the one that there is instead.
fn so_many(wanted: usize, thing: &str, given: usize) -> String {
    let plural = if wanted == 1 { "" } else { "s" };
    format!("{wanted} {thing}{plural}, not {given}")
}

fn locate(config: &BackendConfig) -> Result<Vec<Peer>, String> {
    match remote(config)? {
        None => Ok(Vec::new()),
        Some(url) => peers(&url.place, None),
    }
}

fn query_bytes_max(config: &BackendConfig) -> usize {
    match remote(config) {
        Ok(Some(_)) => {
            let options = PoolOptions::of(config, DEPTH_MAX);
            // The beginning of an answer on each, in memory that grows by doubling.
            let answer = 3 * ResponseLimits::default().body_max;
            let answers = options.connections_max.saturating_mul(answer);
            options.query_bytes_max().saturating_add(answers)
        }
        _ => 0,
    }
}

fn open(config: &BackendConfig, peers: &[Peer]) -> Opened {
    let Some(url) = remote(config)? else {
        let users = u32::try_from(config.int("users")).unwrap_or(u32::MAX);
        return Ok(Box::new(InProcess(EmbeddedBesim::new(Bank::new(users)))));
    };
    let wire = BesimWire::new(&url, ResponseLimits::default());
    let (peers, options) = (peers.to_vec(), PoolOptions::of(config, DEPTH_MAX));
    Ok(Box::new(ConnectionPool::new(
        wire,
        &config.name,
        peers,
        options,
    )))
}

fn reach(config: &BackendConfig) -> Result<(), String> {
    match remote(config)? {
        Some(url) => waited::reach(&url.place, None),
        None => Ok(()),
    }
}

/// Where it is, if not in this process.
fn remote(config: &BackendConfig) -> Result<Option<BackendUrl>, String> {
    match config.text("url") {
        EMBEDDED => Ok(None),
        url => match url.parse::<BackendUrl>() {
            Ok(url) if url.speaks_tls => Err("TLS is not spoken with BeSim".to_owned()),
            Ok(url) => Ok(Some(url)),
            Err(why) => Err(format!("{}: {why}", config.shown_text("url"))),
        },
    }
}
