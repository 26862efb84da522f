//! A site's own error pages, made when it is loaded: no error costs more than to copy one.
//!
//! What differs from request to request is one sentence, such as which parameter is missing. Each
//! page is rendered twice: without a sentence, and with a mark in its place, where it is cut.

use rhythm_engine::cohort::{Cohort, Column, LaneState};
use rhythm_engine::device::scalar::ScalarExecutor;
use rhythm_engine::device::{Executor, Work};
use rhythm_engine::program::{ErrorPages as Programs, FieldType, Service, Type};
use rhythm_http::ErrorPage;
use std::sync::Arc;

/// Stands for the sentence: no text of people has a character for private use, and escaping leaves
/// it as it is.
const MARK: &str = "\u{f8ff}sentence\u{f8ff}";
const MARK_END: &str = "\u{f8ff}";

/// Most bytes of an error page. It is copied for whoever asks for what is not there.
const BYTES_MAX: usize = 64 << 10;

/// Most bytes that making one may take.
const ARENA_BYTES_MAX: usize = 16 << 20;

/// The error pages of a site, by status.
#[derive(Debug, Default)]
pub(crate) struct ErrorPages {
    pages: Vec<(u16, ErrorPage)>,
}

impl ErrorPages {
    /// # Errors
    /// Which page cannot be made, and why, in words.
    pub(crate) fn new(programs: &Programs) -> Result<ErrorPages, String> {
        let made = programs.statuses.iter().enumerate().map(|(index, status)| {
            let made = page(&programs.service, index);
            let made = made.map_err(|why| format!("the error page for {status} {why}"))?;
            Ok((*status, made))
        });
        let pages = made.collect::<Result<_, String>>()?;
        Ok(ErrorPages { pages })
    }

    /// The page for a status, if the site has its own.
    pub(crate) fn get(&self, status: u16) -> Option<&ErrorPage> {
        let found = self.pages.iter().find(|(known, _)| *known == status);
        found.map(|(_, page)| page)
    }
}

fn page(service: &Arc<Service>, index: usize) -> Result<ErrorPage, String> {
    let plain = rendered(service, index, "")?;
    let told = rendered(service, index, MARK)?;
    let pieces: Vec<Box<[u8]>> = (told.split(MARK))
        .map(|piece| piece.as_bytes().into())
        .collect();
    if pieces.iter().any(|piece| contains(piece, MARK_END)) {
        let why = "changes `message`: it is printed as it is, as {{ message }}, or not at all";
        return Err(why.to_owned());
    }
    Ok(ErrorPage {
        content_type: service.pages[index].content_type.clone(),
        plain: plain.into_bytes().into(),
        pieces,
    })
}

fn contains(piece: &[u8], text: &str) -> bool {
    (piece.windows(text.len())).any(|window| window == text.as_bytes())
}

/// A page's body, with this sentence.
fn rendered(service: &Arc<Service>, page: usize, message: &str) -> Result<String, String> {
    let program = &service.pages[page];
    debug_assert!(matches!(
        program.fields.first().map(|field| &field.kind),
        Some(FieldType::Scalar(Type::Text))
    ));
    let mut cohort = Box::new(Cohort::new(ARENA_BYTES_MAX));
    cohort.reset(program);
    let lane = cohort.push_lane();
    let view = cohort.arena.push(message.as_bytes());
    if let Some(Column::Text(views)) = cohort.fields.first_mut() {
        views[lane] = view;
    }
    let mut executor = ScalarExecutor::default();
    let work = Work {
        service: service.clone(),
        page,
        cohort,
        token: 0,
    };
    let mut done = Vec::new();
    let submitted = executor.submit(work);
    executor.poll(&mut done);
    let (Ok(()), Some(work)) = (submitted, done.pop()) else {
        return Err("was not made".to_owned());
    };
    let mut body = Vec::new();
    match work.cohort.lanes[lane] {
        LaneState::Finished => work
            .cohort
            .output
            .stitch(lane, &service.fragments, &mut body),
        LaneState::Failed(error) => return Err(format!("cannot be made: {error}")),
        _ => return Err("was not made".to_owned()),
    }
    if body.len() > BYTES_MAX {
        let length = body.len();
        return Err(format!("has {length} bytes, of {BYTES_MAX} at most"));
    }
    String::from_utf8(body).map_err(|_| "is no text".to_owned())
}
