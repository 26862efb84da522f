//! `cargo xtask kernels`: the kernels compiled, once, for everybody.

use crate::nvcc::{self, Nvcc};
use crate::resources::{Bound, Record, judge};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Compile the kernels into crates/engine-cuda/kernels/built/, which is committed.
///
/// Each kernels/*.cu becomes an image of sm_90 machine code and PTX. What its kernels need
/// (registers, memory, spills) is recorded and compared with kernels/bounds.toml. nvcc is
/// $RHYTHM_NVCC, or the PATH's, or is installed from PyPI below target/; it needs a C++ compiler.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where what is committed is not what would be written
    #[arg(long)]
    check: bool,
}

/// All that is written, by file name.
type Files = BTreeMap<String, Vec<u8>>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = crate::paths::root().join("crates/engine-cuda/kernels");
    let built = folder.join("built");
    let sources = read_sources(&folder)?;
    let committed = read_files(&built)?;
    if args.check {
        // Said first: it needs no compiler, and explains whatever else differs.
        stale(&sources, &committed)?;
    }
    let nvcc = Nvcc::find(&crate::paths::target())?;
    let (record, files) = compile(&nvcc, &folder, &sources)?;
    if args.check {
        differences(&committed, &files)?;
    } else {
        write(&built, &committed, &files)?;
    }
    let bounds_file = folder.join("bounds.toml");
    let bounds: BTreeMap<String, Bound> = toml::from_str(&fs::read_to_string(&bounds_file)?)
        .with_context(|| format!("{} is wrong", bounds_file.display()))?;
    let (table, wrong) = judge(&record.kernels, &bounds);
    print!("{table}");
    if !wrong.is_empty() {
        bail!("kernels/bounds.toml is not kept:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The sources and headers in a folder.
fn read_sources(folder: &Path) -> Result<Files> {
    let mut files = read_files(folder)?;
    files.retain(|name, _| name.ends_with(".cu") || name.ends_with(".cuh"));
    Ok(files)
}

/// The files in a folder, which need not exist.
fn read_files(folder: &Path) -> Result<Files> {
    let mut files = Files::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.insert(name.into_owned(), bytes);
        }
    }
    Ok(files)
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hashes(files: &Files) -> BTreeMap<String, String> {
    files
        .iter()
        .map(|(name, bytes)| (name.clone(), sha256(bytes)))
        .collect()
}

/// Compiles every module: the record of it, and the files to be written.
fn compile(nvcc: &Nvcc, folder: &Path, sources: &Files) -> Result<(Record, Files)> {
    let scratch = crate::paths::target().join("kernels");
    fs::create_dir_all(&scratch)?;
    let mut record = Record {
        nvcc: nvcc::VERSION.to_owned(),
        flags: nvcc::flags(),
        sources: hashes(sources),
        ..Record::default()
    };
    let mut files = Files::new();
    for source in sources.keys() {
        let Some(name) = source.strip_suffix(".cu") else {
            continue;
        };
        let module = nvcc.compile(folder, source, &scratch)?;
        record.images.insert(name.to_owned(), sha256(&module.image));
        files.insert(format!("{name}.fatbin"), module.image);
        for (kernel, resources) in module.kernels {
            if let Some(other) = record.kernels.insert(kernel.clone(), resources) {
                bail!("{kernel} is in {}.cu and in {source}", other.module);
            }
        }
    }
    files.insert("resources.toml".to_owned(), record.to_toml().into_bytes());
    files.insert("images.rs".to_owned(), table(&record).into_bytes());
    Ok((record, files))
}

/// The Rust source that embeds it all, included by `src/gpu/images.rs`.
fn table(record: &Record) -> String {
    let mut text =
        "// Written by `cargo xtask kernels`.\nconst IMAGES: &[(&str, &[u8])] = &[\n".to_owned();
    for name in record.images.keys() {
        text += &format!("    ({name:?}, image!(\"{name}.fatbin\")),\n");
    }
    text += "];\nconst SOURCES: &[(&str, &str)] = &[\n";
    for name in record.sources.keys() {
        text += &format!("    ({name:?}, include_str!(\"../{name}\")),\n");
    }
    text + "];\n"
}

/// Fails where the committed images were made of other sources or with other flags.
fn stale(sources: &Files, committed: &Files) -> Result<()> {
    let record = committed.get("resources.toml").map(Vec::as_slice);
    let record = String::from_utf8_lossy(record.unwrap_or_default());
    let record: Record = toml::from_str(&record)
        .context("kernels/built/resources.toml is missing or wrong; run cargo xtask kernels")?;
    let now = hashes(sources);
    let changed: BTreeSet<&String> = now
        .keys()
        .chain(record.sources.keys())
        .filter(|name| now.get(*name) != record.sources.get(*name))
        .collect();
    if !changed.is_empty() {
        bail!(
            "kernels/built is not made of these sources as they are: {changed:?}; \
             run cargo xtask kernels"
        );
    }
    if record.nvcc != nvcc::VERSION || record.flags != nvcc::flags() {
        bail!("kernels/built is made by another nvcc or with other flags; run cargo xtask kernels");
    }
    Ok(())
}

/// Fails where what is committed is not what was compiled now.
fn differences(committed: &Files, compiled: &Files) -> Result<()> {
    let different: BTreeSet<&String> = committed
        .keys()
        .chain(compiled.keys())
        .filter(|name| committed.get(*name) != compiled.get(*name))
        .collect();
    if !different.is_empty() {
        bail!(
            "kernels/built is not what its sources compile to: {different:?}; \
             run cargo xtask kernels"
        );
    }
    Ok(())
}

/// Brings the folder to what was compiled, leaving alone what is the same.
fn write(built: &Path, committed: &Files, compiled: &Files) -> Result<()> {
    fs::create_dir_all(built)?;
    for (name, bytes) in compiled {
        if committed.get(name) != Some(bytes) {
            fs::write(built.join(name), bytes)?;
        }
    }
    for name in committed
        .keys()
        .filter(|name| !compiled.contains_key(*name))
    {
        fs::remove_file(built.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Files {
        let owned = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        owned.collect()
    }

    /// What is committed when it was made of such sources.
    fn made_of(sources: &Files) -> Files {
        let record = Record {
            nvcc: nvcc::VERSION.to_owned(),
            flags: nvcc::flags(),
            sources: hashes(sources),
            ..Record::default()
        };
        files(&[("resources.toml", &record.to_toml())])
    }

    #[test]
    fn stale_images_are_told_by_the_sources_that_changed() {
        let sources = files(&[("a.cu", "one"), ("b.cuh", "two"), ("c.cuh", "three")]);
        let committed = made_of(&sources);
        stale(&sources, &committed).unwrap();
        for (now, changed) in [
            (
                files(&[("a.cu", "one"), ("b.cuh", "2"), ("c.cuh", "three")]),
                "\"b.cuh\"",
            ),
            (files(&[("a.cu", "one"), ("c.cuh", "three")]), "\"b.cuh\""),
            (
                files(&[
                    ("a.cu", "1"),
                    ("b.cuh", "two"),
                    ("c.cuh", "three"),
                    ("d.cu", ""),
                ]),
                "\"a.cu\", \"d.cu\"",
            ),
        ] {
            let error = stale(&now, &committed).unwrap_err().to_string();
            assert!(error.contains(&format!("{{{changed}}}")), "{error}");
            assert!(error.ends_with("run cargo xtask kernels"), "{error}");
        }
        assert!(stale(&sources, &Files::new()).is_err());
        let text = String::from_utf8(committed["resources.toml"].clone()).unwrap();
        for (from, to) in [("fmad=false", "fmad=true"), (nvcc::VERSION, "12.9.1")] {
            let other = files(&[("resources.toml", &text.replace(from, to))]);
            let error = stale(&sources, &other).unwrap_err().to_string();
            assert!(
                error.contains("another nvcc or with other flags"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_byte_more_a_file_more_or_less_is_a_difference() {
        let compiled = files(&[("a.fatbin", "\u{1}\u{2}"), ("resources.toml", "")]);
        differences(&compiled, &compiled).unwrap();
        for committed in [
            files(&[("a.fatbin", "\u{1}\u{2}\u{3}"), ("resources.toml", "")]),
            files(&[("resources.toml", "")]),
            files(&[
                ("a.fatbin", "\u{1}\u{2}"),
                ("b.fatbin", ""),
                ("resources.toml", ""),
            ]),
        ] {
            assert!(differences(&committed, &compiled).is_err());
        }
    }

    #[test]
    fn writing_leaves_what_was_compiled_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("rhythm-kernels-{}", std::process::id()));
        let first = files(&[("a.fatbin", "1"), ("b.fatbin", "2")]);
        write(&folder, &Files::new(), &first).unwrap();
        assert_eq!(read_files(&folder).unwrap(), first);
        let second = files(&[("b.fatbin", "3"), ("c.fatbin", "4")]);
        write(&folder, &first, &second).unwrap();
        assert_eq!(read_files(&folder).unwrap(), second);
        fs::remove_dir_all(&folder).unwrap();
    }
}
