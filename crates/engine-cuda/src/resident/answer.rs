//! Answers that the device made, and how they are compared with the server's.

use crate::abi::Outcome;
use std::borrow::Cow;

/// An answer, as it would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request of its lot it answers.
    pub request: u32,
    /// What became of it: `Finished`, or why it has none.
    pub outcome: Outcome,
    /// Head and body.
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Compares it with what the server answers to the same request. Two things may differ: the id
    /// of a session that was created, which is random, and white space before the value of
    /// Content-Length (paper, section 4.3.2; RFC 9110, section 5.5).
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn compare(&self, expected: &[u8]) -> Result<(), String> {
        if self.outcome != Outcome::Finished {
            return Err(format!("request {} is {:?}", self.request, self.outcome));
        }
        let (ours, theirs) = (parts(&self.bytes), parts(expected));
        let (Some((head, body)), Some((expected_head, expected_body))) = (ours, theirs) else {
            return Err(format!("request {} has no head that ends", self.request));
        };
        for (line, expected) in lines(head).zip(lines(expected_head)) {
            if line != expected {
                let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
                return Err(format!(
                    "request {}: {:?}, not {:?}",
                    self.request,
                    text(&line),
                    text(&expected)
                ));
            }
        }
        if lines(head).count() != lines(expected_head).count() {
            return Err(format!(
                "request {} has another number of headers",
                self.request
            ));
        }
        let same = body
            .iter()
            .zip(expected_body)
            .take_while(|(a, b)| a == b)
            .count();
        if body != expected_body {
            let near = |text: &[u8]| {
                let text = &text[same.saturating_sub(40)..text.len().min(same + 40)];
                String::from_utf8_lossy(text).into_owned()
            };
            let (ours, theirs) = (near(body), near(expected_body));
            return Err(format!(
                "request {} differs at byte {same}: {ours:?}, not {theirs:?}",
                self.request
            ));
        }
        Ok(())
    }
}

/// Head and body.
fn parts(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((&answer[..end], &answer[end + 4..]))
}

/// The lines of a head, as far as they must be the same.
fn lines(head: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    head.split(|byte| *byte == b'\n').map(|line| {
        if let Some(value) = line.strip_prefix(b"Content-Length:") {
            return Cow::Owned([b"Content-Length: ", value.trim_ascii_start()].concat());
        }
        let is_cookie = line.starts_with(b"Set-Cookie:");
        let start = line
            .iter()
            .position(|byte| *byte == b'=')
            .map_or(line.len(), |at| at + 1);
        let id = line[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if is_cookie && id == 40 {
            return Cow::Owned([&line[..start], b"ID", &line[start + id..]].concat());
        }
        Cow::Borrowed(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(bytes: &[u8], expected: &[u8]) -> Result<(), String> {
        let answer = Answer {
            request: 0,
            outcome: Outcome::Finished,
            bytes: bytes.to_vec(),
        };
        answer.compare(expected)
    }

    #[test]
    fn what_may_differ_does_and_nothing_else() {
        let host = b"HTTP/1.1 200 OK\r\n\
            Set-Cookie: s=0123456789012345678901234567890123456789; Path=/\r\n\
            Content-Length: 2\r\n\r\nok";
        let device = b"HTTP/1.1 200 OK\r\n\
            Set-Cookie: s=abcdefabcdefabcdefabcdefabcdefabcdefabcd; Path=/\r\n\
            Content-Length:          2\r\n\r\nok";
        assert_eq!(compare(device, host), Ok(()));
        for (from, to) in [
            ("200", "404"),
            ("Path", "path"),
            ("s=abc", "s=xbc"),
            ("  2", "  3"),
            ("ok", "oK"),
            ("ok", "ok!"),
        ] {
            let wrong = String::from_utf8_lossy(device).replacen(from, to, 1);
            assert!(compare(wrong.as_bytes(), host).is_err(), "{from}");
        }
    }
}
