//! How it is getting on.

use crate::output::complain;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use rhythm_bench::reproduce::ReproduceProgress;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How often the time that has passed is shown.
const TICK: Duration = Duration::from_secs(1);
/// How often many runs are told of where there is no terminal.
const PARTS: usize = 10;

fn bar() -> Result<ProgressBar> {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed} [{bar:30}] {pos}/{len} {msg}")?;
    bar.set_style(style.progress_chars("=> "));
    bar.enable_steady_tick(TICK);
    Ok(bar)
}

/// What tells people how it is getting on: a bar on a terminal, elsewhere a line for each point.
pub(crate) fn by_points() -> Result<impl FnMut(ReproduceProgress<'_>)> {
    let bar = bar()?;
    let has_bar = io::stderr().is_terminal();
    Ok(move |now: ReproduceProgress<'_>| {
        let ReproduceProgress { done, of, what } = now;
        match has_bar {
            true => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                bar.set_message(what.to_owned());
            }
            false => complain(format_args!("rhythm: {} of {of}: {what}", done + 1)),
        }
    })
}

/// The same for many runs: a bar on a terminal, elsewhere a line for each tenth of them.
pub(crate) fn by_runs() -> Result<impl FnMut(usize, usize)> {
    let bar = bar()?;
    let has_bar = io::stderr().is_terminal();
    bar.set_message("runs");
    Ok(move |done: usize, of: usize| match has_bar {
        true => {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        }
        false => {
            let part = |done: usize| done * PARTS / of.max(1);
            if done > 0 && part(done) > part(done - 1) {
                complain(format_args!("rhythm: {done} of {of} runs"));
            }
        }
    })
}
