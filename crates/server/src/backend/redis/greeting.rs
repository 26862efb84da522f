//! How a connection is opened: the protocol, who this is, and the database.

use super::access::Access;
use super::reply::{Scalar, Scan, ServerError, Token, Tokens};
use super::request::write_words;
use crate::backend::password::PASSWORD_CURE;
use crate::backend::whole::whole;
use crate::backend::wire::Unreadable;

/// Most bytes of an answer while a connection is opened.
const ANSWER_MAX: usize = 1 << 16;

/// Opens one connection.
#[derive(Debug, Default)]
pub(super) struct Greeter {
    /// This side has begun.
    is_begun: bool,
    /// The beginning of an answer.
    begun: Vec<u8>,
    scan: Scan,
    /// How many answers are to come.
    owed: usize,
}

/// Why a connection cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Why, in words.
    pub(super) cause: String,
    /// What to do about it.
    pub(super) cure: &'static str,
}

impl From<Unreadable> for Refusal {
    fn from(_: Unreadable) -> Refusal {
        Refusal {
            cause: "what answers there does not speak Redis's protocol".to_owned(),
            cure: "see whether `url` names the server",
        }
    }
}

impl From<ServerError<'_>> for Refusal {
    fn from(error: ServerError<'_>) -> Refusal {
        let message = error.message();
        let is_old = error.code() == b"NOPROTO" || message.starts_with(b"unknown command");
        let cure = match error.code() {
            _ if is_old => "use Redis 6 or a later one, or Valkey, which speak RESP3",
            b"NOAUTH" => PASSWORD_CURE,
            b"WRONGPASS" | b"NOPERM" => "see the user in `url`, `password_file`, and the ACL there",
            b"LOADING" | b"BUSY" | b"MASTERDOWN" => "wait until it is ready",
            b"DENIED" => "set a password there, and `password_file` here",
            _ if message.starts_with(b"max number of clients") => {
                "lower `connections_max` or the workers, or raise the server's maxclients"
            }
            _ if message.starts_with(b"DB index") || message.starts_with(b"SELECT") => {
                "name another database in `url`"
            }
            _ => "see the server's own log",
        };
        Refusal {
            cause: error.in_words(),
            cure,
        }
    }
}

impl Greeter {
    /// Goes on with what came, nothing at first, and appends what is to be sent. How many bytes of
    /// the input are done with where the connection is ready; else all are.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn go_on(
        &mut self,
        access: &Access,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, Refusal> {
        if !self.is_begun {
            self.is_begun = true;
            self.owed = begin(access, out);
        }
        let mut used = 0;
        while self.owed > 0 {
            let scan = &mut self.scan;
            let answer = whole(&mut self.begun, &input[used..], |bytes| {
                scan.end(bytes, ANSWER_MAX)
            });
            let Some((answer, end)) = answer? else {
                return Ok(None);
            };
            used += end;
            match Tokens(&answer).next() {
                Some(Token::Scalar(Scalar::Error(error))) => {
                    return Err(ServerError(error).into());
                }
                Some(_) => self.owed -= 1,
                None => return Err(Unreadable.into()),
            }
        }
        Ok(Some(used))
    }
}

/// Says what is spoken, who asks, and of which database; how many answers that has.
fn begin(access: &Access, out: &mut Vec<u8>) -> usize {
    let password = access.password.get();
    let user = access.address.user.as_deref();
    let mut hello = vec!["HELLO", "3"];
    if password.is_some() || user.is_some() {
        // A user may need none, and then any is right.
        let password = password.as_ref().map_or("", |password| &password.0);
        hello.extend(["AUTH", user.unwrap_or("default"), password]);
    }
    hello.extend(["SETNAME", "rhythm"]);
    write_words(hello.len(), out, |word| {
        hello.iter().for_each(|text| word(text.as_bytes()));
    });
    if access.address.database == 0 {
        return 1;
    }
    let mut digits = itoa::Buffer::new();
    let database = digits.format(access.address.database);
    write_words(2, out, |word| {
        word(b"SELECT");
        word(database.as_bytes());
    });
    2
}
