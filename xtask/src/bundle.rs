//! `cargo xtask gpu`: what a machine with a GPU, and without a network, needs to try Rhythm.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// More than this does not travel to some machines.
const BYTES_MAX: u64 = 60 << 20;

/// The script that does it, there.
const SCRIPT: &str = include_str!("run-on-gpu");

/// What is tried.
const SERVICE: &str = "services/banking";

/// Try Rhythm on a GPU: conformance, the benchmark, the server under load and with a GPU that
/// fails, and compute-sanitizer, in less than eight minutes.
///
/// For another machine: `--bundle DIR`, then there, without cargo or a network, `DIR/run OUT`. For
/// this one: `--here OUT`.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Args {
    /// Collect what another machine needs in this folder, new or empty
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,

    /// Run on this machine; results go into this folder
    #[arg(long, value_name = "OUT")]
    here: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.bundle {
        let bytes = collect(folder)?;
        println!(
            "{}: {:.1} MiB",
            folder.display(),
            bytes as f64 / f64::from(1 << 20)
        );
    }
    if let Some(out) = &args.here {
        let folder = crate::paths::target().join("gpu");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        collect(&folder)?;
        let status = Command::new(fs::canonicalize(folder.join("run"))?)
            .arg(out)
            .status()?;
        ensure!(status.success(), "not all is right on this GPU: see above");
    }
    Ok(())
}

/// Builds the binary and puts all that is needed into a folder; how much it is.
fn collect(folder: &Path) -> Result<u64> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    if fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty", folder.display());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--package", "rhythm"]);
    let status = build.current_dir(crate::paths::root()).status()?;
    ensure!(status.success(), "cargo cannot build the binary");
    let binary = folder.join("rhythm");
    // What debuggers want is four fifths of the file, and nobody debugs it there.
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&binary);
    strip.arg(crate::paths::target().join("release/rhythm"));
    let status = strip.status();
    let status = status.context("strip cannot be run (Debian: apt-get install binutils)")?;
    ensure!(status.success(), "strip failed: see above");
    copy_folder(&crate::paths::root().join(SERVICE), &folder.join(SERVICE))?;
    let script = folder.join("run");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let status = Command::new(fs::canonicalize(&script)?)
        .arg("--flags")
        .status()?;
    ensure!(
        status.success(),
        "the script and the binary do not go together: see above, and xtask/src/run-on-gpu"
    );
    build_fault(folder)?;
    let needs = newest_glibc(&fs::read(&binary)?);
    fs::write(
        folder.join("about"),
        format!("commit {}\nneeds {needs}\n", commit()),
    )?;
    let bytes = size(folder)?;
    ensure!(bytes <= BYTES_MAX, "{bytes} bytes are too many to travel");
    Ok(bytes)
}

/// Builds the library that makes a server's GPU fail.
fn build_fault(folder: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-shared", "-fPIC", "-O1", "-Wall", "-o"]);
    build.arg(folder.join("gpu-fault.so"));
    build.arg(crate::paths::root().join("xtask/src/gpu-fault.c"));
    build.args(["-ldl", "-lpthread"]);
    let status = build.status().context("there is no C compiler")?;
    ensure!(status.success(), "the C compiler cannot build gpu-fault.so");
    Ok(())
}

/// The commit that is checked out, and whether anything differs from it.
fn commit() -> String {
    let mut git = Command::new("git");
    git.args([
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty",
        "--exclude=*",
    ]);
    match git.current_dir(crate::paths::root()).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

/// The newest version of glibc that a binary names: the dynamic linker asks for it by these words.
fn newest_glibc(binary: &[u8]) -> String {
    const WORD: &[u8] = b"GLIBC_2.";
    let versions = binary
        .windows(WORD.len())
        .enumerate()
        .filter_map(|(at, word)| {
            let minor = binary[at + WORD.len()..].iter();
            let minor = minor.map_while(|byte| char::from(*byte).to_digit(10));
            let minor = minor.take(4).fold(0, |number, digit| number * 10 + digit);
            (word == WORD).then_some(minor)
        });
    match versions.max() {
        Some(minor) => format!("glibc 2.{minor} or later"),
        None => "no glibc".to_owned(),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Bytes of the files below a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_newest_glibc() {
        let binary = b"\0GLIBC_2.2.5\0memcpy\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_2.";
        assert_eq!(newest_glibc(binary), "glibc 2.34 or later");
        assert_eq!(newest_glibc(b"static"), "no glibc");
    }
}
