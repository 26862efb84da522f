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
        self.scalars.clear(page.params.len());
        self.lists.clear(page.list_params.len());
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
