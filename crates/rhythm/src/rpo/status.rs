//! Asks a running controller for its status.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const ANSWER_MAX: u64 = 1 << 20;

/// The text of its status.
pub(super) fn ask(admin: SocketAddr) -> Result<String> {
    let answer = get(admin).with_context(|| {
        format!(
            "cannot ask a controller at {admin} (rhythm rpo tells of itself at its --admin, rhythm \
             serve --rpo at its --rpo-admin, unless there is nothing to gain: its log says so)"
        )
    })?;
    text(&answer).with_context(|| format!("what is at {admin} is no controller"))
}

fn get(admin: SocketAddr) -> std::io::Result<String> {
    let mut to = TcpStream::connect_timeout(&admin, PATIENCE)?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.set_write_timeout(Some(PATIENCE))?;
    let head = format!("GET /status HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    to.write_all(head.as_bytes())?;
    let mut answer = String::new();
    to.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn text(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer of HTTP")?;
    ensure!(
        head.starts_with("HTTP/1.1 200"),
        "it answers: {}",
        head.lines().next().unwrap_or("")
    );
    let status: serde_json::Value = serde_json::from_str(body)?;
    let text = status["text"].as_str().context("it has no text")?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_told_and_others_are_not_believed() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"text\":\"up\\n\"}";
        assert_eq!(text(ok).expect("a status"), "up\n");
        for other in [
            "",
            "HTTP/1.1 404 Not Found\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(text(other).is_err(), "{other:?}");
        }
    }
}
