//! `rhythm load`: users walking through the bank or the bookstore, every page checked; or clients
//! of memcached servers, every value checked (`memcached`).

mod memcached;

use crate::exits::wrong;
use crate::output::{print, print_line};
use crate::progress;
use anyhow::{Context, Result, bail};
use rhythm_bench::load::{self, Banking, Bookstore, LoadOptions, Mix, Page, RATES, Visitors};
use rhythm_bench::memcached::{MemcachedOptions, SCHEME};
use rhythm_engine::settings::duration;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Load a server with users who walk through services/banking or services/bookstore, and check
/// every page; or load memcached servers, side by side, and check every value.
///
/// Of web servers it knows the pages of these two services alone (`--workload`); what loads any
/// other is a general load generator, such as wrk.
///
/// Exits with 1 if any page or value was wrong or any request failed. A memcached is loaded with
/// the mix of 16-byte keys, 512-byte values and 10 % writes, unless flags say otherwise; several
/// take turns, and are compared with the first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server, such as http://127.0.0.1:8080 or, over TLS, https://NAME:8443; or
    /// memcached://HOST:PORT (or the /PATH of a Unix socket), further ones behind commas; A+B+C in
    /// place of one are the nodes of a ring
    url: String,

    /// How long to load (each memcached server, all slices together)
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,

    /// How long to load before measuring [default: 0s; memcached: 200ms before each slice]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    warmup: Option<Duration>,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// What decides who logs in and where they go, or which keys are asked for
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Open loop: so many users arrive (memcached: requests fall due) a second, whether or not the
    /// server keeps up; not with --page, whose users never leave
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_rate)]
    rate: Option<f64>,

    /// Do not check pages, only statuses; nor values, only that there are some
    #[arg(long)]
    no_validate: bool,

    /// Write the report to this file as JSON; "-" is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    web: WebArgs,

    #[command(flatten)]
    bank: BankArgs,

    #[command(flatten)]
    bookstore: BookstoreArgs,

    #[command(flatten)]
    memcached: memcached::MemcachedArgs,
}

/// Flags of users who walk.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Only for http:// and https://")]
struct WebArgs {
    /// Whose users: those of services/banking or of services/bookstore [default: banking]
    #[arg(long, value_name = "SERVICE", value_parser = ["banking", "bookstore"])]
    workload: Option<String>,

    /// Users at a time, each with a connection of its own [default: 100]
    #[arg(long, value_name = "N")]
    sessions: Option<usize>,

    /// Mean time a user looks at a page before the next; SPECweb's is 10s, TPC-W's 7s
    /// [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    think: Option<Duration>,

    /// Take answers compressed with gzip, and check what they inflate to
    #[arg(long)]
    gzip: bool,

    /// With https://: the file of the certificates that sign the server's, or of its own (PEM)
    /// [default: those that the system trusts]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// With https://: take whatever certificate the server shows, unchecked
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

/// Flags that only the bank knows.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Only for --workload banking")]
struct BankArgs {
    /// Users of the bank: 1 to N log in [default: 100000]
    #[arg(long, value_name = "N")]
    users: Option<u32>,

    /// One page only, again and again, such as account_summary; by so many users as --sessions
    /// says, each of whom asks again as soon as he is answered
    #[arg(long, value_name = "PAGE", value_parser = parse_page)]
    page: Option<Page>,

    /// Requests sent on a connection before the first is answered, with --page [default: 1]
    #[arg(long, value_name = "N", requires = "page")]
    pipeline: Option<usize>,

    /// Do not ask for the pages' static files
    #[arg(long)]
    no_files: bool,
}

/// Flags that only the bookstore knows.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Only for --workload bookstore")]
struct BookstoreArgs {
    /// Where users go: TPC-W's browsing, shopping or ordering mix, or s0, s5, s15 or s50, where
    /// users of two kinds, who look and who do all else, change with so many percent
    /// [default: shopping]
    #[arg(long, value_name = "MIX")]
    mix: Option<Mix>,

    /// Items that the shop was populated with [default: 1000]
    #[arg(long, value_name = "N")]
    items: Option<u32>,

    /// Browsers that it was populated for, 2880 customers each [default: 1]
    #[arg(long, value_name = "N")]
    browsers: Option<u32>,

    /// Pages of a visit on average [default: 128.6, of s0 to s50 8.6]
    #[arg(long, value_name = "N")]
    visit: Option<f64>,
}

/// The first of the flags that was given.
fn given(flags: &[(bool, &'static str)]) -> Option<&'static str> {
    let mut given = flags.iter().filter(|(is_given, _)| *is_given);
    given.next().map(|(_, flag)| *flag)
}

impl WebArgs {
    fn given(&self) -> Option<&'static str> {
        given(&[
            (self.workload.is_some(), "workload"),
            (self.sessions.is_some(), "sessions"),
            (self.think.is_some(), "think"),
            (self.gzip, "gzip"),
            (self.ca.is_some(), "ca"),
            (self.insecure, "insecure"),
        ])
    }
}

impl BankArgs {
    fn given(&self) -> Option<&'static str> {
        given(&[
            (self.users.is_some(), "users"),
            (self.page.is_some(), "page"),
            (self.no_files, "no-files"),
        ])
    }

    fn visitors(self) -> Visitors {
        let usual = Banking::default();
        Visitors::Banking(Banking {
            users: self.users.unwrap_or(usual.users),
            files: !self.no_files,
            page: self.page,
            pipeline: self.pipeline.unwrap_or(usual.pipeline),
            ..usual
        })
    }
}

impl BookstoreArgs {
    fn given(&self) -> Option<&'static str> {
        given(&[
            (self.mix.is_some(), "mix"),
            (self.items.is_some(), "items"),
            (self.browsers.is_some(), "browsers"),
            (self.visit.is_some(), "visit"),
        ])
    }

    fn visitors(self) -> Visitors {
        let usual = Bookstore::default();
        Visitors::Bookstore(Bookstore {
            mix: self.mix.unwrap_or(usual.mix),
            items: self.items.unwrap_or(usual.items),
            browsers: self.browsers.unwrap_or(usual.browsers),
            visit_pages: self.visit,
        })
    }
}

fn parse_rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate| RATES.contains(rate));
    rate.ok_or("a number from 0.001 to 10000000")
}

pub(crate) fn parse_page(name: &str) -> Result<Page, String> {
    let name = name.trim_end_matches(".php");
    Page::named(name).ok_or_else(|| {
        let names: Vec<&str> = Page::ALL.iter().map(|page| page.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    if args.url.starts_with(SCHEME) {
        return run_memcached(args);
    }
    if args.memcached != memcached::MemcachedArgs::default() {
        bail!(wrong(format_args!(
            "flags of memcached:// are given, and the URL is {}",
            args.url
        )));
    }
    let usual = LoadOptions::default();
    let warmup = args.warmup.unwrap_or(usual.warmup);
    let visitors = match args.web.workload.as_deref() {
        Some("bookstore") => match args.bank.given() {
            Some(flag) => bail!(wrong(format_args!(
                "--{flag} is for --workload banking only"
            ))),
            None => args.bookstore.visitors(),
        },
        _ => match args.bookstore.given() {
            Some(flag) => bail!(wrong(format_args!(
                "--{flag} is for --workload bookstore only"
            ))),
            None => args.bank.visitors(),
        },
    };
    let options = LoadOptions {
        url: args.url,
        sessions: args.web.sessions.unwrap_or(usual.sessions),
        duration: args.duration,
        warmup,
        threads: args.threads,
        seed: args.seed,
        think: args.web.think.unwrap_or(usual.think),
        arrivals_per_s: args.rate,
        validate: !args.no_validate,
        gzip: args.web.gzip,
        ca: args.web.ca,
        insecure: args.web.insecure,
        ..usual
    };
    let total = warmup + args.duration;
    let bar = progress::parts(total.as_secs());
    let report = load::run(options, visitors, &mut |now| {
        bar.set_position(now.elapsed.as_secs());
        bar.set_message(format!(
            "of {} s: {:.0} pages/s, {} pages, {} wrong, {} failed",
            total.as_secs(),
            now.pages_per_s,
            now.pages,
            now.invalid,
            now.errors
        ));
    })?;
    bar.finish_and_clear();
    tell(args.json.as_deref(), &report, report.passed())
}

fn run_memcached(args: Args) -> Result<ExitCode> {
    let web = [args.web.given(), args.bank.given(), args.bookstore.given()];
    if let Some(flag) = web.into_iter().flatten().next() {
        bail!(wrong(format_args!(
            "--{flag} is for http:// and https:// only"
        )));
    }
    let usual = MemcachedOptions::default();
    let report = memcached::run(args.memcached.over(MemcachedOptions {
        url: args.url,
        rate: args.rate,
        validate: !args.no_validate,
        duration: args.duration,
        warmup: args.warmup.unwrap_or(usual.warmup),
        threads: args.threads,
        seed: args.seed,
        ..usual
    }))?;
    tell(args.json.as_deref(), &report, report.passed())
}

/// Tells a report, as text and, if a file was named, as JSON; fails if it has not passed.
fn tell(
    json: Option<&Path>,
    report: &(impl serde::Serialize + Display),
    passed: bool,
) -> Result<ExitCode> {
    write_json(json, report)?;
    if json != Some(Path::new("-")) {
        print_line(report)?;
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes a report to a file, if one was named.
pub(crate) fn write_json(path: Option<&Path>, report: &impl serde::Serialize) -> Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(report)? + "\n";
    if path == Path::new("-") {
        return print(text);
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
