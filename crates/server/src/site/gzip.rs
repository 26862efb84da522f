//! What is known ahead of a page's compressed answers.

use rhythm_engine::device::FOLD_BYTES_MAX;
use rhythm_engine::program::{Aside, PageProgram, Service};
use rhythm_engine::settings::GzipSettings;
use rhythm_gzip::Codebook;
use rhythm_protocol::http::encoding::Encoding;
use rhythm_protocol::http::response::{PreparedHead, ResponseWriter};
use std::sync::Arc;

/// Media types of texts beside `text/*`; others may be compressed already.
const TEXTS: [&str; 5] = [
    "application/json",
    "application/javascript",
    "application/xml",
    "application/x-ndjson",
    "application/manifest+json",
];

/// Headers of a page that are about the bytes which are sent: it is left as it is.
const OF_BYTES: [&str; 6] = [
    "content-encoding",
    "content-range",
    "etag",
    "content-digest",
    "repr-digest",
    "digest",
];

/// See the module's text.
#[derive(Debug)]
pub(crate) struct PageGzip {
    /// What its streams have in common.
    pub(crate) book: Arc<Codebook>,
    /// As the page's own head.
    pub(crate) head: PreparedHead,
}

impl PageGzip {
    /// That of a page with these fields in its head. What can stay of `before` stays: to look for
    /// what repeats takes milliseconds.
    pub(crate) fn new(
        page: &PageProgram,
        service: &Service,
        fields: &[u8],
        before: Option<&PageGzip>,
    ) -> PageGzip {
        let text = |fragment: u32| (fragment, &*service.fragments[fragment as usize]);
        let all = page.fragments().into_iter().map(text);
        // Executors put short ones into runs.
        let (long, short): (Vec<_>, Vec<_>) =
            all.partition(|(_, text)| text.len() > FOLD_BYTES_MAX);
        let mut fields = fields.to_vec();
        ResponseWriter::resume(&mut fields).encoding(Encoding::Gzip, false);
        let long = || long.iter().copied();
        let short = || short.iter().map(|(_, text)| *text);
        let before = before.filter(|before| before.book.is_of(long(), short()));
        let book = before.map(|before| before.book.clone());
        PageGzip {
            book: book.unwrap_or_else(|| Arc::new(Codebook::new(long(), short()))),
            head: PreparedHead::new(&fields),
        }
    }
}

/// Whether a page's answers are compressed for those who take it: texts are, but not where the page
/// says itself something of the bytes which are sent, or that its answers never are.
pub(crate) fn is_compressed(page: &PageProgram, settings: &GzipSettings) -> bool {
    let is_of_bytes = |aside: &Aside| match aside {
        Aside::Header(name) => OF_BYTES.iter().any(|of| name.eq_ignore_ascii_case(of)),
        Aside::Stored(_) | Aside::Flash | Aside::Proxy => false,
    };
    settings.pages
        && page.gzip
        && is_text(&page.content_type)
        && !page.asides.iter().any(is_of_bytes)
}

/// Whether a value of Content-Type is that of a text, as is worth compressing.
pub(crate) fn is_text(content_type: &str) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    let media_type = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim_end();
    media_type.starts_with("text/")
        || media_type.ends_with("+xml")
        || media_type.ends_with("+json")
        || TEXTS.contains(&media_type)
}
