//! The whole pipeline on the device: from raw requests in its memory to answers in its memory
//! (paper, section 5.3.2).
//!
//! ```text
//!   parser instances, a stream each:
//!       trace ─▶ [transpose] ─▶ classify ─▶ sort by page ─▶ parameters ─▶ lanes
//!   cohorts in flight, a stream each:
//!       lanes ─▶ sessions ─▶ stage 0 ─▶ BeSim ─▶ decode ─▶ stage 1 ... ─▶ sessions
//!             ─▶ heads ─▶ layout
//! ```
//! The paper takes network and PCIe away to see what the device can do, and so does this: requests
//! are there, answers stay there, and the backend is there, too, but in layout A. It runs one page
//! type at a time, as the paper measures; [`Resident::answers`] brings the answers of a cohort to
//! the host, to be compared with the server's own.
//!
//! - [`Resident`]: the pipeline: its contexts, how they find their room, how they are run;
//! - `context`: one cohort's launches; `memory`: what it has in the device's memory;
//! - `heads`, `host_backend`: the heads of answers, and the backend of layout A;
//! - `read_back`: what came of it, brought to the host.

mod answer;
mod context;
mod heads;
mod host_backend;
mod memory;
mod options;
mod pipeline;
mod read_back;
mod trace;

pub use answer::Answer;
pub use options::{ResidentError, ResidentOptions};
pub use pipeline::Resident;
pub use trace::Trace;
