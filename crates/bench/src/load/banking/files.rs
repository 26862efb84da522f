//! Static files: which a page refers to, and what is known of each.
//!
//! The first answer for a file is checked by itself (a PNG down to its checksums) and kept; every
//! later one must have the same bytes, or be a 304 where it was asked for with a condition. A
//! check's image must equal the file that BeSim names.

use super::super::rng::Rng;
use super::visit::{STATIC, Side, Visit};
use memchr::memmem::Finder;
use rhythm_besim::Bank;

/// More files than this are not asked for; a visit has a bit for each.
const FILES_MAX: usize = 64;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct StaticFile {
    pub(crate) path: String,
    /// What came first; `None` before.
    pub(crate) bytes: Option<Box<[u8]>>,
    pub(crate) etag: Vec<u8>,
    pub(crate) modified: Vec<u8>,
}

/// All files met so far, and those of each page.
#[derive(Debug)]
pub(crate) struct Files {
    files: Vec<StaticFile>,
    pages: Vec<(&'static str, Vec<u16>)>,
    references: [Finder<'static>; 2],
}

impl Default for Files {
    fn default() -> Files {
        Files {
            files: Vec::new(),
            pages: Vec::new(),
            references: [Finder::new(b"src=\"/"), Finder::new(b"href=\"/")],
        }
    }
}

impl Files {
    pub(crate) fn get(&self, file: u16) -> &StaticFile {
        &self.files[usize::from(file)]
    }

    pub(crate) fn get_mut(&mut self, file: u16) -> &mut StaticFile {
        &mut self.files[usize::from(file)]
    }

    /// The number of the file of this path; `None` if there are too many.
    pub(crate) fn number(&mut self, path: &str) -> Option<u16> {
        let known = self.files.iter().position(|file| file.path == path);
        if known.is_none() && self.files.len() == FILES_MAX {
            return None;
        }
        let index = known.unwrap_or_else(|| {
            self.files.push(StaticFile {
                path: path.to_owned(),
                ..StaticFile::default()
            });
            self.files.len() - 1
        });
        u16::try_from(index).ok()
    }

    /// A header line that asks for a file only if it has changed, as a browser that has it sends
    /// it; nothing if this one has not.
    pub(crate) fn condition(&self, file: u16, has_cache: bool, rng: &mut Rng) -> Vec<u8> {
        let file = self.get(file);
        let (name, value) = if rng.one_in(2) && !file.etag.is_empty() {
            ("If-None-Match", &file.etag)
        } else {
            ("If-Modified-Since", &file.modified)
        };
        if !has_cache || file.bytes.is_none() || value.is_empty() {
            return Vec::new();
        }
        [name.as_bytes(), b": ", value, b"\r\n"].concat()
    }

    /// The file that the image of a check must equal; `None` if the user has no such check.
    pub(crate) fn of_check(&mut self, bank: &Bank, visit: &Visit) -> Option<u16> {
        let check = bank.check(visit.user, visit.check.into())?;
        let mut path = STATIC.as_bytes().to_vec();
        match visit.side {
            Side::Front => check.write_front(&mut path),
            Side::Back => check.write_back(&mut path),
        }
        self.number(std::str::from_utf8(&path).ok()?)
    }

    /// The files a page refers to. Its markup is searched once: they are the same for all users.
    pub(crate) fn of_page(&mut self, page: &'static str, body: &[u8]) -> &[u16] {
        let known = self.pages.iter().position(|(name, _)| *name == page);
        let index = known.unwrap_or_else(|| {
            let files = self.references(body);
            self.pages.push((page, files));
            self.pages.len() - 1
        });
        &self.pages[index].1
    }

    /// Each file once, in the order of the markup.
    fn references(&mut self, body: &[u8]) -> Vec<u16> {
        let mut places = Vec::new();
        for finder in &self.references {
            // The slash belongs to the path.
            places.extend(
                finder
                    .find_iter(body)
                    .map(|at| at + finder.needle().len() - 1),
            );
        }
        places.sort_unstable();
        let mut files = Vec::new();
        for at in places {
            let path = memchr::memchr(b'"', &body[at..]).map(|end| &body[at..at + end]);
            let path = path.and_then(|path| std::str::from_utf8(path).ok());
            let Some(path) = path.filter(|path| path.starts_with(STATIC) && is_plain(path)) else {
                continue;
            };
            if let Some(file) = self.number(path).filter(|file| !files.contains(file)) {
                files.push(file);
            }
        }
        files
    }
}

/// Whether a path can stand in a request as it is.
fn is_plain(path: &str) -> bool {
    path.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

/// What is wrong with a file by itself, if anything: its type, and whether a PNG is whole.
pub(crate) fn fault(path: &str, content_type: &[u8], body: &[u8]) -> Option<&'static str> {
    let expected: &[u8] = match path.rsplit('.').next() {
        Some("png") => b"image/png",
        Some("svg") => b"image/svg+xml",
        Some("gif") => b"image/gif",
        Some("jpg" | "jpeg") => b"image/jpeg",
        Some("css") => b"text/css",
        _ => b"",
    };
    if !content_type.starts_with(expected) {
        return Some("wrong Content-Type of a static file");
    }
    if body.is_empty() {
        return Some("empty static file");
    }
    (expected == b"image/png" && !is_png(body)).then_some("not a whole PNG image")
}

/// Whether these bytes are a PNG image (its specification, section 5): signature, chunks with right
/// checksums, an IHDR first and an IEND last.
fn is_png(bytes: &[u8]) -> bool {
    let Some(mut rest) = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n") else {
        return false;
    };
    let mut is_first = true;
    loop {
        let Some((length, after)) = rest.split_first_chunk::<4>() else {
            return false;
        };
        let length = u32::from_be_bytes(*length) as usize;
        let Some((chunk, after)) = length
            .checked_add(4)
            .and_then(|len| after.split_at_checked(len))
        else {
            return false;
        };
        let Some((sum, after)) = after.split_first_chunk::<4>() else {
            return false;
        };
        if crc32(chunk) != u32::from_be_bytes(*sum) || is_first != chunk.starts_with(b"IHDR") {
            return false;
        }
        if chunk.starts_with(b"IEND") {
            return length == 0 && after.is_empty();
        }
        (is_first, rest) = (false, after);
    }
}

/// CRC-32 as PNG has it, a bit at a time: each file is checked once.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc: u32, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png() -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, data) in [
            (b"IHDR", &b"\0\0\0\x01\0\0\0\x01\x08\0\0\0\0"[..]),
            (b"IDAT", b"xyz"),
            (b"IEND", b""),
        ] {
            bytes.extend((data.len() as u32).to_be_bytes());
            let chunk = [&kind[..], data].concat();
            bytes.extend(&chunk);
            bytes.extend(crc32(&chunk).to_be_bytes());
        }
        bytes
    }

    #[test]
    fn a_damaged_png_is_found() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let good = png();
        assert_eq!(fault("a/b.png", b"image/png", &good), None);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(!is_png(&bad), "byte {at}");
            assert!(!is_png(&good[..at]), "cut at {at}");
        }
        assert!(!is_png(&[&good[..], b"x"].concat()));
        assert!(fault("a.png", b"text/html", &good).is_some());
        assert!(fault("a.css", b"text/css; charset=utf-8", b"a{}").is_none());
        assert!(fault("a.css", b"text/css", b"").is_some());
    }

    #[test]
    fn references_are_found_in_order_and_once() {
        let mut files = Files::default();
        let body = b"<link href=\"/bank/static/bank.css\"><img src=\"/bank/static/a.svg\">\
            <a href=\"/bank/x.php\"><img src=\"/bank/static/a.svg\">\
            <img src=\"/bank/static/%41.png\"><img src=\"/bank/static/b.png";
        let found = files.of_page("login", body).to_vec();
        let paths: Vec<_> = found
            .iter()
            .map(|file| files.get(*file).path.clone())
            .collect();
        assert_eq!(paths, ["/bank/static/bank.css", "/bank/static/a.svg"]);
        assert_eq!(files.of_page("login", b""), found, "known");
        assert_eq!(files.number("/bank/static/a.svg"), Some(1));
    }
}
