//! What is known ahead of a page's compressed answers.

use rhythm_engine::device::FOLD_BYTES_MAX;
use rhythm_engine::program::{Aside, PageProgram, Service};
use rhythm_engine::settings::GzipSettings;
use rhythm_gzip::Codebook;
use rhythm_protocol::http::encoding::Encoding;
use rhythm_protocol::http::response::{PreparedHead, ResponseWriter};

/// Media types that are compressed already, or by what they are made of.
const COMPRESSED: [&str; 5] = ["image/", "audio/", "video/", "font/", "application/zip"];

/// See the module's text.
#[derive(Debug)]
pub(crate) struct PageGzip {
    /// What its streams have in common.
    pub(crate) book: Codebook,
    /// As the page's own head.
    pub(crate) head: PreparedHead,
}

impl PageGzip {
    /// That of a page with these fields in its head.
    pub(crate) fn new(page: &PageProgram, service: &Service, fields: &[u8]) -> PageGzip {
        let text = |fragment: u32| (fragment, &*service.fragments[fragment as usize]);
        let all = page.fragments().into_iter().map(text);
        // Executors put short ones into runs.
        let (long, short): (Vec<_>, Vec<_>) =
            all.partition(|(_, text)| text.len() > FOLD_BYTES_MAX);
        let mut fields = fields.to_vec();
        ResponseWriter::resume(&mut fields).encoding(Encoding::Gzip, false);
        PageGzip {
            book: Codebook::new(long, short.into_iter().map(|(_, text)| text)),
            head: PreparedHead::new(&fields),
        }
    }
}

/// Whether a page's answers are compressed for those who take it: not where it says itself how they
/// are encoded, nor where they are something that gets no shorter.
pub(crate) fn is_compressed(page: &PageProgram, settings: &GzipSettings) -> bool {
    let encodes = |aside: &Aside| match aside {
        Aside::Header(name) => name.eq_ignore_ascii_case("content-encoding"),
        Aside::Stored(_) | Aside::Flash => false,
    };
    let media_type = &page.content_type;
    let is_text = media_type.starts_with("image/svg");
    settings.pages
        && !page.asides.iter().any(encodes)
        && (is_text || !COMPRESSED.iter().any(|kind| media_type.starts_with(kind)))
}
