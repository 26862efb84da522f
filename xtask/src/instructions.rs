//! `cargo xtask instructions`: what requests cost in instructions, and whether that is more than
//! it was.
//!
//! Times on a machine that others use tell nothing of a few percent; instructions do, and valgrind
//! counts them. What is counted is all that a server does in user space for requests that come
//! from memory (`rhythm bench replay`), pages plain and in gzip, kv's commands and the parser of
//! heads: two runs, one of which executes none, and their difference.
//! The counts that hold stand in `instructions.toml` beside this crate, with what made them.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Count the instructions of requests under valgrind, and fail where they are more than they were.
///
/// The program is a build by the profile `quick`, but optimized, as `.ci/quick-start` makes it.
/// Another compiler makes other counts, and what has no count that holds is not watched: either
/// fails, too. Then, or where more are worth it, --write takes the new ones for those that hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program; target/quick/rhythm where none is said
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Percent by which a count may be more than it was
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    tolerance: f64,
    /// Write the counts down as those that hold
    #[arg(long)]
    write: bool,
}

/// A way in which requests are executed.
struct Way {
    name: &'static str,
    /// What of `rhythm bench replay` it is; the last is a flag that each of `of` is given to.
    arguments: &'static [&'static str],
    /// What is counted, each by itself.
    of: &'static [&'static str],
    /// How many of each.
    requests: u32,
}

/// Of short and long pages, with and without calls of the backend.
const PAGES: &[&str] = &["login", "account_summary", "bill_pay", "logout"];
/// What is counted.
const WAYS: [Way; 4] = [
    Way {
        name: "scalar",
        arguments: &["--device", "scalar", "--cohort-size", "1", "--page"],
        of: PAGES,
        requests: 100,
    },
    Way {
        name: "host",
        arguments: &["--device", "host", "--cohort-size", "256", "--page"],
        of: PAGES,
        requests: 2048,
    },
    // A long page of many runs, and a short one.
    Way {
        name: "gzip",
        arguments: &[
            "--gzip",
            "--device",
            "host",
            "--cohort-size",
            "256",
            "--page",
        ],
        of: &["account_summary", "login"],
        requests: 2048,
    },
    Way {
        name: "parts",
        arguments: &["--cohort-size", "64", "--part"],
        of: &["heads", "gets", "sets"],
        requests: 2048,
    },
];
/// The build that is counted, if it is to be made.
const BUILD: &str =
    "CARGO_PROFILE_QUICK_OPT_LEVEL=3 cargo build --profile quick --locked --bin rhythm";

/// `instructions.toml`.
#[derive(Debug, Default, Deserialize)]
struct Known {
    /// What built the program.
    compiler: String,
    /// A request's instructions, by way and what of it.
    instructions: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Known {
    fn count(&self, way: &str, of: &str) -> Option<u64> {
        self.instructions.get(way)?.get(of).copied()
    }

    fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let ways = self.instructions.iter();
        ways.flat_map(|(way, of)| of.keys().map(|of| (way.as_str(), of.as_str())))
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "# A request's instructions in user space, without its sockets: of pages by executor,\n\
             # of pages in gzip, and of parts of servers: `cargo xtask instructions --write`.\n\
             compiler = \"{}\"\n",
            self.compiler
        );
        for (way, of) in &self.instructions {
            text += &format!("\n[instructions.{way}]\n");
            for (name, count) in of {
                text += &format!("{name} = {count}\n");
            }
        }
        text
    }
}

/// Percent by which a count is more than it was.
fn percent(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}

/// What is to be said of counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// What fails, a line each.
    faults: Vec<String>,
    /// What does not.
    remarks: Vec<String>,
}

/// Compares counts with those that hold. What cannot be compared fails: it would be watched by
/// nobody, and nobody would know.
fn verdict(holds: &Known, now: &Known, tolerance: f64) -> Verdict {
    let mut verdict = Verdict::default();
    let Verdict { faults, remarks } = &mut verdict;
    faults.extend(another_compiler(holds, &now.compiler));
    let names: BTreeSet<_> = holds.names().chain(now.names()).collect();
    for (way, of) in names {
        match (holds.count(way, of), now.count(way, of)) {
            (Some(before), Some(count)) => {
                let percent = percent(before, count);
                let change = format!("{way} {of}: {count}, {percent:+.1} % of {before}");
                if percent > tolerance {
                    faults.push(change);
                } else if percent < -tolerance {
                    remarks.push(format!("{change}: renew it, or it may go back unseen"));
                }
            }
            (None, _) => faults.push(format!("{way} {of}: no count of it holds")),
            (_, None) => faults.push(format!("{way} {of}: it is not counted, and one holds")),
        }
    }
    verdict
}

/// Why counts of this compiler cannot be compared with those that hold, if they cannot.
fn another_compiler(holds: &Known, this: &str) -> Option<String> {
    (holds.compiler != this).then(|| {
        format!(
            "the counts that hold are of {}, and this is {this}, which makes others: renew them, \
             of the commit before the change",
            holds.compiler
        )
    })
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let built = crate::paths::target().join("quick/rhythm");
    let program = args.program.as_ref().unwrap_or(&built);
    ensure!(
        program.is_file(),
        "there is no {}: {BUILD}",
        program.display()
    );
    let path = crate::paths::root().join("xtask/instructions.toml");
    let holds: Known = match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).with_context(|| path.display().to_string())?,
        Err(_) if args.write => Known::default(),
        Err(error) => return Err(error).with_context(|| format!("{}: --write", path.display())),
    };
    let mut now = Known {
        compiler: compiler()?,
        ..Known::default()
    };
    // It takes minutes to count.
    if !args.write
        && let Some(why) = another_compiler(&holds, &now.compiler)
    {
        bail!("{why}: cargo xtask instructions --write");
    }
    println!("{:<24}{:>12}{:>12}{:>9}", "", "before", "now", "");
    for way in &WAYS {
        for of in way.of {
            let count = |requests| count(program, way, of, requests);
            let beyond = count(way.requests)?.saturating_sub(count(0)?);
            let each = beyond / u64::from(way.requests);
            let (shown, change) = match holds.count(way.name, of) {
                Some(before) => (
                    before.to_string(),
                    format!("{:+.1} %", percent(before, each)),
                ),
                None => ("-".to_owned(), String::new()),
            };
            let name = format!("{} {of}", way.name);
            println!("{name:<24}{shown:>12}{each:>12}{change:>9}");
            let counts = now.instructions.entry(way.name.to_owned()).or_default();
            counts.insert((*of).to_owned(), each);
        }
    }
    if args.write {
        return fs::write(&path, now.to_text()).with_context(|| path.display().to_string());
    }
    let verdict = verdict(&holds, &now, args.tolerance);
    for remark in &verdict.remarks {
        println!("{remark}");
    }
    if !verdict.faults.is_empty() {
        bail!(
            "a request may take {} % more instructions than it took; to take these counts for \
             those that hold: cargo xtask instructions --write\n{}",
            args.tolerance,
            verdict.faults.join("\n")
        );
    }
    Ok(())
}

/// What the program executes for so many requests, all that is before them included.
fn count(program: &Path, way: &Way, of: &str, requests: u32) -> Result<u64> {
    let counts = crate::paths::target().join(format!("instructions-{}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind");
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    // It knows no AVX-512.
    command.env("RHYTHM_SIMD", "avx2");
    command.arg(program).args(["bench", "replay"]);
    command.args(way.arguments).arg(of);
    command.args(["--requests", &requests.to_string()]);
    command.args(["--users", &way.requests.to_string()]);
    command.current_dir(crate::paths::root());
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("cannot start valgrind (apt-get install valgrind)")?;
    ensure!(
        output.status.success(),
        "under valgrind the program ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let text = fs::read_to_string(&counts).with_context(|| counts.display().to_string())?;
    // What is left of it is in nobody's way.
    let _ = fs::remove_file(&counts);
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = totals.and_then(|it| it.split_whitespace().next()?.parse().ok());
    total.context("callgrind has told no total")
}

/// The compiler and its version.
fn compiler() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let said = output.context("cannot ask rustc for its version")?.stdout;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(compiler: &str, counts: &[(&str, &str, u64)]) -> Known {
        let mut known = Known {
            compiler: compiler.to_owned(),
            ..Known::default()
        };
        for (way, of, count) in counts {
            let of_way = known.instructions.entry((*way).to_owned()).or_default();
            of_way.insert((*of).to_owned(), *count);
        }
        known
    }

    /// Of counts that hold and counts, of one compiler, with 5 % of tolerance.
    fn of(holds: &[(&str, &str, u64)], now: &[(&str, &str, u64)]) -> (Vec<String>, Vec<String>) {
        let verdict = verdict(&known("rustc 1", holds), &known("rustc 1", now), 5.0);
        (verdict.faults, verdict.remarks)
    }

    #[test]
    fn more_than_is_tolerated_fails() {
        let holds = [("host", "login", 1000), ("scalar", "login", 1000)];
        let (faults, remarks) = of(
            &holds,
            &[("host", "login", 1049), ("scalar", "login", 1000)],
        );
        assert!(faults.is_empty() && remarks.is_empty());
        let (faults, remarks) = of(
            &holds,
            &[("host", "login", 1000), ("scalar", "login", 1051)],
        );
        assert_eq!(faults, ["scalar login: 1051, +5.1 % of 1000"]);
        assert!(remarks.is_empty());
        let (faults, _) = of(&[("scalar", "login", 0)], &[("scalar", "login", 1)]);
        assert_eq!(faults.len(), 1);
    }

    #[test]
    fn fewer_are_told_of() {
        let holds = [("host", "login", 1000)];
        let (faults, remarks) = of(&holds, &[("host", "login", 940)]);
        assert!(faults.is_empty());
        let told = "host login: 940, -6.0 % of 1000: renew it, or it may go back unseen";
        assert_eq!(remarks, [told]);
    }

    #[test]
    fn what_is_compared_with_nothing_fails() {
        let (one, two) = (("host", "login", 9), ("scalar", "login", 9));
        let (faults, _) = of(&[one], &[one, two]);
        assert_eq!(faults, ["scalar login: no count of it holds"]);
        let (faults, _) = of(&[one, two], &[two]);
        assert_eq!(faults, ["host login: it is not counted, and one holds"]);
    }

    #[test]
    fn another_compiler_fails_and_hides_nothing() {
        let holds = known("rustc 1", &[("scalar", "login", 1000)]);
        for (count, faults) in [(1000, 1), (2000, 2)] {
            let now = known("rustc 2", &[("scalar", "login", count)]);
            let verdict = verdict(&holds, &now, 5.0);
            assert_eq!(verdict.faults.len(), faults, "{verdict:?}");
            assert!(verdict.faults[0].contains("of rustc 1, and this is rustc 2"));
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let counts = known("rustc 1", &[("scalar", "login", 7), ("host", "login", 8)]);
        let read: Known = toml::from_str(&counts.to_text()).expect("it is TOML");
        assert_eq!(verdict(&counts, &read, 0.0), Verdict::default());
    }
}
