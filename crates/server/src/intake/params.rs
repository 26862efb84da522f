//! Parameters: from the query, the content (a form, with files or without, or JSON), the path,
//! cookies and headers straight into a lane's columns.
//!
//! A request goes through its pairs once. A scalar is checked and stored when it is met, unless a
//! better carrier may have it, too; items of lists are remembered and stored when all are known to
//! be there. What is wrong refuses the request, or is told to the page where that wants to know.

mod json;
mod lane;
mod lists;
mod multipart;
mod scalars;

pub(crate) use lane::BadParameter;

use crate::intake::scratch::empty;
use crate::site::content::Content;
use crate::site::routes::Captures;
use lane::{Lane, scalar};
use lists::{Found, Lists, Place};
use rhythm_engine::cohort::Cohort;
use rhythm_engine::program::{Carrier, PageProgram};
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::RequestHead;
use rhythm_protocol::http::uri;
use scalars::Scalars;

/// Where a request's parameters are.
pub(crate) struct Sources<'a> {
    pub(crate) head: &'a RequestHead,
    /// What the head was parsed from.
    pub(crate) bytes: &'a [u8],
    /// Its content, if the page takes it.
    pub(crate) content: Content<'a>,
    /// Names and values of the route's parameters.
    pub(crate) path_names: &'a [String],
    pub(crate) captures: &'a Captures,
}

/// Memory kept from request to request.
#[derive(Debug, Default)]
pub(crate) struct ParamReader {
    scalars: Scalars,
    /// The pair at hand, decoded, where it is encoded.
    name: Vec<u8>,
    value: Vec<u8>,
    lists: Lists,
}

impl ParamReader {
    /// Fills in the parameters of a lane.
    ///
    /// # Errors
    /// The first one that is bad, or else missing. The lane must then be taken back.
    pub(crate) fn read(
        &mut self,
        page: &PageProgram,
        sources: &Sources<'_>,
        has_others: bool,
        cohort: &mut Cohort,
        lane: usize,
    ) -> Result<(), BadParameter> {
        if page.params.is_empty() && page.list_params.is_empty() {
            return Ok(());
        }
        let read = self.read_all(page, sources, has_others, cohort, lane);
        self.scalars.rest();
        self.lists.rest();
        empty(&mut self.name);
        empty(&mut self.value);
        read
    }

    fn read_all(
        &mut self,
        page: &PageProgram,
        sources: &Sources<'_>,
        has_others: bool,
        cohort: &mut Cohort,
        lane: usize,
    ) -> Result<(), BadParameter> {
        self.scalars.begin(page.params.len());
        self.lists.begin(page.list_params.len());
        let mut lane = Lane { cohort, lane };
        let query = sources.head.query().of(sources.bytes);
        self.pairs(page, Carrier::Query, query, &mut lane)?;
        let mut found = Found {
            scalars: &mut self.scalars,
            lists: &mut self.lists,
        };
        match sources.content {
            Content::Nothing => {}
            Content::Form(form) => self.pairs(page, Carrier::Form, form, &mut lane)?,
            Content::Multipart { boundary, content } => {
                multipart::read(content, boundary, page, &mut found, &mut lane)?;
            }
            Content::Json(document) => json::read(document, page, &mut found, &mut lane)?,
        }
        if has_others {
            self.others(page, sources, &mut lane)?;
        }
        self.scalars.store(page, &mut lane)?;
        self.lists.store(page, &mut lane)
    }

    /// The pairs of the query or the form.
    fn pairs(
        &mut self,
        page: &PageProgram,
        carrier: Carrier,
        encoded: &[u8],
        lane: &mut Lane<'_>,
    ) -> Result<(), BadParameter> {
        uri::pairs(encoded)
            .try_for_each(|(name, value)| self.pair(page, carrier, name, value, lane))
    }

    fn pair(
        &mut self,
        page: &PageProgram,
        carrier: Carrier,
        raw_name: &[u8],
        raw_value: &[u8],
        lane: &mut Lane<'_>,
    ) -> Result<(), BadParameter> {
        let undecodable = |_| BadParameter::new("", "cannot be decoded");
        let name = uri::form_value(raw_name, &mut self.name).map_err(undecodable)?;
        if let Some(scalar) = scalar(page, carrier, name) {
            let value = uri::form_value(raw_value, &mut self.value);
            let value = value.map_err(|_| "cannot be decoded");
            return self.scalars.take(page, scalar, value, lane);
        }
        if let Some(place) = Place::of(page, carrier, name) {
            self.lists.take(place.list(page), place, |values| {
                uri::decode_form(raw_value, values).map_err(|_| "cannot be decoded")
            });
        }
        Ok(())
    }

    /// Parameters from path, cookies and headers.
    #[cold]
    fn others(
        &mut self,
        page: &PageProgram,
        sources: &Sources<'_>,
        lane: &mut Lane<'_>,
    ) -> Result<(), BadParameter> {
        for (index, param) in page.params.iter().enumerate() {
            let name = param.wire_name.as_str();
            for (rank, carrier) in param.carriers.iter().enumerate() {
                let value = match carrier {
                    Carrier::Query | Carrier::Form | Carrier::Json => None,
                    Carrier::Path => (sources.path_names.iter().position(|known| known == name))
                        .and_then(|index| sources.captures.get(index)),
                    Carrier::Cookie => (sources.head.known(Known::Cookie)).and_then(|cookies| {
                        uri::cookie(cookies.of(sources.bytes), name.as_bytes())
                    }),
                    Carrier::Header => sources.head.values(sources.bytes, name).next(),
                };
                let value = match (value, carrier) {
                    (None, _) => continue,
                    // It is encoded as pages set it.
                    (Some(encoded), Carrier::Cookie) => {
                        self.value.clear();
                        let decoded = uri::decode(encoded, &mut self.value);
                        (decoded.map(|()| &*self.value)).map_err(|_| "cannot be decoded")
                    }
                    (Some(value), _) => Ok(value),
                };
                self.scalars.take(page, (index, rank as u8), value, lane)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::kinds;
    use rhythm_engine::compile::compile;
    use rhythm_engine::source;
    use rhythm_protocol::http::request::{HeadLimits, parse_head};

    /// A page with a scalar that is in its query first, and a list, both of which a form may have.
    pub(super) fn page() -> PageProgram {
        let text = "+++\nroute = \"POST /a\"\n[params]\n\
                    v = { in = [\"query\", \"form\"], type = \"text\" }\n\
                    l = { in = \"form\", type = \"text\", list = 3 }\n+++\n{{ v }}";
        let sources = source::Sources {
            files: [("service.toml", ""), ("pages/a.html", text)]
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .into(),
            ..source::Sources::default()
        };
        let mut service = compile(&sources, &kinds()).expect("it is sound");
        service.pages.remove(0)
    }

    /// An empty cohort of it.
    pub(super) fn cohort(page: &PageProgram) -> Cohort {
        let mut cohort = Cohort::new(1 << 20);
        cohort.reset(page);
        cohort
    }

    #[test]
    fn what_a_long_form_needs_is_not_kept() {
        let page = page();
        let bytes = b"POST /a HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut head = RequestHead::new();
        parse_head(&mut head, bytes, &HeadLimits::default()).expect("it is sound");
        let long = "%41".repeat(1 << 20);
        let form = format!("v={long}&l={long}&{long}=1");
        let sources = Sources {
            head: &head,
            bytes,
            content: Content::Form(form.as_bytes()),
            path_names: &[],
            captures: &Captures::default(),
        };
        let mut reader = ParamReader::default();
        let mut cohort = cohort(&page);
        let lane = cohort.push_lane();
        let read = reader.read(&page, &sources, false, &mut cohort, lane);
        assert!(read.is_err(), "it is longer than it may be");
        let kept = [
            reader.name.capacity(),
            reader.value.capacity(),
            reader.scalars.kept(),
            reader.lists.kept(),
        ];
        assert!(kept.iter().all(|bytes| *bytes <= 64 << 10), "{kept:?}");
    }
}
