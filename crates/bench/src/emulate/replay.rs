//! Requests executed for a profiler, and nothing else: no clock is read and no limit measured, so
//! that what two runs of different length differ by is the requests' alone.

use super::{
    EmulationError, EmulationOptions, MakeExecutor, Output, Stage, contains, page_in_each,
};
use crate::load::{Page, inflate};
use rhythm_server::Site;
use std::sync::Arc;

/// What is executed.
pub struct ReplayOptions {
    /// The executor's name.
    pub executor: String,
    /// Makes it.
    pub make: MakeExecutor,
    /// The pages, one after the other.
    pub pages: Vec<Page>,
    /// Users, who are all logged in and have the page once before anything is executed.
    pub users: usize,
    /// Requests of each page that are executed then, of as many users, others each time: at most
    /// as many as there are.
    pub requests: usize,
    /// Requests that are there at a time: lanes of a cohort.
    pub cohort_size: usize,
    /// Whether they take gzip.
    pub gzip: bool,
}

impl std::fmt::Debug for ReplayOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayOptions")
            .field("executor", &self.executor)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// Bytes of memory that answers are written to: as few as may be, since nobody looks at the time.
const RING_BYTES: usize = 1 << 20;

/// Executes requests; `mark` is told of each cohort of them before and behind it (`true`, `false`),
/// with the page.
///
/// # Errors
/// When an answer is not the page asked for, or there is no such executor.
pub fn replay(
    site: &Arc<Site>,
    options: &ReplayOptions,
    mark: &mut dyn FnMut(Page, bool),
) -> Result<(), EmulationError> {
    let lanes = options.cohort_size.max(1);
    let (users, requests) = (options.users.max(1), options.requests.min(options.users));
    let stage_options = EmulationOptions {
        executors: Vec::new(),
        cohort_size: lanes,
        // Twice the users: half of them have the page before.
        in_flight: (2 * users).div_ceil(lanes),
        requests: 2 * users,
        repeats: 1,
        ring_bytes: RING_BYTES,
        output: Output::Pages,
        pages: Vec::new(),
    };
    for &page in &options.pages {
        let executor = (options.make)().map_err(EmulationError::NoExecutor)?;
        let mut stage = Stage::of_users(site, &stage_options, executor, page, 2 * users)?;
        if options.gzip {
            stage.requests.iter_mut().for_each(take_gzip);
        }
        let counted = stage.split(users);
        let mut answers = stage.answers();
        if options.gzip {
            answers.iter_mut().for_each(inflate_answer);
        }
        page_in_each(&answers, page, &options.executor)?;
        stage.become_of(counted);
        for from in (0..requests).step_by(lanes) {
            let to = (from + lanes).min(requests);
            mark(page, true);
            stage.part(from..to);
            mark(page, false);
        }
    }
    Ok(())
}

/// Has a request say that its answer may be in gzip.
fn take_gzip(request: &mut Vec<u8>) {
    let line = request.iter().position(|byte| *byte == b'\n');
    let behind = line.map_or(request.len(), |at| at + 1);
    let header = b"Accept-Encoding: gzip\r\n".iter().copied();
    request.splice(behind..behind, header);
}

/// Makes an answer in gzip the plain one; any other has nothing left, and is none that was due.
fn inflate_answer(answer: &mut Vec<u8>) {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let content = inflate(&answer[end..]).unwrap_or_default();
    let is_gzip = contains(&answer[..end], b"Content-Encoding: gzip");
    answer.truncate(if is_gzip { end } else { 0 });
    answer.extend(content);
}
