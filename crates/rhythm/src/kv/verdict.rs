//! What is said of how nodes are.

use crate::output::print_line;
use anyhow::Result;
use std::process::ExitCode;

/// Shows how nodes are, in lines, and tells by the status whether all is well.
pub(super) fn verdict((shown, is_well): (Vec<String>, bool)) -> Result<ExitCode> {
    shown.iter().try_for_each(print_line)?;
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
