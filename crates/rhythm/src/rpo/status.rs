//! Asks a running controller for its status.

use crate::admin;
use anyhow::{Context, Result};
use std::net::SocketAddr;

/// Most bytes of an answer.
const ANSWER_MAX: u64 = 1 << 20;

/// The text of its status.
pub(super) fn ask(at: SocketAddr) -> Result<String> {
    let answer = admin::ask(at, ANSWER_MAX).with_context(|| {
        format!(
            "cannot ask a controller at {at} (rhythm rpo tells of itself at its --admin, rhythm \
             serve --rpo at its --rpo-admin, unless there is nothing to gain: its log says so)"
        )
    })?;
    let status = admin::read(&answer);
    let status = status.with_context(|| format!("what is at {at} is no controller"))?;
    Ok(status.text)
}
