//! Lines of access logs, as nginx and HAProxy send them by syslog: the common format or the
//! combined one, and behind it how long the request took.
//!
//! ```text
//! <190>Nov 26 04:33:24 host nginx: 10.0.0.7 - - [26/Nov/2026:04:33:24 +0000] "GET /x HTTP/1.1"
//!     200 512 "-" "agent" 0.012
//! ```
//!
//! The last word is the time: seconds with a point (nginx's `$request_time`), or `ms=12`, or
//! `us=12`. Of a time of 0 is known that it was shorter than the last digit tells; it is taken for
//! half of that, since what took no time at all would say nothing of how fast a server is.
//! A line tells of a whole request when it was answered, so what is under way is not known.

use super::lines::TOOK_MAX;
use super::record::{Record, What};
use crate::classifier::log;
use std::time::Duration;

/// Reads a line.
#[must_use]
pub fn read(line: &[u8]) -> Option<Record<'_>> {
    let line = std::str::from_utf8(line).ok()?;
    let log::Line {
        method,
        path,
        status,
        ..
    } = log::line(line)?;
    let took = line.split_ascii_whitespace().next_back().and_then(took);
    Some(Record {
        method,
        path,
        what: What::Whole { took, status },
        token: 0,
    })
}

fn took(word: &str) -> Option<Duration> {
    let (took, digit) = if let Some(millis) = word.strip_prefix("ms=") {
        (
            Duration::from_millis(millis.parse().ok()?),
            Duration::from_millis(1),
        )
    } else if let Some(micros) = word.strip_prefix("us=") {
        (
            Duration::from_micros(micros.parse().ok()?),
            Duration::from_micros(1),
        )
    } else {
        // Without a point it is the length of the body, the last word of the common format.
        let (seconds, part) = word.split_once('.')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(seconds) || !is_number(part) {
            return None;
        }
        let took = Duration::try_from_secs_f64(word.parse().ok()?).ok()?;
        let places = i32::try_from(part.len()).ok()?;
        (took, Duration::from_secs_f64(0.1_f64.powi(places)))
    };
    let took = match took.is_zero() {
        true => digit / 2,
        false => took,
    };
    (took <= TOOK_MAX).then_some(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_their_time_or_without() {
        let line = |end: &str| {
            format!(
                "<190>Nov 26 04:33:24 host nginx: 10.0.0.7 - - [26/Nov/2026:04:33:24 +0000] \
                 \"GET /cart?x=1 HTTP/1.1\" 200 512{end}"
            )
        };
        for (end, micros) in [
            (" \"-\" \"agent 1.2\" 0.012", Some(12_000)),
            (" 1.5", Some(1_500_000)),
            (" ms=7", Some(7_000)),
            (" us=7", Some(7)),
            (" 0.000", Some(500)),
            (" 0.0000", Some(50)),
            (" ms=0", Some(500)),
            (" \"-\" \"agent 1.2\"", None),
            ("", None),
            (" -1.5", None),
            (" 99999999999999999999.5", None),
            (" ms=x", None),
        ] {
            let line = line(end);
            let record = read(line.as_bytes()).expect(end);
            assert_eq!((record.method, record.path), ("GET", "/cart?x=1"), "{end}");
            let took = micros.map(Duration::from_micros);
            assert_eq!(record.what, What::Whole { took, status: 200 }, "{end}");
        }
        for garbage in [
            &b""[..],
            b"<190>",
            b"\xff",
            b"[x] \"GET",
            b"[x] \"GET /\" 200",
        ] {
            assert_eq!(read(garbage), None, "{garbage:?}");
        }
    }
}
