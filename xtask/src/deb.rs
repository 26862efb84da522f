//! `cargo xtask deb`: the Debian package, by cargo-deb. What it takes beside files of the
//! repository (crates/rhythm/Cargo.toml lists all) is made here first: manual pages and completions
//! by the binary itself, and the list of the crates that it is made of by cargo-sbom. The examples
//! are what git knows of services/, so that no database that was made there gets in.

use crate::paths::{root, target};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Make the Debian package of what is built: manual pages, completions, units, examples
///
/// Needs cargo-deb and cargo-sbom (`cargo install cargo-deb@3.8.0 cargo-sbom@0.10.0 --locked`).
/// Prints the package's path; `packaging/try` installs it into a folder, and serves from there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The profile to build: `dev` is quick to compile, for trying the package itself
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,

    /// Take the binary that was built already
    #[arg(long)]
    no_build: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let profile = ["--profile", &args.profile];
    if !args.no_build {
        let build = ["build", "--locked", "-p", "rhythm"];
        succeed(Command::new("cargo").args(build).args(profile))?;
    }
    // Cargo's name for the folder of the profile `dev`.
    let folder = match &*args.profile {
        "dev" => "debug",
        other => other,
    };
    let built = target().join(folder);
    stage(&built.join("rhythm"), &built.join("package"))?;
    let deb = [
        "deb",
        "--package",
        "rhythm",
        "--no-build",
        "--locked",
        // It prints the package's path all the same.
        "--quiet",
    ];
    let made = Command::new("cargo")
        .args(deb)
        .args(profile)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target())
        .status()
        .context("cannot run cargo")?;
    if !made.success() {
        bail!("cargo deb failed: where it is missing, `cargo install cargo-deb@3.8.0 --locked`");
    }
    Ok(())
}

/// Makes what goes into the package and is no file of the repository, of this binary.
fn stage(binary: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        // What an earlier binary made.
        fs::remove_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let man = folder.join("man");
    succeed(Command::new(binary).arg("man").arg(&man))?;
    // As Debian has them: compressed, without the time.
    fs::copy(root().join("CHANGELOG.md"), folder.join("changelog"))?;
    let crates = folder.join("crates.cdx.json");
    list_crates(&crates)?;
    let mut texts = vec![folder.join("changelog"), crates];
    for entry in fs::read_dir(&man)? {
        texts.push(entry?.path());
    }
    succeed(Command::new("gzip").arg("-9n").args(&texts))?;
    for shell in ["bash", "zsh", "fish"] {
        let output = Command::new(binary).args(["completions", shell]).output();
        let output = output.with_context(|| format!("cannot run {}", binary.display()))?;
        if !output.status.success() {
            bail!("no completions for {shell}");
        }
        fs::write(folder.join(format!("rhythm.{shell}")), output.stdout)?;
    }
    let listed = Command::new("git")
        .args(["ls-files", "-z", "services"])
        .current_dir(root())
        .output()
        .context("cannot ask git for the files of services/")?;
    if !listed.status.success() {
        bail!("git does not know the files of services/: make the package in a clone");
    }
    let names = String::from_utf8(listed.stdout).context("names in services/")?;
    for name in names.split_terminator('\0') {
        let below = Path::new(name).strip_prefix("services")?;
        let to = folder.join("examples").join(below);
        fs::create_dir_all(to.parent().context("it lies in a folder")?)?;
        fs::copy(root().join(name), &to).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Writes which crates the binary is made of, on any system: as CycloneDX.
fn list_crates(to: &Path) -> Result<()> {
    let list = [
        "sbom",
        "--cargo-package",
        "rhythm",
        "--output-format",
        "cyclone_dx_json_1_6",
    ];
    let listed = Command::new("cargo")
        .args(list)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !listed.status.success() {
        bail!("cargo sbom failed: where it is missing, `cargo install cargo-sbom@0.10.0 --locked`");
    }
    fs::write(to, listed.stdout).with_context(|| format!("{}", to.display()))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.current_dir(root()).status();
    let status = status.with_context(|| format!("cannot run {command:?}"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}
