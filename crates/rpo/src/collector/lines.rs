//! The protocol for anything that has no collector of its own: lines of text in Unix datagrams.
//!
//! ```text
//! a METHOD PATH [ID]                   a request came
//! c METHOD PATH STATUS MICROS [ID]     it was answered so many microseconds later
//! r METHOD PATH STATUS MICROS          the same, of one of which nothing was told before
//! ```
//!
//! A datagram has one line or several. Words are parted by one space; a path has none. ID is any
//! text without spaces that the sender does not use for two requests at a time; with it, how many
//! requests are under way is known.

use super::record::{Record, What};
use std::time::Duration;

/// Most lines of a datagram that are read.
const LINES_MAX: usize = 512;
/// Longest method.
const METHOD_MAX: usize = 32;
/// The longest time that is believed: what took longer says nothing of CPUs.
pub(super) const TOOK_MAX: Duration = Duration::from_secs(3600);

/// Reads a datagram; gives each record, and says how many lines were none.
pub fn read(datagram: &[u8], mut each: impl FnMut(Record<'_>)) -> u64 {
    let mut garbage = 0;
    let mut lines = datagram
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    for line in lines.by_ref().take(LINES_MAX) {
        match std::str::from_utf8(line).ok().and_then(record) {
            Some(record) => each(record),
            None => garbage += 1,
        }
    }
    garbage + lines.count() as u64
}

fn record(line: &str) -> Option<Record<'_>> {
    let mut words = line.trim_end_matches('\r').split(' ');
    let (kind, method, path) = (words.next()?, words.next()?, words.next()?);
    let is_method = method
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_method || method.is_empty() || method.len() > METHOD_MAX || path.is_empty() {
        return None;
    }
    let answered = |words: &mut std::str::Split<'_, char>| {
        let status = words.next()?.parse().ok()?;
        let took = Duration::from_micros(words.next()?.parse().ok()?);
        (took <= TOOK_MAX).then_some((took, status))
    };
    let what = match kind {
        "a" => What::Arrived,
        "c" => {
            let (took, status) = answered(&mut words)?;
            What::Completed { took, status }
        }
        "r" => {
            let (took, status) = answered(&mut words)?;
            What::Whole {
                took: Some(took),
                status,
            }
        }
        _ => return None,
    };
    let token = words.next().map_or(0, token);
    words.next().is_none().then_some(Record {
        method,
        path,
        what,
        token,
    })
}

/// A number for an id; never 0.
fn token(id: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    id.bytes().fold(0xcbf2_9ce4_8422_2325, mix).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(datagram: &[u8]) -> (Vec<(String, What, u64)>, u64) {
        let mut found = Vec::new();
        let garbage = read(datagram, |record| {
            let name = format!("{} {}", record.method, record.path);
            found.push((name, record.what, record.token));
        });
        (found, garbage)
    }

    #[test]
    fn lines_are_read_and_garbage_is_counted() {
        let (found, garbage) = all(b"a GET /cart 77\nc GET /cart 200 1500 77\r\nr PUT /x 503 9\n");
        assert_eq!(garbage, 0);
        let took = Duration::from_micros;
        let (status, token) = (200, found[0].2);
        assert_eq!(found[0], ("GET /cart".to_owned(), What::Arrived, token));
        let completed = What::Completed {
            took: took(1500),
            status,
        };
        assert_eq!(found[1], ("GET /cart".to_owned(), completed, token));
        assert!(token != 0 && token != super::token("78"));
        let whole = What::Whole {
            took: Some(took(9)),
            status: 503,
        };
        assert_eq!(found[2], ("PUT /x".to_owned(), whole, 0));
        for line in [
            "a",
            "a GET",
            "a GET ",
            "b GET /",
            "a G/T /x",
            "a GET /x 1 2",
            "c GET /x 200",
            "c GET /x 200 -1",
            "c GET /x 99999 1",
            "c GET /x 200 99999999999999",
            "\u{1}\u{2}",
        ] {
            assert_eq!(all(line.as_bytes()), (vec![], 1), "{line:?}");
        }
        assert_eq!(all(b"\xff\xfe\na GET /\n").1, 1);
        let many = "a GET /\n".repeat(LINES_MAX + 3);
        let (found, garbage) = all(many.as_bytes());
        assert_eq!((found.len(), garbage), (LINES_MAX, 3));
    }
}
