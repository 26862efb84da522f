//! What a collector answers: whether it takes spans, and how many of them it does not.

use crate::answer_reader::{AnswerReader, Part};
use crate::timed::{Timed, again, left};
use serde_json::Value;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Bytes of an answer's content that are read: it has a number, and a reason in words.
const CONTENT_BYTES_MAX: usize = 16 << 10;

/// Once it says that spans are taken, what else it says is waited for no longer: who does not end
/// an answer holds nothing up.
const CONTENT_PATIENCE: Duration = Duration::from_millis(500);

/// A collector is asked again after this time, however long it wants to be left alone.
const AFTER_MAX: Duration = Duration::from_secs(60);

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Spans that it does not take, as far as it says so (OTLP's *partial success*).
    pub(super) rejected: usize,
    /// For how long it is not to be asked again, as far as it says so, and that is not too long.
    pub(super) after: Duration,
}

/// Reads an answer, as much of it as is there by then.
///
/// # Errors
/// None comes by then, or something that is none.
pub(super) fn read(stream: &mut dyn Timed, mut deadline: Instant) -> io::Result<Answer> {
    let mut reader = AnswerReader::new(false, false);
    let (mut status, mut content, mut decoded) = (None, Vec::new(), Vec::new());
    let mut after = Duration::ZERO;
    let mut bytes = [0; 2048];
    'more: while content.len() < CONTENT_BYTES_MAX {
        let came = left(deadline).and_then(|left| {
            stream.set_timeout(left)?;
            again(|| stream.read(&mut bytes))
        });
        let mut rest = match came {
            // What it says beside its status may be cut off.
            Ok(0) | Err(_) if status.is_some() => break,
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => &bytes[..count],
            Err(error) => return Err(error),
        };
        loop {
            let (used, part) = match reader.next(rest, &mut decoded) {
                Ok(next) => next,
                Err(_) if status.is_some() => break 'more,
                Err(_) => return Err(ErrorKind::InvalidData.into()),
            };
            rest = &rest[used..];
            match part {
                Part::Head => {
                    let (head, bytes) = reader.head();
                    let came = head.status();
                    let seconds = head.values(bytes, "retry-after").next();
                    let seconds = seconds.and_then(|text| std::str::from_utf8(text).ok());
                    let seconds = seconds.and_then(|text| text.parse().ok());
                    after = Duration::from_secs(seconds.unwrap_or(0)).min(AFTER_MAX);
                    status = Some(came);
                    if !(200..300).contains(&came) {
                        break 'more;
                    }
                    deadline = deadline.min(Instant::now() + CONTENT_PATIENCE);
                }
                Part::Piece(piece) => content.extend_from_slice(piece),
                Part::Nothing => break,
                Part::Switch | Part::End => break 'more,
            }
        }
    }
    let status = status.ok_or(ErrorKind::InvalidData)?;
    let rejected = rejected(&content);
    Ok(Answer {
        status,
        rejected,
        after,
    })
}

/// How many spans are not taken, as an answer's content says: a number of 64 bits, which OTLP has
/// as a text, and some collectors as a number.
fn rejected(content: &[u8]) -> usize {
    let content: Value = serde_json::from_slice(content).unwrap_or_default();
    let number = &content["partialSuccess"]["rejectedSpans"];
    let number = number.as_u64().or_else(|| number.as_str()?.parse().ok());
    number.map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// What is made of these bytes, after which nothing comes; the other end stays open or not.
    fn read_from(bytes: &str, stays: bool) -> io::Result<Answer> {
        // What has no head to its end is waited for.
        let patience = Duration::from_secs(if stays { 1 } else { 10 });
        let (mut ours, mut theirs) = UnixStream::pair()?;
        theirs.write_all(bytes.as_bytes())?;
        let _theirs = stays.then_some(theirs);
        read(&mut ours, Instant::now() + patience)
    }

    #[test]
    fn what_is_rejected_is_told_however_it_is_framed() {
        let told = r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"too old"}}"#;
        let number = told.replace("\"7\"", "7");
        for (answer, stays) in [
            (
                format!("Content-Length: {}\r\n\r\n{told}", told.len()),
                true,
            ),
            (
                format!("Content-Length: {}\r\n\r\n{number}", number.len()),
                true,
            ),
            (
                format!(
                    "Transfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                    &told[..5],
                    told.len() - 5,
                    &told[5..]
                ),
                true,
            ),
            (format!("\r\n{told}"), false),
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{answer}");
            let read = read_from(&answer, stays).expect("an answer");
            assert_eq!((read.status, read.rejected), (200, 7), "{answer}");
        }
    }

    #[test]
    fn who_wants_to_be_asked_later_is() {
        for (said, seconds) in [("", 0), ("7", 7), ("3600", 60), ("soon", 0), ("-1", 0)] {
            let field = match said {
                "" => String::new(),
                _ => format!("Retry-After: {said}\r\n"),
            };
            let answer = format!("HTTP/1.1 503 Busy\r\n{field}Content-Length: 0\r\n\r\n");
            let read = read_from(&answer, true).expect("an answer");
            assert_eq!(read.status, 503);
            assert_eq!(read.after, Duration::from_secs(seconds), "{said}");
        }
    }

    #[test]
    fn what_is_cut_off_has_its_status_and_what_is_none_fails() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n";
        for content in [
            "",
            "{",
            "[]",
            "{\"partialSuccess\":{}}",
            &"x".repeat(40_000),
        ] {
            for stays in [true, false] {
                let read = read_from(&format!("{head}{content}"), stays).expect("an answer");
                assert_eq!((read.status, read.rejected), (200, 0), "{content}");
            }
        }
        for none in ["", "HTTP/1.1 20", "SSH-2.0-x\r\n\r\n"] {
            for stays in [true, false] {
                assert!(read_from(none, stays).is_err(), "{none}");
            }
        }
    }
}
