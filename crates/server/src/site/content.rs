//! What a request's content is, as its head says, and whether its page takes it.

use rhythm_engine::program::Carrier;
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::multipart;
use rhythm_protocol::http::request::{Framing, RequestHead};

/// Most characters of a file's name that are kept.
pub(crate) const NAME_MAX: usize = 255;

/// The content of a request whose page takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// None, or none that the page looks at.
    Nothing,
    /// A form, as browsers send it without an `enctype`.
    Form(&'a [u8]),
    /// A form in parts, with files perhaps.
    Multipart {
        /// What is between them.
        boundary: &'a [u8],
        /// All of it.
        content: &'a [u8],
    },
    /// A document of JSON.
    Json(&'a [u8]),
}

/// What content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind<'a> {
    Nothing,
    Form,
    /// With this boundary.
    Multipart(&'a [u8]),
    Json,
    Other,
}

impl<'a> ContentKind<'a> {
    /// What a request's content is.
    pub(crate) fn of(head: &RequestHead, bytes: &'a [u8]) -> ContentKind<'a> {
        if matches!(head.framing(), Framing::None | Framing::Length(0)) {
            return ContentKind::Nothing;
        }
        let Some(value) = head.known(Known::ContentType) else {
            return ContentKind::Other;
        };
        let value = value.of(bytes);
        let end = memchr::memchr(b';', value).unwrap_or(value.len());
        let media_type = value[..end].trim_ascii();
        let is = |known: &str| media_type.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("application/x-www-form-urlencoded") => ContentKind::Form,
            () if is("application/json") => ContentKind::Json,
            () => match multipart::boundary(value) {
                Some(boundary) => ContentKind::Multipart(boundary),
                None => ContentKind::Other,
            },
        }
    }
}

/// Which content a page takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    form: bool,
    json: bool,
}

impl Takes {
    /// That of a page whose parameters are in these.
    pub(crate) fn of<'c>(carriers: impl Iterator<Item = &'c Carrier>) -> Takes {
        carriers.fold(Takes::default(), |takes, carrier| Takes {
            form: takes.form || *carrier == Carrier::Form,
            json: takes.json || *carrier == Carrier::Json,
        })
    }

    /// Whether a request with this head can be answered by the page. One that looks at no content
    /// takes any.
    #[inline]
    pub(crate) fn fits(self, head: &RequestHead, bytes: &[u8]) -> bool {
        if self == Takes::default() {
            return true;
        }
        match ContentKind::of(head, bytes) {
            ContentKind::Nothing => true,
            ContentKind::Form | ContentKind::Multipart(_) => self.form,
            ContentKind::Json => self.json,
            ContentKind::Other => false,
        }
    }

    /// What the page takes of a request that fits.
    #[inline]
    pub(crate) fn content<'a>(
        self,
        head: &RequestHead,
        bytes: &'a [u8],
        content: &'a [u8],
    ) -> Content<'a> {
        if self == Takes::default() {
            return Content::Nothing;
        }
        match ContentKind::of(head, bytes) {
            ContentKind::Form => Content::Form(content),
            ContentKind::Multipart(boundary) => Content::Multipart { boundary, content },
            ContentKind::Json => Content::Json(content),
            ContentKind::Nothing | ContentKind::Other => Content::Nothing,
        }
    }
}
