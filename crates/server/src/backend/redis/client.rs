//! A connection that is waited for, for whoever loads a site: it asks what the server knows of a
//! command.

use super::access::Access;
use super::greeting::{Greeter, Refusal};
use super::reply::{ANSWER_MAX, Scalar, Scan, Token, Tokens};
use super::request::write_words;
use crate::backend::http_client::UrlPlace;
use crate::backend::waited::{CURE, Waited, in_words};
use std::io;

/// What a server says of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing: this user may not ask, say.
    Nothing,
    /// It has no such command.
    Unknown,
    /// So many words it has, its name included; where negative, so many at least.
    Words(i64),
}

/// A connection to a place fails.
fn failed_at(place: &UrlPlace) -> impl Fn(io::Error) -> Refusal {
    move |why| Refusal {
        cause: in_words(place, &why),
        cure: CURE,
    }
}

/// Asks a server what it knows of a command.
///
/// # Errors
/// Why it cannot be asked.
pub(super) fn ask(access: &Access, name: &[u8]) -> Result<Told, Refusal> {
    let place = &access.address.place;
    let failed = failed_at(place);
    let mut connection = Waited::open(place, access.tls.as_ref()).map_err(&failed)?;
    let (mut greeter, mut out, mut input) = (Greeter::default(), Vec::new(), Vec::new());
    let used = loop {
        let ready = greeter.go_on(access, &input, &mut out)?;
        connection.write(&out).map_err(&failed)?;
        out.clear();
        if let Some(used) = ready {
            break used;
        }
        input.clear();
        connection.read(&mut input).map_err(&failed)?;
    };
    input.drain(..used);
    write_words(3, &mut out, |word| {
        [b"COMMAND", &b"INFO"[..], name].into_iter().for_each(word);
    });
    connection.write(&out).map_err(&failed)?;
    let mut scan = Scan::default();
    loop {
        if let Some(end) = scan.end(&input, ANSWER_MAX)? {
            return Ok(read(&input[..end]));
        }
        connection.read(&mut input).map_err(&failed)?;
    }
}

/// Reads the answer: a list of one command, itself a list of its name, its words, and more.
fn read(answer: &[u8]) -> Told {
    let mut values = Tokens(answer);
    match [values.next(), values.next(), values.next(), values.next()] {
        [
            Some(Token::List(_)),
            Some(Token::List(_)),
            _,
            Some(Token::Scalar(Scalar::Int(words))),
        ] => Told::Words(words),
        [Some(Token::List(_)), Some(Token::Scalar(Scalar::Null)), ..] => Told::Unknown,
        _ => Told::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_knows_of_a_command() {
        for (answer, told) in [
            (
                &b"*1\r\n*3\r\n$3\r\nget\r\n:2\r\n~1\r\n+readonly\r\n"[..],
                Told::Words(2),
            ),
            (b"*1\r\n_\r\n", Told::Unknown),
            (b"-NOPERM no\r\n", Told::Nothing),
        ] {
            assert_eq!(read(answer), told);
        }
    }
}
