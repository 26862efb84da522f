//! From lines of access logs, in the common or the combined format, to counts by class.

use super::Classifier;
use std::collections::BTreeMap;

/// What a line of a log says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The method.
    pub method: &'a str,
    /// The path, with what follows its `?`.
    pub path: &'a str,
    /// The status.
    pub status: u16,
    /// Bytes of the body; none for `-`.
    pub bytes: u64,
}

/// Requests of a class in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How many.
    pub requests: u64,
    /// Their bodies' bytes together.
    pub bytes: u64,
}

/// What a log has, by the names of the classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By class.
    pub classes: BTreeMap<String, Counted>,
    /// Lines that are none of a log.
    pub unreadable: u64,
}

impl Counts {
    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.classes.values().map(|one| one.requests).sum()
    }
}

/// Reads one line: `host ident user [time] "GET /path HTTP/1.1" 200 123`, and what may follow.
#[must_use]
pub fn line(text: &str) -> Option<Line<'_>> {
    let (_, rest) = text.split_once("] \"")?;
    let (request, rest) = rest.split_once("\" ")?;
    let mut request = request.split(' ');
    let (method, path) = (request.next()?, request.next()?);
    let is_named = !method.is_empty() && !path.is_empty();
    if !is_named || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut rest = rest.split_ascii_whitespace();
    let status = rest.next()?.parse().ok()?;
    let bytes = match rest.next()? {
        "-" => 0,
        bytes => bytes.parse().ok()?,
    };
    Some(Line {
        method,
        path,
        status,
        bytes,
    })
}

/// Whether an answer says that what was asked for is there. Those that lead elsewhere do not: many
/// servers answer so whatever is asked for; but 303 follows a form, and 304 is of what a client
/// has.
pub(crate) fn is_success(status: u16) -> bool {
    matches!(status, 200..300 | 303 | 304)
}

/// Counts the lines of a log by class.
pub fn count(lines: impl Iterator<Item = impl AsRef<str>>, classifier: &mut Classifier) -> Counts {
    let mut counts = Counts::default();
    for text in lines {
        let text = text.as_ref();
        if text.trim().is_empty() {
            continue;
        }
        let Some(line) = line(text) else {
            counts.unreadable += 1;
            continue;
        };
        let class = match is_success(line.status) {
            true => classifier.learn(line.method, line.path),
            false => classifier.classify(line.method, line.path),
        };
        let name = &classifier.table().get(class).name;
        if !counts.classes.contains_key(name) {
            counts.classes.insert(name.clone(), Counted::default());
        }
        if let Some(counted) = counts.classes.get_mut(name) {
            counted.requests += 1;
            counted.bytes = counted.bytes.saturating_add(line.bytes);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str =
        r#"127.0.0.1 - - [26/Nov/2026:04:00:00 +0000] "GET /item/7?a=b HTTP/1.1" 200 1234"#;

    #[test]
    fn lines_of_both_formats_are_read() {
        let read = Line {
            method: "GET",
            path: "/item/7?a=b",
            status: 200,
            bytes: 1234,
        };
        assert_eq!(line(COMMON), Some(read));
        assert_eq!(
            line(&format!("{COMMON} \"http://a/\" \"Agent \\\"x\\\"\"")),
            Some(read)
        );
        assert_eq!(
            line(&COMMON.replace("1234", "-")).map(|line| line.bytes),
            Some(0)
        );
        for broken in [
            "",
            "x",
            "[] \"GET / HTTP/1.1\" 200",
            "- [t] \"GET  HTTP/1.1\" 400 226",
            "- [t] \"\\x16\\x03\" 400 226",
        ] {
            assert_eq!(line(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_log_becomes_counts() {
        let log = format!(
            "{COMMON}\n{COMMON}\nnonsense\n\n{}",
            COMMON.replace("/item/7", "/best")
        );
        let counts = count(log.lines(), &mut Classifier::tpcw());
        assert_eq!(counts.unreadable, 1);
        assert_eq!(counts.total(), 3);
        let details = counts.classes.get("product_detail").copied();
        assert_eq!(
            details,
            Some(Counted {
                requests: 2,
                bytes: 2468
            })
        );
    }
}
