//! A static file, and the forms in which it is sent: as it is, and encoded.

use super::precompressed::{self, OutOfTime, TimeLeft};
use rhythm_protocol::http::date;
use rhythm_protocol::http::encoding::{Encoding, Encodings};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What gzip begins with; it ends with the length of its text, by 2^32 (RFC 1952, section 2.3.1).
const GZIP_START: [u8; 2] = [0x1f, 0x8b];

/// Bytes of a file from which it is told whether it is in an encoding.
const START_BYTES: usize = 4 << 10;

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
    pub(super) path: String,
    pub(crate) content_type: String,
    pub(super) plain: Representation,
    /// What lies beside it, and what was made of it.
    pub(super) encoded: Vec<Representation>,
    /// What was made of it, or tried to be and not worth it.
    tried: Vec<Encoding>,
}

/// A file in one encoding.
#[derive(Clone, Debug)]
pub(crate) struct Representation {
    pub(crate) encoding: Encoding,
    pub(crate) content: Content,
    pub(crate) etag: String,
    /// Since 1970.
    pub(super) modified: Option<Duration>,
    pub(crate) modified_text: Option<[u8; 29]>,
    /// It was made here, and is no file.
    is_made: bool,
}

/// Where a file's bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Kept(Arc<[u8]>),
    Streamed(Arc<StreamedFile>),
}

impl Content {
    /// Its bytes, if they are in memory.
    fn kept(&self) -> Option<&[u8]> {
        match self {
            Content::Kept(bytes) => Some(bytes),
            Content::Streamed(_) => None,
        }
    }

    /// Whether it can be read and looks as if it were `plain` in this encoding, by its begin, and,
    /// in gzip, by the length that stands at its end: one that is cut off or of another text seldom
    /// has the right one there.
    pub(super) fn looks_like(&self, encoding: Encoding, plain: &Content) -> bool {
        let length = self.length();
        let mut read = [0; START_BYTES];
        let start = &mut read[..length.min(START_BYTES as u64) as usize];
        if !self.read(0, start) {
            return false;
        }
        match encoding {
            Encoding::Identity => true,
            Encoding::Gzip => {
                let mut end = [0; 4];
                start.starts_with(&GZIP_START)
                    && (length.checked_sub(end.len() as u64))
                        .is_some_and(|at| self.read(at, &mut end))
                    && u32::from_le_bytes(end) == plain.length() as u32
            }
            Encoding::Brotli => {
                precompressed::begins_as_brotli(start, start.len() as u64 == length)
            }
        }
    }

    fn length(&self) -> u64 {
        match self {
            Content::Kept(bytes) => bytes.len() as u64,
            Content::Streamed(file) => file.length,
        }
    }

    /// Reads what lies at this place. Whether it could be read.
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        match self {
            Content::Kept(bytes) => {
                let found = bytes
                    .get(at as usize..)
                    .and_then(|rest| rest.get(..into.len()));
                found.is_some_and(|found| {
                    into.copy_from_slice(found);
                    true
                })
            }
            Content::Streamed(file) => file.source.read(at, into).is_ok(),
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

impl Entry {
    pub(super) fn new(file: StaticFile) -> Entry {
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
            tried: Vec::new(),
            path: file.path,
        }
    }

    /// It in the best of the encodings that a client accepts.
    #[inline]
    pub(crate) fn representation(&self, accepts: Encodings) -> &Representation {
        let in_encoding = |encoding| self.encoded.iter().find(|it| it.encoding == encoding);
        match self.encoded.is_empty() {
            true => &self.plain,
            false => (accepts.in_order().find_map(in_encoding)).unwrap_or(&self.plain),
        }
    }

    /// The bytes of it that are kept in memory, but for those of files that lie beside it.
    pub(super) fn bytes(&self) -> usize {
        let made = self.encoded.iter().filter(|it| it.is_made);
        let all = std::iter::once(&self.plain).chain(made);
        all.map(|it| it.content.kept().map_or(0, |bytes| bytes.len()))
            .sum()
    }

    /// Whether its form in this encoding is to be made.
    pub(super) fn wants(&self, encoding: Encoding) -> bool {
        self.plain.content.kept().is_some()
            && precompressed::gains(&self.content_type)
            && !self.encoded.iter().any(|it| it.encoding == encoding)
            && !self.tried.contains(&encoding)
    }

    /// Makes its form in this encoding, where that is worth it.
    ///
    /// # Errors
    /// When there is no time left: then it was not tried.
    pub(super) fn make(&mut self, encoding: Encoding, left: &TimeLeft) -> Result<(), OutOfTime> {
        let Some(plain) = self.plain.content.kept() else {
            return Ok(());
        };
        let all = std::iter::once(&self.plain).chain(&self.encoded);
        let smallest = all.map(Representation::length).min().unwrap_or(0);
        let is_over = || left.is_over();
        let made = precompressed::encode(plain, encoding, smallest as usize, &is_over)?;
        self.tried.push(encoding);
        self.encoded.extend(made.map(|bytes| {
            let its = Representation::new(&self.path, FileContent::Kept(bytes), None);
            Representation {
                modified: self.plain.modified,
                modified_text: self.plain.modified_text,
                is_made: true,
                ..its.encoded(encoding)
            }
        }));
        Ok(())
    }

    /// Takes over what was made of it before, if it has not changed since.
    pub(super) fn take_made(&mut self, before: &Entry) {
        let [its, before_its] = [&*self, before].map(|it| it.plain.content.kept());
        if its.is_none() || its != before_its || self.content_type != before.content_type {
            return;
        }
        for &encoding in &before.tried {
            if self.wants(encoding) {
                self.tried.push(encoding);
                let mut made = before.encoded.iter();
                let made = made.find(|it| it.is_made && it.encoding == encoding);
                self.encoded.extend(made.map(|made| Representation {
                    modified: self.plain.modified,
                    modified_text: self.plain.modified_text,
                    ..made.clone()
                }));
            }
        }
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
            is_made: false,
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
    pub(super) fn encoded(self, encoding: Encoding) -> Representation {
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
