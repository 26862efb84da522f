//! What commands that take long tell of how far they are, by standard error: on a terminal a bar,
//! which shows for how long they have been at it, too. Elsewhere those that take minutes tell it in
//! lines.

use crate::output::complain;
use indicatif::{ProgressBar, ProgressStyle};
use rhythm_bench::reproduce::ReproduceProgress;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How often the time that has passed is shown, whatever else happens.
const TICK: Duration = Duration::from_millis(200);
/// Of whose steps there are so many.
const STEPS: &str = "{elapsed} [{bar:30}] {pos}/{len} {msg}";
/// Whose words say how far it is.
const WORDS: &str = "{elapsed} [{bar:30}] {msg}";
/// How often many runs are told of where there is no terminal.
const TOLD: usize = 10;

/// A bar that counts steps, of which there may be more than are known yet.
pub(crate) fn steps(count: usize) -> ProgressBar {
    bar(count as u64, STEPS)
}

/// A bar whose message says how far it is, of so many parts.
pub(crate) fn parts(count: u64) -> ProgressBar {
    bar(count, WORDS)
}

/// What shows that something is under way, of which nobody knows how long it is.
pub(crate) fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(TICK);
    spinner
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style.progress_chars("=> "));
    bar.enable_steady_tick(TICK);
    bar
}

/// What tells of points: a bar on a terminal, elsewhere a line for each.
pub(crate) fn by_points() -> impl FnMut(ReproduceProgress<'_>) {
    let bar = steps(0);
    let has_bar = io::stderr().is_terminal();
    move |now: ReproduceProgress<'_>| {
        let ReproduceProgress { done, of, what } = now;
        match has_bar {
            true => {
                bar.set_length(of as u64);
                bar.set_position(done as u64);
                bar.set_message(what.to_owned());
            }
            false => complain(format_args!("rhythm: {} of {of}: {what}", done + 1)),
        }
    }
}

/// The same of many runs: a bar on a terminal, elsewhere a line for each tenth of them.
pub(crate) fn by_runs() -> impl FnMut(usize, usize) {
    let bar = steps(0);
    let has_bar = io::stderr().is_terminal();
    bar.set_message("runs");
    move |done: usize, of: usize| match has_bar {
        true => {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        }
        false => {
            let part = |done: usize| done * TOLD / of.max(1);
            if done > 0 && part(done) > part(done - 1) {
                complain(format_args!("rhythm: {done} of {of} runs"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_words_are_what_the_library_understands() {
        for template in [STEPS, WORDS] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
