//! Clients that speak HTTP where TLS is spoken, as who follows a link without the `s` of https:
//! they are told so, over the connection as it is, before it is closed.

use rhythm_net::sparse::Sparse;
use rhythm_net::tls::Strangers;
use rhythm_net::{Client, clock};
use std::sync::{Mutex, PoisonError};

/// What they are answered.
const ANSWER: &str = "HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 91\r\n\
    Connection: close\r\n\
    \r\n\
    HTTPS is spoken at this port, and this came as plain HTTP: ask for https:// in its place.\r\n";

/// Answers them, and tells the log, at most once a second.
#[derive(Debug, Default)]
pub struct NoTls {
    line: Mutex<Sparse>,
}

impl Strangers for NoTls {
    /// A method begins with a capital letter, and no record of TLS does; nor is it what a balancer
    /// says first in the PROXY protocol, or who takes the port for that of SSH.
    fn answer(&self, client: Client, begin: &[u8]) -> &[u8] {
        let is_method = begin.first().is_some_and(u8::is_ascii_uppercase);
        let others = [&b"PROXY "[..], b"SSH-"];
        if !is_method || others.iter().any(|other| begin.starts_with(other)) {
            return b"";
        }
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = line.line(clock::monotonic()) {
            tracing::info!(
                peer = %client,
                left_out,
                "a client spoke plain HTTP at a port for HTTPS: it was answered 400"
            );
        }
        let (head, _) = ANSWER.split_at(ANSWER.find("\r\n\r\n").map_or(0, |end| end + 4));
        match begin.starts_with(b"HEAD ") {
            true => head.as_bytes(),
            false => ANSWER.as_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_http_is_answered_whole_and_others_are_not() {
        let strangers = NoTls::default();
        let answer = |begin: &[u8]| strangers.answer(Client::Unix, begin);
        let (head, body) = ANSWER.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert_eq!(answer(b"G"), ANSWER.as_bytes());
        assert_eq!(
            answer(b"HEAD / HTTP/1.1\r\n"),
            &ANSWER.as_bytes()[..head.len() + 4]
        );
        // A greeting of TLS, and what is nothing.
        let others = [&b"\x16\x03\x01"[..], b"\x80\x2e", b"get /", b""];
        for begin in others
            .iter()
            .chain(&[&b"PROXY TCP4 "[..], b"SSH-2.0-x\r\n"])
        {
            assert_eq!(answer(begin), b"");
        }
    }
}
