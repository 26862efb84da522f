//! nvcc: where it comes from, and a module compiled with it.

use crate::resources::{KernelResources, of_ptxas};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that makes the committed images. Another one makes others.
pub(crate) const VERSION: &str = "13.0.88";

/// The packages that together are nvcc of that version; they go together in these versions alone.
const PACKAGES: [&str; 4] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
];

/// The file of an environment that says that all of them are in it.
const MARKER: &str = "packages-installed";

/// Source to PTX. No multiplication is fused with an addition, so that doubles are those of a CPU.
/// No line numbers: they double an image and hold the times and folders of the sources.
const TO_PTX: [&str; 6] = [
    "-std=c++17",
    "-fmad=false",
    "-arch=compute_90",
    "-Werror",
    "all-warnings",
    "-ptx",
];

/// PTX to an image of machine code and PTX, with a report of what each kernel needs.
const TO_IMAGE: [&str; 8] = [
    "-fmad=false",
    "-gencode",
    "arch=compute_90,code=[sm_90,compute_90]",
    "-Werror",
    "all-warnings",
    "-Xptxas",
    "-v",
    "-fatbin",
];

/// The flags of both steps, for people and for the record.
pub(crate) fn flags() -> String {
    format!("{}; {}", TO_PTX.join(" "), TO_IMAGE.join(" "))
}

/// A compiler of [`VERSION`].
#[derive(Debug)]
pub(crate) struct Nvcc {
    program: PathBuf,
}

/// A compiled module.
#[derive(Debug)]
pub(crate) struct Module {
    /// The fatbin.
    pub(crate) image: Vec<u8>,
    /// What each of its kernels needs.
    pub(crate) kernels: BTreeMap<String, KernelResources>,
}

impl Nvcc {
    /// The one that `RHYTHM_NVCC` names; else the PATH's, if its version is right; else one from
    /// PyPI, installed below `target`.
    ///
    /// # Errors
    /// The one named is not of the right version, or none can be installed; or there is no g++,
    /// which it reads the sources with.
    pub(crate) fn find(target: &Path) -> Result<Nvcc> {
        output_of(Command::new("g++").arg("--version"))
            .context("nvcc needs a C++ compiler (Debian: apt-get install g++)")?;
        if let Some(named) = std::env::var_os("RHYTHM_NVCC") {
            let nvcc = Nvcc {
                program: named.into(),
            };
            let version = nvcc.version().context("RHYTHM_NVCC names no nvcc")?;
            ensure!(
                version == VERSION,
                "RHYTHM_NVCC is nvcc {version}; images are made by {VERSION}"
            );
            return Ok(nvcc);
        }
        let on_path = Nvcc {
            program: "nvcc".into(),
        };
        match on_path.version() {
            Ok(version) if version == VERSION => return Ok(on_path),
            Ok(version) => {
                eprintln!("nvcc {version} of the PATH is left alone: images are made by {VERSION}")
            }
            Err(_) => (),
        }
        let folder = target.join("nvcc");
        if let Ok(installed) = Nvcc::installed_in(&folder) {
            return Ok(installed);
        }
        install(&folder)?;
        Nvcc::installed_in(&folder)
    }

    /// The one of a Python environment that [`install`] made.
    fn installed_in(environment: &Path) -> Result<Nvcc> {
        // Written last: an installation that was cut short has none, and one of other packages has
        // another.
        let marker = fs::read_to_string(environment.join(MARKER)).unwrap_or_default();
        ensure!(marker == PACKAGES.join("\n"), "nvcc is not installed");
        let lib = environment.join("lib");
        let entries =
            fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
        for entry in entries {
            let program = entry?.path().join("site-packages/nvidia/cu13/bin/nvcc");
            let nvcc = Nvcc { program };
            if nvcc.version().is_ok_and(|version| version == VERSION) {
                return Ok(nvcc);
            }
        }
        bail!("{} has no nvcc {VERSION}", environment.display())
    }

    /// What it says it is, as in `13.0.88`.
    fn version(&self) -> Result<String> {
        let output = output_of(Command::new(&self.program).arg("--version"))?;
        let version = output
            .split_whitespace()
            .find_map(|word| word.strip_prefix('V'));
        Ok(version
            .context("nvcc --version names no version")?
            .to_owned())
    }

    /// Compiles `source`, a file name in `folder`, by way of `scratch`, an absolute folder that
    /// exists.
    ///
    /// The image depends on the sources alone. nvcc names what is internal to a module by a hash of
    /// the folder it lies in; so we go by way of PTX, where those names are still text, and put
    /// zeros for the hash.
    ///
    /// # Errors
    /// The sources are wrong, or the compiler cannot work; its words are in the error.
    pub(crate) fn compile(&self, folder: &Path, source: &str, scratch: &Path) -> Result<Module> {
        let name = source.strip_suffix(".cu").unwrap_or(source);
        let (ptx, image) = (format!("{name}.ptx"), format!("{name}.fatbin"));
        let compile = || -> Result<Module> {
            let mut to_ptx = Command::new(&self.program);
            to_ptx.current_dir(folder).args(TO_PTX);
            output_of(to_ptx.arg("-o").arg(scratch.join(&ptx)).arg(source))?;
            let text = fs::read_to_string(scratch.join(&ptx))?;
            fs::write(scratch.join(&ptx), without_hashes(&text))?;
            let mut to_image = Command::new(&self.program);
            to_image.current_dir(scratch).args(TO_IMAGE);
            let report = output_of(to_image.args(["-o", &image, &ptx]))?;
            Ok(Module {
                image: fs::read(scratch.join(&image))?,
                kernels: of_ptxas(&report, name)?,
            })
        };
        compile().with_context(|| format!("cannot compile {source}"))
    }
}

/// The text with zeros where `_INTERNAL_` is followed by eight hexadecimal digits.
fn without_hashes(ptx: &str) -> String {
    const MARK: &str = "_INTERNAL_";
    let mut parts = ptx.split(MARK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += MARK;
        let is_hash = part.bytes().take_while(u8::is_ascii_hexdigit).count() == 8;
        let (hash, rest) = part.split_at(if is_hash { 8 } else { 0 });
        text.extend(hash.chars().map(|_| '0'));
        text += rest;
    }
    text
}

/// Installs nvcc from PyPI into a Python environment of its own.
fn install(environment: &Path) -> Result<()> {
    eprintln!(
        "installing nvcc {VERSION} from PyPI into {}",
        environment.display()
    );
    let hint = "python3 with its module venv is needed to install nvcc \
                (Debian: apt-get install python3-venv); \
                or set RHYTHM_NVCC to an nvcc";
    output_of(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(environment),
    )
    .context(hint)?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--no-deps", "--only-binary=:all:"])
        .args(PACKAGES);
    output_of(&mut pip).context("pip cannot install nvcc")?;
    fs::write(environment.join(MARKER), PACKAGES.join("\n"))?;
    Ok(())
}

/// Runs a command; what it prints, both to its output and as its errors.
fn output_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} ended with {}:\n{}",
        output.status,
        text.trim_end()
    );
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_names_lose_their_hash_only() {
        let ptx = "call _ZN32_INTERNAL_84005fbc_4_x_cu_try1fEj; // _INTERNAL_is not\n\
                   .func _INTERNAL_0123abcd_1";
        assert_eq!(
            without_hashes(ptx),
            "call _ZN32_INTERNAL_00000000_4_x_cu_try1fEj; // _INTERNAL_is not\n\
             .func _INTERNAL_00000000_1"
        );
        assert_eq!(without_hashes("no such name"), "no such name");
    }
}
