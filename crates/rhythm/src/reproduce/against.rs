//! What verdicts are others than in the report of another run.

use crate::output::print_line;
use anyhow::Result;
use rhythm_bench::reproduce::Verdicts;
use std::path::PathBuf;

/// What a report is beside.
#[derive(Debug, clap::Args)]
pub(super) struct Against {
    /// The report of another run (its JSON): verdicts that are others than its are printed, and how
    /// many were decided in both, turned round, and decided only there or only here. None of that
    /// is a failure: the exit status says whether the report was made
    #[arg(long, value_name = "FILE")]
    pub(super) against: Option<PathBuf>,
}

impl Against {
    /// The earlier verdicts: to be read before the work begins.
    pub(super) fn read(&self) -> Result<Option<Verdicts>> {
        Ok(self.against.as_deref().map(Verdicts::read).transpose()?)
    }
}

/// Prints what verdicts are others than they were.
pub(super) fn print_changes(now: &Verdicts, earlier: Option<&Verdicts>) -> Result<()> {
    for line in earlier.iter().flat_map(|earlier| now.since(earlier)) {
        print_line(line)?;
    }
    Ok(())
}
