//! Asks the admin listener of a running process for its status.

use serde_json::Value;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a process says of itself.
#[derive(Debug)]
pub(crate) struct Status {
    /// For people, with nothing in it by which a terminal does something.
    pub(crate) text: String,
    /// The rest, for programs.
    pub(crate) values: Value,
}

/// Asks for at most so many bytes.
pub(crate) fn ask(admin: SocketAddr, bytes_max: u64) -> io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut to = TcpStream::connect_timeout(&admin, PATIENCE)?;
    to.set_write_timeout(Some(PATIENCE))?;
    let head = format!("GET /status HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    to.write_all(head.as_bytes())?;
    let (mut answer, mut part) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        to.set_read_timeout(Some(left))?;
        let count = match to.read(&mut part) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        answer.extend_from_slice(&part[..count]);
        if answer.len() as u64 > bytes_max {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
    String::from_utf8(answer).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Why an answer is no status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// It is none of HTTP.
    NotHttp,
    /// It is an error.
    Code(String),
    /// It says something else.
    NotStatus,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::NotHttp => f.write_str("no answer of HTTP"),
            Unanswered::Code(code) => write!(f, "it answers: {code}"),
            Unanswered::NotStatus => f.write_str("it answers with something else than a status"),
        }
    }
}

impl std::error::Error for Unanswered {}

/// What an answer says.
///
/// # Errors
/// It says no status.
pub(crate) fn read(answer: &str) -> Result<Status, Unanswered> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(Unanswered::NotHttp)?;
    if !head.starts_with("HTTP/1.") {
        return Err(Unanswered::NotHttp);
    }
    let first = |text: &str| shown(text.lines().next().unwrap_or(""));
    if !head.starts_with("HTTP/1.1 200") {
        let said = format!("{} {}", first(head), first(body));
        return Err(Unanswered::Code(said));
    }
    let mut values: Value = serde_json::from_str(body).map_err(|_| Unanswered::NotStatus)?;
    let text = values.as_object_mut().and_then(|all| all.remove("text"));
    let Some(Value::String(text)) = text else {
        return Err(Unanswered::NotStatus);
    };
    Ok(Status {
        text: shown(&text),
        values,
    })
}

/// A text as a terminal may have it, whoever wrote it.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => shown.push('\n'),
            control if control.is_control() => shown.extend(control.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn the_text_is_told_and_others_are_not_believed() {
        let ok = "HTTP/1.1 200 OK\r\n\r\n{\"text\":\"up\\n\\u001b[2J\",\"rat\":[]}";
        let status = read(ok).expect("a status");
        assert_eq!(status.text, "up\n\\u{1b}[2J");
        assert_eq!(status.values.to_string(), "{\"rat\":[]}");
        for other in [
            "",
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.1 503 Service Unavailable\r\n\r\nthe monitor does not answer\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(read(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn who_says_too_much_is_not_heard_out() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let admin = listener.local_addr().expect("a port");
        let says = thread::spawn(move || {
            for text in ["0123456789", "01234567890"] {
                let (mut client, _) = listener.accept().expect("a client");
                client.read_exact(&mut [0; 16]).expect("a request");
                client.write_all(text.as_bytes()).expect("it reads");
                // What it has said is not to be lost by how it ends.
                client
                    .shutdown(std::net::Shutdown::Write)
                    .expect("it is there");
                let _ = client.read_to_end(&mut Vec::new());
            }
        });
        assert_eq!(ask(admin, 10).expect("an answer"), "0123456789");
        let error = ask(admin, 10).expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        says.join().expect("no panic");
    }
}
