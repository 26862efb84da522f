//! `rhythm reproduce kv`.

use super::against::{Against, print_changes};
use super::origin;
use crate::exits::wrong;
use crate::machine;
use crate::output::{complain, print_line};
use crate::progress;
use anyhow::{Context, Result, bail};
use rhythm_bench::reproduce::{self, ReproduceOptions};
use rhythm_engine::settings::duration;
use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long a server is measured at each point, and in how many slices, if nothing is said.
const FULL: (Duration, usize) = (Duration::from_secs(3), 3);
/// The same with --quick.
const QUICK: (Duration, usize) = (Duration::from_millis(300), 1);
/// Keys, and those of --quick.
const KEYS: (u32, u32) = (100_000, 10_000);

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
pub(super) struct Kv {
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

    #[command(flatten)]
    against: Against,

    /// The memcached to compare with; without it kv is measured alone
    #[arg(long, value_name = "PROGRAM", default_value = "memcached")]
    memcached: PathBuf,
}

pub(super) fn run(args: Kv) -> Result<ExitCode> {
    let (duration, slices) = if args.quick { QUICK } else { FULL };
    if args.schemes && args.against.against.is_some() {
        bail!(wrong(
            "--against is for the poster's charts: --schemes has no verdicts"
        ));
    }
    let earlier = args.against.read()?;
    let program = env::current_exe().context("cannot find the rhythm program")?;
    let memcached = match reproduce::program_at(&args.memcached) {
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
        commit: origin::commit(&program),
        command: origin::command(),
        program,
        memcached,
        out: args.out,
        duration: args.duration.unwrap_or(duration),
        slices,
        keys: args
            .keys
            .unwrap_or(if args.quick { KEYS.1 } else { KEYS.0 }),
    };
    let (table, passed, verdicts) = match args.schemes {
        true => {
            let report = reproduce::run_schemes(&options, &mut progress::by_points())?;
            ("schemes.md", report.passed(), None)
        }
        false => {
            let report = reproduce::run(&options, &mut progress::by_points())?;
            ("kv.md", report.passed(), Some(report.verdicts))
        }
    };
    print_line(options.out.join(table).display())?;
    if let Some(verdicts) = &verdicts {
        print_changes(verdicts, earlier.as_ref())?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[test]
    fn what_is_typed_is_understood() {
        let typed = Kv::try_parse_from(["kv", "--quick", "--duration", "1s", "--out", "a"]);
        let typed = typed.unwrap();
        assert_eq!(typed.duration, Some(Duration::from_secs(1)));
        assert!(typed.quick && typed.out == Path::new("a"));
        assert!(Kv::try_parse_from(["kv", "--keys", "0"]).is_err());
    }
}
