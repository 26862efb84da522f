//! Static files, with all that is known of them ahead: kept in memory, or, where they are long,
//! open to be read while they are sent (`host/files.rs`).
//!
//! A request never names a file of the disk: it names an entry of this table, so there is nothing
//! outside it to be reached by dots and slashes.
//!
//! A file that lies beside another as its encoded form, as `a.css.gz` beside `a.css`, is an entry
//! as any other, and the other's second representation (RFC 9110, section 8): which one answers is
//! decided by what the client accepts. One that is older is none: what it was made of has changed;
//! and one that does not begin as its encoding does.

use rhythm_protocol::http::date;
use rhythm_protocol::http::encoding::{Encoding, Encodings};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of streamed files of one volume that are on their way to one worker, at most.
pub(crate) const READ_BYTES_MAX: usize = 2 << 20;

/// The endings of files that are encoded forms of others, those to be preferred first, and what
/// such files begin with (of gzip: RFC 1952, section 2.3.1).
const ENDINGS: [(Encoding, &str, [u8; 2]); 1] = [(Encoding::Gzip, ".gz", [0x1f, 0x8b])];

/// A file as its owner gives it.
#[derive(Clone, Debug)]
pub struct StaticFile {
    /// Its path below the folder of static files, with `/` between its parts and none in front.
    pub path: String,
    /// What it holds.
    pub content: FileContent,
    /// When it last changed, if that is known.
    pub modified: Option<SystemTime>,
}

/// What a file holds.
#[derive(Clone, Debug)]
pub enum FileContent {
    /// All of it, kept in memory.
    Kept(Vec<u8>),
    /// It is read while it is sent.
    Streamed {
        /// Its bytes.
        length: u64,
        /// What is different once it has changed.
        version: u64,
        /// What it is stored on: what reading has to wait for. Others are read beside it.
        volume: u64,
        /// Reads it.
        source: Arc<dyn FileSource>,
    },
}

impl From<Vec<u8>> for FileContent {
    fn from(bytes: Vec<u8>) -> FileContent {
        FileContent::Kept(bytes)
    }
}

/// What reads a file. It may take its time: it is called on no event loop.
pub trait FileSource: fmt::Debug + Send + Sync {
    /// Reads all of `into`, from the byte `at` on.
    ///
    /// # Errors
    /// Why that cannot be had. A file that has changed since its content was told of is an error,
    /// too, lest what is sent is made of two files.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

/// A file, and what is known of it ahead.
#[derive(Debug)]
pub(crate) struct Entry {
    path: String,
    pub(crate) content_type: String,
    plain: Representation,
    /// What lies beside it, those to be preferred first.
    encoded: Vec<Representation>,
}

/// A file in one encoding.
#[derive(Clone, Debug)]
pub(crate) struct Representation {
    pub(crate) encoding: Encoding,
    pub(crate) content: Content,
    pub(crate) etag: String,
    /// Since 1970.
    modified: Option<Duration>,
    pub(crate) modified_text: Option<[u8; 29]>,
}

/// Where a file's bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Kept(Arc<[u8]>),
    Streamed(Arc<StreamedFile>),
}

impl Content {
    /// Whether it can be read and begins so.
    fn begins(&self, start: [u8; 2]) -> bool {
        match self {
            Content::Kept(bytes) => bytes.starts_with(&start),
            Content::Streamed(file) => {
                let mut read = [0; 2];
                file.length >= 2 && file.source.read(0, &mut read).is_ok() && read == start
            }
        }
    }
}

/// A file that is read while it is sent.
#[derive(Debug)]
pub(crate) struct StreamedFile {
    /// As in [`StaticFile`], for the log.
    pub(crate) path: String,
    pub(crate) length: u64,
    pub(crate) volume: u64,
    pub(crate) source: Arc<dyn FileSource>,
}

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
            for (encoding, ending, start) in ENDINGS {
                let entry = &self.entries[index];
                let Some(&beside) = self.by_path.get(&format!("{}{ending}", entry.path)) else {
                    continue;
                };
                let beside = &self.entries[beside as usize];
                if beside.plain.modified < entry.plain.modified {
                    older.push((beside.path.clone(), entry.path.clone()));
                } else if !beside.plain.content.begins(start) {
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
        let kept = |entry: &Entry| match &entry.plain.content {
            Content::Kept(bytes) => bytes.len(),
            Content::Streamed(_) => 0,
        };
        self.entries.iter().map(kept).sum()
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

impl Entry {
    fn new(file: StaticFile) -> Entry {
        let kind = mime_guess::from_path(&file.path).first_or_octet_stream();
        let is_text = kind.type_() == "text"
            || matches!(kind.subtype().as_str(), "javascript" | "json" | "xml");
        let content_type = match kind.get_param("charset") {
            None if is_text => format!("{kind}; charset=utf-8"),
            _ => kind.to_string(),
        };
        Entry {
            content_type,
            plain: Representation::new(&file.path, file.content, file.modified),
            encoded: Vec::new(),
            path: file.path,
        }
    }

    /// It in the best of the encodings that a client accepts.
    #[inline]
    pub(crate) fn representation(&self, accepts: Encodings) -> &Representation {
        let mut encoded = self.encoded.iter();
        encoded
            .find(|encoded| accepts.contains(encoded.encoding))
            .unwrap_or(&self.plain)
    }

    /// Whether it is not the same to all clients.
    pub(crate) fn varies(&self) -> bool {
        !self.encoded.is_empty()
    }
}

impl Representation {
    /// What such a file is as it lies there.
    fn new(path: &str, content: FileContent, modified: Option<SystemTime>) -> Representation {
        let mut hasher = DefaultHasher::new();
        match &content {
            FileContent::Kept(bytes) => bytes.hash(&mut hasher),
            FileContent::Streamed { version, .. } => version.hash(&mut hasher),
        }
        let modified = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Representation {
            encoding: Encoding::Identity,
            etag: format!("\"{:016x}\"", hasher.finish()),
            modified,
            modified_text: modified.map(|since| date::format(since.as_secs())),
            content: match content {
                FileContent::Kept(bytes) => Content::Kept(bytes.into()),
                FileContent::Streamed {
                    length,
                    volume,
                    source,
                    ..
                } => Content::Streamed(Arc::new(StreamedFile {
                    path: path.to_owned(),
                    length,
                    volume,
                    source,
                })),
            },
        }
    }

    /// As the encoded form of what it was made of, from which its tag must differ (RFC 9110,
    /// section 8.8.3.3), whatever its owner takes for different.
    fn encoded(self, encoding: Encoding) -> Representation {
        let tag = self.etag.trim_matches('"');
        Representation {
            encoding,
            etag: format!("\"{tag}-{}\"", encoding.name()),
            ..self
        }
    }

    /// When it last changed, in seconds since 1970.
    pub(crate) fn modified_seconds(&self) -> Option<u64> {
        self.modified.map(|since| since.as_secs())
    }

    /// Its bytes, wherever they are.
    pub(crate) fn length(&self) -> u64 {
        match &self.content {
            Content::Kept(bytes) => bytes.len() as u64,
            Content::Streamed(file) => file.length,
        }
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
