//! Small programs that use much memory, as the evaluation of *Venice* (HPCA 2016) has them: ranks
//! of pages, connected components, a breadth-first search of Graph500's kind, and grep.
//!
//! They know nothing of where their memory is. Each makes its data from a seed, does its work, and
//! tells how long that took, how much memory the data have, and a number that is the same wherever
//! the same was computed.

mod components;
mod graph;
mod grep;
mod memory;
mod number;
mod ranks;
mod search;

pub(crate) use memory::resident_bytes;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Instant;
use thiserror::Error;

/// Which program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// PageRank over an R-MAT graph.
    Ranks,
    /// Connected components of one, by labels that spread.
    Components,
    /// Breadth-first searches of one, from several roots.
    Search,
    /// Lines of a text that have a word.
    Grep,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 4] = [
        Program::Ranks,
        Program::Components,
        Program::Search,
        Program::Grep,
    ];

    /// As it is named on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Program::Ranks => "pagerank",
            Program::Components => "components",
            Program::Search => "search",
            Program::Grep => "grep",
        }
    }

    /// The one of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Program> {
        let all = Program::ALL.into_iter();
        all.into_iter().find(|program| program.name() == name)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The largest scale: of what is larger, 32 bits do not number the edges.
pub const SCALE_MAX: u32 = 26;

/// What a program tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds of its work; making the data is not in them.
    pub seconds: f64,
    /// Equal where the same was computed.
    pub result: String,
    /// Bytes that its data, and what its work makes of them, have in memory at the most, beside
    /// what the program itself takes; less than they are where some of them are elsewhere.
    pub bytes: u64,
}

/// Why a program did not run.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// What it found out contradicts itself: its memory is not what it wrote.
    #[error("{program} at scale {scale} is wrong: {what}")]
    Wrong {
        /// Which.
        program: Program,
        /// Of which size.
        scale: u32,
        /// What is the matter.
        what: String,
    },
}

/// Runs a program over data of a scale: a graph of 2^scale vertices and 14 times as many edges, or
/// a text of 2^scale times 64 bytes.
///
/// # Errors
/// [`ProgramError::Wrong`]: the result is not one that there can be.
pub fn run(program: Program, scale: u32) -> Result<Outcome, ProgramError> {
    let before = resident_bytes(None);
    let (seconds, result, after) = match program {
        Program::Ranks => {
            let graph = graph::Graph::directed(scale);
            timed(|full| ranks::ranks(&graph, full))
        }
        Program::Components => {
            let graph = graph::Graph::undirected(scale);
            timed(|full| components::components(&graph, full))
        }
        Program::Search => {
            let graph = graph::Graph::undirected(scale);
            timed(|full| search::search(&graph, full))
        }
        Program::Grep => {
            let text = grep::text(scale);
            timed(|full| grep::grep(&text, full))
        }
    };
    let wrong = |what| ProgramError::Wrong {
        program,
        scale,
        what,
    };
    let bytes = after.saturating_sub(before);
    result.map_err(wrong).map(|result| Outcome {
        seconds,
        result: format!("{result:016x}"),
        bytes,
    })
}

/// What is found, how long that takes, and what is in memory when the work says that it has all
/// that it needs: what it frees at its end is of its data, too.
fn timed(
    work: impl FnOnce(&mut dyn FnMut()) -> Result<u64, String>,
) -> (f64, Result<u64, String>, u64) {
    let mut bytes = 0;
    let start = Instant::now();
    let result = work(&mut || bytes = resident_bytes(None).max(bytes));
    (start.elapsed().as_secs_f64(), result, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_repeat_what_they_find_and_differ_by_scale() {
        for program in Program::ALL {
            assert_eq!(Program::named(program.name()), Some(program));
            let [one, two, other] =
                [8, 8, 9].map(|scale| run(program, scale).expect("it is right").result);
            assert_eq!(one, two, "{program}");
            assert_ne!(one, other, "{program}");
        }
        assert_eq!(Program::named("cat"), None);
    }

    #[test]
    fn what_the_work_frees_at_its_end_is_counted() {
        let (_, _, with) = timed(|full| {
            let data = std::hint::black_box(vec![7_u8; 64 << 20]);
            full();
            Ok(u64::from(data[0]))
        });
        let without = resident_bytes(None);
        assert!(with > without + (32 << 20), "{with} {without}");
    }
}
