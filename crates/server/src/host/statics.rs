//! Static files: held in memory, with all that is known of them ahead.
//!
//! A request never names a file of the disk: it names an entry of this table, so there is nothing
//! outside it to be reached by dots and slashes.

use rhythm_http::{AnswerShape, Answered, Body, write_error};
use rhythm_protocol::http::conditional::{Conditions, Outcome, Validators, evaluate};
use rhythm_protocol::http::date::{self, DateCache};
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{HeaderName, ResponseWriter};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file as its owner gives it.
#[derive(Clone, Debug)]
pub struct StaticFile {
    /// Its path below the folder of static files, with `/` between its parts and none in front.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
    /// When it last changed, if that is known.
    pub modified: Option<SystemTime>,
}

#[derive(Debug)]
struct Entry {
    path: String,
    bytes: Arc<[u8]>,
    content_type: String,
    etag: String,
    /// Seconds since 1970.
    modified: Option<u64>,
    modified_text: Option<[u8; 29]>,
}

/// The static files of a site.
#[derive(Debug, Default)]
pub struct Statics {
    mount: String,
    entries: Vec<Entry>,
    by_path: HashMap<String, u32>,
}

impl Statics {
    /// A table of these files, served under `mount`, such as `/static/`.
    pub fn new(mount: &str, files: impl IntoIterator<Item = StaticFile>) -> Statics {
        let mut statics = Statics {
            mount: mount.to_owned(),
            ..Statics::default()
        };
        if !statics.mount.ends_with('/') {
            statics.mount.push('/');
        }
        for file in files {
            let index = statics.entries.len() as u32;
            statics.by_path.insert(file.path.clone(), index);
            statics.entries.push(Entry::new(file));
        }
        statics
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each file's index and the path under which it is served.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (u32, String)> {
        (0..)
            .zip(&self.entries)
            .map(|(index, entry)| (index, format!("{}{}", self.mount, entry.path)))
    }

    /// A file by its path below the folder, as pages name it.
    pub(crate) fn find(&self, path: &[u8]) -> Option<u32> {
        let path = std::str::from_utf8(path).ok()?;
        self.by_path
            .get(path.strip_prefix('/').unwrap_or(path))
            .copied()
    }

    /// The path under which the files are served; begins and ends with `/`.
    pub(crate) fn mount(&self) -> &str {
        &self.mount
    }
}

impl Entry {
    fn new(file: StaticFile) -> Entry {
        let mut hasher = DefaultHasher::new();
        file.bytes.hash(&mut hasher);
        let modified = file
            .modified
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map(|since| since.as_secs());
        let kind = mime_guess::from_path(&file.path).first_or_octet_stream();
        let is_text = kind.type_() == "text"
            || matches!(kind.subtype().as_str(), "javascript" | "json" | "xml");
        let content_type = match kind.get_param("charset") {
            None if is_text => format!("{kind}; charset=utf-8"),
            _ => kind.to_string(),
        };
        Entry {
            content_type,
            etag: format!("\"{:016x}\"", hasher.finish()),
            modified,
            modified_text: modified.map(date::format),
            bytes: file.bytes.into(),
            path: file.path,
        }
    }
}

/// An answer with a file, or with a part of one, as far as the request's conditions decide it.
#[derive(Debug)]
pub(crate) struct FileAnswer<'a> {
    entry: &'a Entry,
    status: u16,
    range: Range<usize>,
}

impl Statics {
    /// What answers a request for a file.
    pub(crate) fn answer(
        &self,
        index: u32,
        method: Method,
        conditions: &Conditions<'_>,
        date: &DateCache,
    ) -> FileAnswer<'_> {
        let entry = &self.entries[index as usize];
        let validators = Validators {
            etag: Some(entry.etag.as_bytes()),
            last_modified: entry.modified,
        };
        let length = entry.bytes.len();
        let outcome = evaluate(
            method,
            conditions,
            &validators,
            length as u64,
            date.seconds(),
        );
        let (status, range) = match outcome {
            Outcome::NotModified => (304, 0..0),
            Outcome::PreconditionFailed => (412, 0..0),
            Outcome::Unsatisfiable => (416, 0..0),
            Outcome::Parts(ranges) if ranges.as_slice().len() == 1 => {
                let (first, last) = ranges.as_slice()[0];
                (206, first as usize..last as usize + 1)
            }
            // Several ranges: the whole is a right answer, too (RFC 9110, section 14.2).
            _ => (200, 0..length),
        };
        FileAnswer {
            entry,
            status,
            range,
        }
    }
}

impl<'a> FileAnswer<'a> {
    /// Appends its head, and gives what the log says of it, and its body. `fields` writes more
    /// headers.
    pub(crate) fn write(
        self,
        shape: AnswerShape,
        date: &DateCache,
        out: &mut Vec<u8>,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) -> (Answered, Body<'a>) {
        let FileAnswer {
            entry,
            status,
            range,
        } = self;
        if status == 412 {
            write_error(out, 412, shape, date, "", |_| {});
            return (Answered::bare(412), Body::Empty);
        }
        let mut head = ResponseWriter::new(out, status);
        if status != 304 {
            head.content_length(range.len() as u64);
        }
        if status != 304 && status != 416 {
            head.content_type(&entry.content_type);
        }
        let length = entry.bytes.len() as u64;
        match status {
            206 => drop(head.content_range(range.start as u64, range.end as u64 - 1, length)),
            416 => drop(head.content_range_unsatisfied(length)),
            _ => {}
        }
        let name = |name| HeaderName::new(name).expect("a token");
        head.header(name("ETag"), entry.etag.as_bytes());
        if let Some(text) = &entry.modified_text {
            head.header(name("Last-Modified"), text);
        }
        if status == 200 {
            head.header(name("Accept-Ranges"), b"bytes");
        }
        fields(&mut head);
        head.connection(!shape.close, shape.http10).date(date).end();
        if shape.head_only || range.is_empty() {
            return (Answered::bare(status), Body::Empty);
        }
        let answered = Answered {
            status,
            body_length: range.len() as u64,
        };
        (answered, Body::File(&entry.bytes, range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_types_and_paths() {
        let file = |path: &str| StaticFile {
            path: path.into(),
            bytes: b"x".to_vec(),
            modified: None,
        };
        let statics = Statics::new("/s", [file("a/b.css"), file("c.png"), file("d")]);
        let types: Vec<&str> = statics
            .entries
            .iter()
            .map(|entry| entry.content_type.as_str())
            .collect();
        assert_eq!(
            types,
            [
                "text/css; charset=utf-8",
                "image/png",
                "application/octet-stream"
            ]
        );
        let paths: Vec<String> = statics.paths().map(|(_, path)| path).collect();
        assert_eq!(paths, ["/s/a/b.css", "/s/c.png", "/s/d"]);
        assert_eq!(statics.find(b"a/b.css"), Some(0));
        assert_eq!(statics.find(b"/c.png"), Some(1));
        assert_eq!(statics.find(b"../c.png"), None);
    }
}
