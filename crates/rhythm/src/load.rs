//! `rhythm load`: users walking through the bank, every page checked.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rhythm_bench::load::{self, LoadOptions, Page};
use rhythm_engine::settings::duration;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Load a server with users who walk the Banking workload, and check every page.
///
/// Exits with 1 if any page was wrong or any request failed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server, such as http://127.0.0.1:8080
    url: String,

    /// Users at a time, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 100)]
    sessions: usize,

    /// How long to load
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,

    /// How long to load before measuring
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Users of the bank: 1 to N log in
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    users: u32,

    /// What decides who logs in and where they go
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Mean time a user looks at a page before the next (SPECweb's is 10s)
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    think: Duration,

    /// Open loop: so many users arrive a second, whether or not the server keeps up
    #[arg(long, value_name = "USERS_PER_SECOND", value_parser = parse_rate)]
    rate: Option<f64>,

    /// One page only, again and again, such as account_summary
    #[arg(long, value_name = "PAGE", value_parser = parse_page)]
    page: Option<Page>,

    /// Requests sent on a connection before the first is answered (with --page)
    #[arg(long, value_name = "N", default_value_t = 1, requires = "page")]
    pipeline: usize,

    /// Do not ask for the pages' static files
    #[arg(long)]
    no_files: bool,

    /// Do not check pages, only statuses
    #[arg(long)]
    no_validate: bool,

    /// Write the report to this file as JSON; "-" is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn parse_rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or("a number above 0")
}

pub(crate) fn parse_page(name: &str) -> Result<Page, String> {
    let name = name.trim_end_matches(".php");
    Page::named(name).ok_or_else(|| {
        let names: Vec<&str> = Page::ALL.iter().map(|page| page.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let options = LoadOptions {
        url: args.url,
        sessions: args.sessions,
        duration: args.duration,
        warmup: args.warmup,
        threads: args.threads,
        users: args.users,
        seed: args.seed,
        think: args.think,
        arrivals_per_s: args.rate,
        files: !args.no_files,
        validate: !args.no_validate,
        page: args.page,
        pipeline: args.pipeline,
        ..LoadOptions::default()
    };
    let total = args.warmup + args.duration;
    let bar = ProgressBar::new(total.as_secs());
    let style = ProgressStyle::with_template("{elapsed} of {len}s [{bar:30}] {msg}")
        .context("the progress bar's template")?;
    bar.set_style(style.progress_chars("=> "));
    let report = load::run(options, &mut |now| {
        bar.set_position(now.elapsed.as_secs());
        bar.set_message(format!(
            "{:.0} pages/s, {} pages, {} wrong, {} failed",
            now.pages_per_s, now.pages, now.invalid, now.errors
        ));
    })?;
    bar.finish_and_clear();
    write_json(args.json.as_deref(), &report)?;
    if args.json.as_deref() != Some(std::path::Path::new("-")) {
        println!("{report}");
    }
    Ok(if report.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes a report to a file, if one was named.
pub(crate) fn write_json(
    path: Option<&std::path::Path>,
    report: &impl serde::Serialize,
) -> Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(report)? + "\n";
    if path == std::path::Path::new("-") {
        print!("{text}");
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
