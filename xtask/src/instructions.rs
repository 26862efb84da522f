//! `cargo xtask instructions`: what requests cost in instructions, and whether that is more than
//! it was.
//!
//! Times on a machine that others use tell nothing of a few percent; instructions do, and valgrind
//! counts them. What is counted is all that the server does in user space for requests that come
//! from memory (`rhythm bench replay`): two runs, one of which executes none, and their difference.
//! The counts that hold stand in `instructions.toml` beside this crate, with what made them.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Count the instructions of requests under valgrind, and fail where they are more than they were.
///
/// The program is a release build without link-time optimization, as `.ci/quick-start` makes it.
/// Another compiler makes other counts, which fail nothing: then, or where more are worth it,
/// --write takes the new ones for those that hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program; target/release/rhythm where none is said
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Percent by which a count may be more than it was
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    tolerance: f64,
    /// Write the counts down as those that hold
    #[arg(long)]
    write: bool,
}

/// What is counted: an executor, and how many requests it has at a time.
const WAYS: [(&str, &str, u32); 2] = [("scalar", "1", 100), ("host", "256", 2048)];
/// Of short and long pages, with and without calls of the backend.
const PAGES: [&str; 4] = ["login", "account_summary", "bill_pay", "logout"];
/// The build that is counted, if it is to be made.
const BUILD: &str = "CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo \
                     build --release --locked --bin rhythm";

/// `instructions.toml`.
#[derive(Debug, Default, Deserialize)]
struct Known {
    /// What built the program.
    compiler: String,
    /// A request's instructions, by executor and page.
    instructions: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Known {
    fn to_text(&self) -> String {
        let mut text = format!(
            "# A request's instructions in user space, without its sockets, by executor and page:\n\
             # `cargo xtask instructions --write`.\ncompiler = \"{}\"\n",
            self.compiler
        );
        for (executor, pages) in &self.instructions {
            text += &format!("\n[instructions.{executor}]\n");
            for (page, count) in pages {
                text += &format!("{page} = {count}\n");
            }
        }
        text
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let built = crate::paths::target().join("release/rhythm");
    let program = args.program.as_ref().unwrap_or(&built);
    ensure!(
        program.is_file(),
        "there is no {}: {BUILD}",
        program.display()
    );
    let path = crate::paths::root().join("xtask/instructions.toml");
    let known: Known = match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).with_context(|| path.display().to_string())?,
        Err(_) if args.write => Known::default(),
        Err(error) => return Err(error).with_context(|| format!("{}: --write", path.display())),
    };
    let mut now = Known {
        compiler: compiler()?,
        ..Known::default()
    };
    println!("{:<24}{:>12}{:>12}{:>8}", "", "before", "now", "");
    let mut slower = Vec::new();
    for (executor, cohort, requests) in WAYS {
        for page in PAGES {
            let of =
                |requests: u32, users: u32| count(program, executor, cohort, page, requests, users);
            let beyond = of(requests, requests)?.saturating_sub(of(0, requests)?);
            let each = beyond / u64::from(requests);
            let before = known.instructions.get(executor).and_then(|it| it.get(page));
            let name = format!("{executor} {page}");
            let (shown, change) = match before {
                Some(before) => {
                    let percent = (each as f64 / *before as f64 - 1.0) * 100.0;
                    if percent > args.tolerance {
                        slower.push(name.clone());
                    }
                    (before.to_string(), format!("{percent:+.1} %"))
                }
                None => ("-".to_owned(), String::new()),
            };
            println!("{name:<24}{shown:>12}{each:>12}{change:>9}");
            let of_executor = now.instructions.entry(executor.to_owned()).or_default();
            of_executor.insert(page.to_owned(), each);
        }
    }
    if args.write {
        return fs::write(&path, now.to_text()).with_context(|| path.display().to_string());
    }
    let is_same = known.compiler == now.compiler;
    if !is_same {
        println!(
            "Another compiler made the counts before ({}, now {}), so that they tell nothing of a \
             few percent: renew them with --write.",
            known.compiler, now.compiler
        );
    }
    if is_same && !slower.is_empty() {
        bail!(
            "requests take more instructions than {} % beyond what they took: {}; if they are \
             worth it, --write",
            args.tolerance,
            slower.join(", ")
        );
    }
    Ok(())
}

/// What the program executes for so many requests, all that is before them included.
fn count(
    program: &Path,
    executor: &str,
    cohort: &str,
    page: &str,
    requests: u32,
    users: u32,
) -> Result<u64> {
    let counts = crate::paths::target().join(format!("instructions-{}", std::process::id()));
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind");
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    // It knows no AVX-512.
    command.env("RHYTHM_SIMD", "avx2");
    command
        .arg(program)
        .args(["bench", "replay", "--page", page]);
    command.args(["--device", executor, "--cohort-size", cohort]);
    command.args(["--requests", &requests.to_string()]);
    command.args(["--users", &users.to_string()]);
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
