//! The cookies of one browser.

use super::super::walk::Answer;

/// Names and values, few of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jar(Vec<(Vec<u8>, Vec<u8>)>);

impl Jar {
    /// Keeps what an answer sets, and forgets what it takes away (RFC 6265 section 5.2.2: a
    /// `Max-Age` that is not positive). All of it is for all paths here.
    pub(crate) fn take_from(&mut self, answer: &Answer<'_>) {
        for cookie in answer.head.values(answer.bytes, "set-cookie") {
            let mut parts = cookie.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let pair = parts.next().unwrap_or_default();
            let Some(at) = memchr::memchr(b'=', pair) else {
                continue;
            };
            let (name, value) = (&pair[..at], &pair[at + 1..]);
            self.0.retain(|(known, _)| known != name);
            if !parts.any(|part| part.eq_ignore_ascii_case(b"max-age=0")) {
                self.0.push((name.to_vec(), value.to_vec()));
            }
        }
    }

    /// Appends the header that sends them back, if there are any.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (at, (name, value)) in self.0.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b"Cookie: " } else { b"; " });
            out.extend_from_slice(name);
            out.push(b'=');
            out.extend_from_slice(value);
        }
        if !self.0.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
    }
}
