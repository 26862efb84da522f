//! Static files, with all that is known of them ahead: kept in memory, or, where they are long,
//! open to be read while they are sent (`host/files.rs`).
//!
//! A request never names a file of the disk: it names an entry of this table, so there is nothing
//! outside it to be reached by dots and slashes.
//!
//! A file that lies beside another as its encoded form, as `a.css.gz` beside `a.css`, is an entry
//! as any other, and the other's second representation (RFC 9110, section 8): which one answers is
//! decided by what the client accepts. One that is older is none: what it was made of has changed;
//! and one that does not begin as its encoding does. What lies beside no file and is worth it, is
//! made of it at load (`precompressed.rs`), where that is kept in memory.

use super::precompressed::{self, TimeLeft};
use super::static_file::{Content, Entry, StaticFile};
use rhythm_protocol::http::encoding::Encoding;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Bytes of streamed files of one volume that are on their way to one worker, at most.
pub(crate) const READ_BYTES_MAX: usize = 2 << 20;

/// The endings of files that are encoded forms of others.
const ENDINGS: [(Encoding, &str); 2] = [(Encoding::Gzip, ".gz"), (Encoding::Brotli, ".br")];

/// Says of files, each with what it lies beside, that they are not sent in the place of that.
fn unfit(files: &[(String, String)], one_is: &str, many_are: &str) -> Option<String> {
    /// Files that are named.
    const NAMED: usize = 3;
    match files {
        [] => None,
        [(beside, plain)] => Some(format!(
            "a static file {one_is}: {beside} is not sent in place of {plain}; compress it \
             again, or remove it"
        )),
        many => {
            let named = many.iter().take(NAMED).map(|(beside, _)| beside.as_str());
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match many.len() - many.len().min(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let count = many.len();
            Some(format!(
                "{count} static files {many_are}: {named}{more} are not sent in place of what \
                 they encode; compress them again, or remove them"
            ))
        }
    }
}

/// The static files of a site.
#[derive(Debug, Default)]
pub struct Statics {
    mount: String,
    entries: Vec<Entry>,
    by_path: HashMap<String, u32>,
    warnings: Vec<String>,
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
        statics.find_encoded();
        statics
    }

    /// Finds what lies beside files in another encoding.
    fn find_encoded(&mut self) {
        let [mut older, mut others] = [Vec::new(), Vec::new()];
        for index in 0..self.entries.len() {
            for (encoding, ending) in ENDINGS {
                let entry = &self.entries[index];
                let Some(&beside) = self.by_path.get(&format!("{}{ending}", entry.path)) else {
                    continue;
                };
                let beside = &self.entries[beside as usize];
                if beside.plain.modified < entry.plain.modified {
                    older.push((beside.path.clone(), entry.path.clone()));
                } else if !beside
                    .plain
                    .content
                    .looks_like(encoding, &entry.plain.content)
                {
                    others.push((beside.path.clone(), entry.path.clone()));
                } else {
                    let encoded = beside.plain.clone().encoded(encoding);
                    self.entries[index].encoded.push(encoded);
                }
            }
        }
        let older = unfit(
            &older,
            "is older than what it encodes",
            "are older than what they encode",
        );
        let others = unfit(
            &others,
            "is not of the encoding that its name ends in",
            "are not of the encodings that their names end in",
        );
        self.warnings.extend(older.into_iter().chain(others));
    }

    /// Makes the encoded forms of files that have none beside them and gain by it, for so long;
    /// those of files that were the same `before` are taken from there. Gives the number of forms
    /// that there was no time to try.
    ///
    /// It takes its time: it is for a thread that no connection waits for.
    pub fn compress(&mut self, time: Duration, before: Option<&Statics>) -> usize {
        if time.is_zero() {
            return 0;
        }
        for entry in &mut self.entries {
            let its = |before: &Statics| before.by_path.get(&entry.path).copied();
            if let Some((before, index)) = before.and_then(|it| Some((it, its(it)?))) {
                entry.take_made(before.entry(index));
            }
        }
        let mut forms = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let wanted = [Encoding::Gzip, Encoding::Brotli];
            let wanted = wanted.into_iter().filter(|encoding| entry.wants(*encoding));
            let cost = |encoding| precompressed::cost(entry.plain.length(), encoding);
            forms.extend(wanted.map(|encoding| (cost(encoding), index, encoding)));
        }
        // What takes longest is last, so that nothing waits for what there is never time for.
        forms.sort_by_key(|(cost, ..)| *cost);
        let left = TimeLeft::of(time);
        let mut untried = 0;
        for (_, index, encoding) in forms {
            untried += usize::from(self.entries[index].make(encoding, &left).is_err());
        }
        untried
    }

    /// What looks like a mistake in them, with what helps: those are served all the same.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all that are kept in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::bytes).sum()
    }

    /// How many are not, but held open.
    pub(crate) fn streamed(&self) -> usize {
        (self.entries.iter())
            .filter(|entry| matches!(entry.plain.content, Content::Streamed(_)))
            .count()
    }

    /// The volumes that those are on.
    pub(crate) fn volumes(&self) -> HashSet<u64> {
        let volume = |entry: &Entry| match &entry.plain.content {
            Content::Kept(_) => None,
            Content::Streamed(file) => Some(file.volume),
        };
        self.entries.iter().filter_map(volume).collect()
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

    /// A file by its index.
    pub(crate) fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    /// The path under which the files are served; begins and ends with `/`.
    pub(crate) fn mount(&self) -> &str {
        &self.mount
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_types_and_paths() {
        let file = |path: &str| StaticFile {
            path: path.into(),
            content: b"x".to_vec().into(),
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
