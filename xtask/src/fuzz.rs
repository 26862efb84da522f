//! `cargo xtask fuzz`: the targets of fuzz/, built and run.
//!
//! libFuzzer chooses inputs by the edges of the program that they reach. A pass of the compiler's
//! counts these, with any toolchain, so that neither a nightly one nor cargo-fuzz is needed.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Run the targets of fuzz/ for a time each, and say how often they ran.
///
/// They are built with assertions and checks of overflow; a C++ compiler is needed, for libFuzzer.
/// Below target/fuzz/, a target's folder keeps the inputs that reached something new, for the next
/// time, and those that failed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which; where none is said all, one after the other
    targets: Vec<String>,
    /// How long each runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Has each edge of the program counted, and what is compared with what told.
const FLAGS: [&str; 9] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg=fuzzing",
];

/// The longest that an input may take, in seconds.
const INPUT_SECONDS_MAX: u64 = 10;

/// fuzz/Cargo.toml, as far as it is of interest.
#[derive(serde::Deserialize)]
struct Manifest {
    bin: Vec<Target>,
}

#[derive(serde::Deserialize)]
struct Target {
    name: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let manifest = crate::paths::root().join("fuzz/Cargo.toml");
    let Manifest { bin } = toml::from_str(&fs::read_to_string(&manifest)?)?;
    let all: Vec<String> = bin.into_iter().map(|target| target.name).collect();
    if let Some(unknown) = args.targets.iter().find(|target| !all.contains(target)) {
        bail!("there is no target {unknown}: {}", all.join(", "));
    }
    let targets = match args.targets.is_empty() {
        true => all,
        false => args.targets.clone(),
    };
    let folder = crate::paths::target().join("fuzz");
    let binaries = build(&manifest, &targets, &folder)?;
    println!("{:<24}{:>14}{:>10}{:>8}", "", "inputs", "a second", "edges");
    let mut failed = Vec::new();
    for target in targets {
        let own = folder.join(&target);
        let (is_sound, said) = fuzz(&binaries.join(&target), &own, args.seconds)?;
        let last = |name: &str| {
            let (_, rest) = said.rsplit_once(name)?;
            rest.split_whitespace().next()
        };
        let count = last("stat::number_of_executed_units:").unwrap_or("-");
        let rate = last("stat::average_exec_per_sec:").unwrap_or("-");
        println!(
            "{target:<24}{count:>14}{rate:>10}{:>8}",
            last(" cov:").unwrap_or("-")
        );
        if !is_sound {
            failed.push(format!("{target}: {} tells why", own.join("log").display()));
        }
    }
    ensure!(
        failed.is_empty(),
        "inputs failed:\n  {}",
        failed.join("\n  ")
    );
    Ok(())
}

/// Builds targets; the folder where they are.
fn build(manifest: &Path, targets: &[String], folder: &Path) -> Result<PathBuf> {
    let rustc = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output()?;
    let host = String::from_utf8(rustc.stdout)?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--manifest-path"]);
    build
        .arg(manifest)
        .arg("--target-dir")
        .arg(folder.join("build"));
    // With a target said, what only builds others has no such flags.
    build.args(["--target", host.trim()]);
    build.args(targets.iter().flat_map(|target| ["--bin", target]));
    let status = build.env("RUSTFLAGS", FLAGS.join(" ")).status()?;
    ensure!(status.success(), "cargo cannot build the targets");
    Ok(folder.join("build").join(host.trim()).join("release"))
}

/// Runs a target; whether no input failed, and what libFuzzer said.
fn fuzz(binary: &Path, own: &Path, seconds: u64) -> Result<(bool, String)> {
    let kept = own.join("kept");
    fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
    let log = File::create(own.join("log"))?;
    let status = Command::new(binary)
        .arg(&kept)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", own.display()))
        .arg("-print_final_stats=1")
        .stdout(Stdio::null())
        .stderr(log)
        .status()?;
    let said = fs::read(own.join("log"))?;
    Ok((
        status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    ))
}
