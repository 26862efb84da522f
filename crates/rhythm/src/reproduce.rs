//! `rhythm reproduce`: the charts of a paper, made on this machine.

use crate::machine;
use crate::output::{complain, print_line};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rhythm_bench::reproduce::{self, ReproduceOptions, ReproduceProgress};
use rhythm_engine::settings::duration;
use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// How often the time that has passed is shown.
const TICK: Duration = Duration::from_secs(1);
/// How long a server is measured at each point, and in how many slices, if nothing is said.
const FULL: (Duration, usize) = (Duration::from_secs(3), 3);
/// The same with --quick.
const QUICK: (Duration, usize) = (Duration::from_millis(300), 1);
/// Keys, and those of --quick.
const KEYS: (u32, u32) = (100_000, 10_000);

/// Make a paper's charts on this machine, with the paper's figures beside.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, clap::Subcommand)]
enum Paper {
    Kv(Kv),
}

/// The charts of "Specialized Microservers for the Data Center": a key-value store beside
/// memcached.
///
/// Starts `rhythm kv`, memcached where it is installed, and rings of two nodes on free ports of
/// 127.0.0.1, loads them as `rhythm load` does, and stops them: the rate by protocol (ASCII, meta,
/// binary, UDP) and by size and mix; the response time, split into what is the client's and the
/// network's and what is the server's own, with and without a ring; operations a second of CPU
/// time, and a joule where the processor's counters can be read. Servers have a thread each and
/// other processors than the load, if there are two.
///
/// Writes kv.md (tables, with machine, commit and command), kv.json and the charts (SVG) into a
/// folder. Takes about 8 minutes, with --quick one. Exits with 1 if any value was wrong or any
/// request failed.
#[derive(Debug, clap::Parser)]
struct Kv {
    /// The folder for charts and tables
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,

    /// A minute for all of it, for a first look: few keys, short slices
    #[arg(long)]
    quick: bool,

    /// How long each server is measured at each point [default: 3s, 300ms with --quick]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// Keys, of which there are fewer where values are long [default: 100000, 10000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keys: Option<u32>,

    /// Compare ways to keep copies instead: ring, primary with copies that are read, chain, and
    /// keyspace, of three nodes each: response times, rates, bytes between nodes, and what is lost
    /// and waited for when a node is killed. Writes schemes.md, schemes.json and charts
    #[arg(long)]
    schemes: bool,

    /// The memcached to compare with; without it kv is measured alone
    #[arg(long, value_name = "PROGRAM", default_value = "memcached")]
    memcached: PathBuf,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let Paper::Kv(args) = args.paper;
    let (duration, slices) = if args.quick { QUICK } else { FULL };
    let program = env::current_exe().context("cannot find the rhythm program")?;
    let words = env::args().skip(1);
    let memcached = match reproduce::memcached_at(&args.memcached) {
        _ if args.schemes => None,
        Ok(memcached) => Some(memcached),
        Err(why) => {
            complain(format_args!(
                "rhythm: {why}: kv is measured alone, and nothing in charts and tables is \
                 memcached's; install it, or name another with --memcached PROGRAM"
            ));
            None
        }
    };
    let options = ReproduceOptions {
        machine: machine::describe(),
        commit: commit(&program),
        command: format!("rhythm {}", words.collect::<Vec<_>>().join(" ")),
        program,
        memcached,
        out: args.out,
        duration: args.duration.unwrap_or(duration),
        slices,
        keys: args
            .keys
            .unwrap_or(if args.quick { KEYS.1 } else { KEYS.0 }),
    };
    let (table, passed) = match args.schemes {
        true => {
            let report = reproduce::run_schemes(&options, &mut progress()?)?;
            ("schemes.md", report.passed())
        }
        false => {
            let report = reproduce::run(&options, &mut progress()?)?;
            ("kv.md", report.passed())
        }
    };
    print_line(options.out.join(table).display())?;
    Ok(match passed {
        true => ExitCode::SUCCESS,
        false => {
            complain(format_args!(
                "rhythm: not every answer was right: see {table}"
            ));
            ExitCode::FAILURE
        }
    })
}

/// What tells people how it is getting on: a bar on a terminal, elsewhere a line for each point.
fn progress() -> Result<impl FnMut(ReproduceProgress<'_>)> {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed} [{bar:30}] {pos}/{len} {msg}")?;
    bar.set_style(style.progress_chars("=> "));
    bar.enable_steady_tick(TICK);
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

/// The commit, where the program stands in the repository that it was built in, and its version.
fn commit(program: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let folder = program.parent().unwrap_or(Path::new("/"));
    let git = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .output();
    let commit = git.ok().filter(|output| output.status.success());
    match commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) {
        Some(commit) => format!("{commit} (rhythm {version})"),
        None => {
            format!("not known, as the program is outside of its repository (rhythm {version})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn what_is_typed_is_understood() {
        let typed = Kv::try_parse_from(["kv", "--quick", "--duration", "1s", "--out", "a"]);
        let typed = typed.unwrap();
        assert_eq!(typed.duration, Some(Duration::from_secs(1)));
        assert!(typed.quick && typed.out == Path::new("a"));
        assert!(Kv::try_parse_from(["kv", "--keys", "0"]).is_err());
    }

    #[test]
    fn outside_of_any_repository_no_commit_is_told_but_the_version() {
        let told = commit(Path::new("/rhythm"));
        let version = format!("(rhythm {})", env!("CARGO_PKG_VERSION"));
        assert!(
            told.starts_with("not known") && told.ends_with(&version),
            "{told}"
        );
    }
}
