//! Answers by which an authority sees that a name leads to this server (ACME, RFC 8555, section
//! 8.3): files that a client of ACME, such as certbot or lego, puts into a folder of its own.
//!
//! ```text
//!   worker: Challenges --- Order ---> the folder's thread --- Found ---> waker, Challenges
//! ```
//!
//! A folder may hang (a network's file system), so it is read on a thread, which all workers have
//! in common and which is left behind where it hangs as the server ends. Those who wait are few and
//! not for long: more answer 503. Whoever asks learns nothing but what lies in that folder under
//! the name of a token: no links, no other files, nothing long.

use rhythm_http::{AnswerShape, AnswerSlot, Answers, Host, Request};
use rhythm_net::files::open_regular_itself;
use rhythm_net::sparse::Sparse;
use rhythm_net::{Time, Token, Waker};
use rhythm_protocol::http::request::Method;
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Below this path tokens are asked for, and below a web root they lie.
pub(crate) const PATH: &str = "/.well-known/acme-challenge/";

/// A token and what proves that its asker has the account's key: some 90 bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// No file has a longer name.
const TOKEN_BYTES_MAX: usize = 255;

/// Requests of a worker, and of all of them together, that wait for the folder.
const WAITING_MAX: usize = 64;

/// The longest that one does.
const PATIENCE: Duration = Duration::from_secs(5);

/// The way to a folder's thread. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Webroot(SyncSender<Order>);

/// A file to be read, and where it goes.
#[derive(Debug)]
struct Order {
    slot: AnswerSlot,
    token: String,
    found: Sender<Found>,
    waker: Waker,
}

/// A file that was read, or not.
#[derive(Debug)]
struct Found {
    slot: AnswerSlot,
    token: String,
    content: io::Result<Vec<u8>>,
}

impl Webroot {
    /// Starts the thread of this folder, below which [`PATH`] is or will be.
    ///
    /// # Errors
    /// There is no such folder, or the system has no resources.
    pub(crate) fn start(folder: &Path) -> io::Result<Webroot> {
        let about = |error: io::Error| {
            let why = format!("{}: {error}", folder.display());
            io::Error::new(error.kind(), why)
        };
        if !fs::metadata(folder).map_err(about)?.is_dir() {
            return Err(about(io::Error::other(
                "it is no folder: name the one that the ACME client is given (certbot's \
                 --webroot-path, lego's --http.webroot)",
            )));
        }
        let (orders, waiting) = sync_channel::<Order>(WAITING_MAX);
        let folder = folder.join(PATH.trim_start_matches('/'));
        let run = move || {
            for order in waiting {
                let Order {
                    slot,
                    token,
                    found,
                    waker,
                } = order;
                let content = read(folder.join(&token));
                let read = Found {
                    slot,
                    token,
                    content,
                };
                // Nobody waits for it where a worker has started anew.
                if found.send(read).is_ok() {
                    waker.wake();
                }
            }
        };
        let thread = std::thread::Builder::new().name("acme".to_owned());
        thread.spawn(run)?;
        Ok(Webroot(orders))
    }

    /// A worker's host, which this waker wakes.
    pub(crate) fn host(&self, waker: Waker) -> Challenges {
        let (done, found) = channel();
        Challenges {
            webroot: self.clone(),
            done,
            found,
            waker,
            waiting: HashMap::new(),
            failures: Sparse::default(),
        }
    }
}

/// The token that a path asks for, if that is one (base64url, RFC 8555, section 8.1).
fn token(path: &[u8]) -> Option<&str> {
    let token = path.strip_prefix(PATH.as_bytes())?;
    let is_of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_token = (1..=TOKEN_BYTES_MAX).contains(&token.len()) && token.iter().all(is_of_base64);
    is_token.then(|| std::str::from_utf8(token).ok()).flatten()
}

/// Reads a file that is to be regular and short, whatever is put there in its place.
fn read(path: PathBuf) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = open_regular_itself(&path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    match content.len() as u64 {
        ..=FILE_BYTES_MAX => Ok(content),
        _ => Err(io::Error::other(format!(
            "it has more than {FILE_BYTES_MAX} bytes, which no answer to a challenge has"
        ))),
    }
}

/// A worker's challenges. See the module's text.
#[derive(Debug)]
pub(crate) struct Challenges {
    webroot: Webroot,
    done: Sender<Found>,
    found: Receiver<Found>,
    waker: Waker,
    /// Who waits for a file, and until when.
    waiting: HashMap<AnswerSlot, (Time, AnswerShape)>,
    failures: Sparse,
}

impl Challenges {
    /// The name of this host among others. No settings can name it.
    pub(crate) const NAME: &str = "\0acme";

    /// Answers who waited.
    fn answer(&mut self, answers: &mut Answers<'_>, shape: AnswerShape, found: &Found) {
        let slot = found.slot;
        let error = match &found.content {
            Ok(content) => {
                return answers.answer(slot, shape, 200, content, |head| {
                    head.content_type("application/octet-stream").no_store();
                });
            }
            Err(error) => error,
        };
        if error.kind() != ErrorKind::NotFound
            && let Some(left_out) = self.failures.line(answers.now())
        {
            let token = &found.token;
            tracing::warn!(
                token,
                left_out,
                "an answer to an ACME challenge cannot be read: {error}"
            );
        }
        answers.error(slot, shape, 404, "");
    }
}

impl Host for Challenges {
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>) {
        let Request {
            slot,
            shape,
            head,
            bytes,
            ..
        } = request;
        if !matches!(head.method(), Method::Get | Method::Head) {
            return answers.answer(slot, shape, 405, b"GET or HEAD\n", |head| {
                head.allow(["GET", "HEAD"]).content_type("text/plain");
            });
        }
        let Some(token) = token(head.path(bytes)) else {
            return answers.error(slot, shape, 404, "");
        };
        let order = Order {
            slot,
            token: token.to_owned(),
            found: self.done.clone(),
            waker: self.waker.clone(),
        };
        if self.waiting.len() >= WAITING_MAX || self.webroot.0.try_send(order).is_err() {
            return answers.error(slot, shape, 503, "");
        }
        let until = answers.now() + PATIENCE;
        self.waiting.insert(slot, (until, shape));
    }

    fn gone(&mut self, slot: AnswerSlot) {
        self.waiting.remove(&slot);
    }

    fn notified(&mut self, answers: &mut Answers<'_>, _: Token) {
        while let Ok(found) = self.found.try_recv() {
            // Others are gone, or were given up.
            if let Some((_, shape)) = self.waiting.remove(&found.slot) {
                self.answer(answers, shape, &found);
            }
        }
    }

    fn tick(&mut self, answers: &mut Answers<'_>) {
        let now = answers.now();
        let is_late = |_: &AnswerSlot, (until, _): &mut (Time, AnswerShape)| *until <= now;
        let late: Vec<_> = self.waiting.extract_if(is_late).collect();
        if !late.is_empty()
            && let Some(left_out) = self.failures.line(now)
        {
            tracing::warn!(
                left_out,
                "reading an answer to an ACME challenge takes too long: see `server.acme_webroot`"
            );
        }
        for (slot, (_, shape)) in late {
            answers.error(slot, shape, 503, "");
        }
    }

    fn wake_at(&self) -> Option<Time> {
        self.waiting.values().map(|(until, _)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_token_is_of_the_characters_that_there_may_be() {
        let path = |token: &str| format!("{PATH}{token}");
        for right in [
            "a",
            "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0",
            "-_09azAZ",
        ] {
            assert_eq!(token(path(right).as_bytes()), Some(right));
        }
        let long = "a".repeat(TOKEN_BYTES_MAX + 1);
        for wrong in [
            "", ".", "..", "a.b", "a/b", "../x", "%2e%2e", "a%62", "a=", "\u{e4}", &long,
        ] {
            assert_eq!(token(path(wrong).as_bytes()), None, "{wrong}");
        }
        assert_eq!(token(b"/.well-known/acme-challenge"), None);
    }

    #[test]
    fn links_pipes_folders_and_long_files_are_not_read() {
        let folder = std::env::temp_dir().join(format!("rhythm-acme-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("it is made");
        let at = |name: &str| folder.join(name);
        fs::write(at("token"), "token.print").expect("it is written");
        fs::write(at("long"), "x".repeat(FILE_BYTES_MAX as usize + 1)).expect("it is written");
        fs::create_dir(at("folder")).expect("it is made");
        symlink(at("token"), at("link")).expect("it is linked");
        let pipe = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        let token = read(at("token"));
        let refused = ["long", "folder", "link", "pipe", "none"].map(|name| read(at(name)));
        let started = ["none", "token"].map(|name| Webroot::start(&at(name)));
        fs::remove_dir_all(&folder).expect("it is there");
        assert!(pipe.expect("mkfifo runs").success());
        assert_eq!(token.expect("it is read"), b"token.print");
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        let [none, file] = started.map(|it| it.expect_err("it is no folder").to_string());
        assert!(none.contains("none: No such file"), "{none}");
        assert!(file.contains("certbot's"), "{file}");
    }
}
