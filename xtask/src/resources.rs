//! What kernels need of a multiprocessor: as ptxas reports it, as it is recorded, and how much they
//! may.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What a kernel needs, or a function that kernels call: of that the registers are its kernels',
/// and 0 here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct KernelResources {
    /// The file it is in, without `.cu`.
    pub(crate) module: String,
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Bytes of static shared memory of a block.
    pub(crate) shared: u32,
    /// Bytes of a thread's stack, with that of the functions it calls.
    pub(crate) stack: u32,
    /// Bytes of registers stored to the stack for want of more of them.
    pub(crate) spill_stores: u32,
    /// Bytes of registers loaded back.
    pub(crate) spill_loads: u32,
}

/// How much a kernel may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bound {
    #[serde(default)]
    registers: u32,
    #[serde(default)]
    shared: u32,
    #[serde(default)]
    stack: u32,
    /// Of stores and of loads, each.
    #[serde(default)]
    spills: u32,
}

/// What `kernels/built/resources.toml` records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Record {
    /// The compiler's version.
    pub(crate) nvcc: String,
    /// Its flags.
    pub(crate) flags: String,
    /// SHA-256 of each source and header.
    pub(crate) sources: BTreeMap<String, String>,
    /// SHA-256 of each module's image.
    pub(crate) images: BTreeMap<String, String>,
    /// What each kernel needs.
    pub(crate) kernels: BTreeMap<String, KernelResources>,
}

impl Record {
    /// As it is written: what is parsed again as the same.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = format!(
            "# Written by `cargo xtask kernels`; what kernels may need is in ../bounds.toml.\n\
             nvcc = {:?}\nflags = {:?}\n",
            self.nvcc, self.flags
        );
        for (title, hashes) in [("sources", &self.sources), ("images", &self.images)] {
            text += &format!("\n# SHA-256.\n[{title}]\n");
            for (name, hash) in hashes {
                text += &format!("{name:?} = {hash:?}\n");
            }
        }
        text += "\n[kernels]\n";
        for (name, k) in &self.kernels {
            text += &format!(
                "{name} = {{ module = {:?}, registers = {}, shared = {}, stack = {}, \
                 spill_stores = {}, spill_loads = {} }}\n",
                k.module, k.registers, k.shared, k.stack, k.spill_stores, k.spill_loads
            );
        }
        text
    }
}

/// Reads what `ptxas -v` says of a module's kernels.
///
/// # Errors
/// It says something else than it did when this was written.
pub(crate) fn of_ptxas(report: &str, module: &str) -> Result<BTreeMap<String, KernelResources>> {
    let mut kernels = BTreeMap::<String, KernelResources>::new();
    // The kernel being compiled, and the function whose properties come next.
    let (mut kernel, mut function) = (None, String::new());
    for line in report.lines() {
        let unknown = || format!("ptxas reports in words unknown here: {line}");
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().with_context(unknown)?.to_owned();
            let resources = KernelResources {
                module: module.to_owned(),
                ..KernelResources::default()
            };
            kernels.insert(name.clone(), resources);
            kernel = Some(name);
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            name.trim().clone_into(&mut function);
        } else if line.contains("bytes spill stores") {
            let stores = number_before(line, " bytes spill stores").with_context(unknown)?;
            let loads = number_before(line, " bytes spill loads").with_context(unknown)?;
            let is_called = !kernels.contains_key(&function);
            if is_called && stores == 0 && loads == 0 {
                continue;
            }
            // ptxas does not say which kernels call a function: one that spills is listed beside
            // them.
            let name = if is_called {
                called_name(&function)
            } else {
                &function
            };
            let of = kernels
                .entry(name.to_owned())
                .or_insert_with(|| KernelResources {
                    module: module.to_owned(),
                    ..KernelResources::default()
                });
            of.stack = number_before(line, " bytes stack frame").with_context(unknown)?;
            (of.spill_stores, of.spill_loads) = (stores, loads);
        } else if line.contains(" Used ") && line.contains(" registers") {
            let of = kernel.as_ref().and_then(|name| kernels.get_mut(name));
            let of = of.with_context(unknown)?;
            of.registers = number_before(line, " registers").with_context(unknown)?;
            of.shared = number_before(line, " bytes smem").unwrap_or(0);
            let with_called = number_before(line, " bytes cumulative stack size");
            of.stack = with_called.unwrap_or(of.stack);
        }
    }
    let is_told = kernels.values().any(|of| of.registers > 0);
    ensure!(is_told, "ptxas reports no registers of a kernel");
    Ok(kernels)
}

/// The name of a function as the source has it: ptxas gives it mangled, after that of the file.
fn called_name(mangled: &str) -> &str {
    let after_file = mangled
        .split_once("_cu_")
        .map_or(mangled, |(_, rest)| rest.get(8..).unwrap_or(rest));
    let digits = after_file.bytes().take_while(u8::is_ascii_digit).count();
    let length = after_file[..digits].parse().unwrap_or(after_file.len());
    after_file.get(digits..digits + length).unwrap_or(mangled)
}

/// The number that stands before some words.
fn number_before(line: &str, words: &str) -> Option<u32> {
    let (before, _) = line.split_once(words)?;
    let digits = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    before[digits..].parse().ok()
}

/// All kernels in a table for people, and a sentence about each that needs more than it may.
pub(crate) fn judge(
    kernels: &BTreeMap<String, KernelResources>,
    bounds: &BTreeMap<String, Bound>,
) -> (String, Vec<String>) {
    let mut wrong = Vec::new();
    let mut table = format!(
        "{:<9} {:<20} {:>13} {:>17} {:>13} {:>13}\n",
        "module", "kernel", "registers", "shared bytes", "stack", "spilled bytes"
    );
    for (name, of) in kernels {
        let spills = of.spill_stores.max(of.spill_loads);
        let bound = bounds.get(name);
        let needs = [
            ("registers", of.registers, bound.map(|b| b.registers)),
            ("bytes of shared memory", of.shared, bound.map(|b| b.shared)),
            ("bytes of stack", of.stack, bound.map(|b| b.stack)),
            ("spilled bytes", spills, bound.map(|b| b.spills)),
        ];
        table += &format!("{:<9} {name:<20}", of.module);
        for ((what, need, bound), width) in needs.into_iter().zip([13, 17, 13, 13]) {
            let cell = bound.map_or(format!("{need} of ?"), |bound| format!("{need} of {bound}"));
            table += &format!(" {cell:>width$}");
            if let Some(bound) = bound.filter(|bound| need > *bound) {
                wrong.push(format!("{name} needs {need} {what}, more than {bound}"));
            }
        }
        table += "\n";
        if bound.is_none() {
            wrong.push(format!(
                "{name} has no bound; if it needs what it should: \
                 {name} = {{ registers = {}, shared = {}, stack = {} }}",
                of.registers, of.shared, of.stack
            ));
        }
    }
    let gone = bounds.keys().filter(|name| !kernels.contains_key(*name));
    wrong.extend(gone.map(|name| format!("{name} has a bound and is no kernel")));
    (table, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ptxas 13.0.88 reports a kernel that calls a function, and one that does not.
    const REPORT: &str = "\
ptxas info    : 256 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 400 bytes cumulative stack size
ptxas info    : Compile time = 13.492 ms
ptxas info    : Function properties for _ZN32_INTERNAL_e4ff05db_4_x_cu_0a1b2c3d6calledEj
    400 bytes stack frame, 16 bytes spill stores, 32 bytes spill loads
ptxas info    : Compiling entry function 'try_it' for 'sm_90'
ptxas info    : Function properties for try_it
    24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 3.365 ms
";

    fn reported() -> BTreeMap<String, KernelResources> {
        of_ptxas(REPORT, "x").unwrap()
    }

    #[test]
    fn reads_what_ptxas_reports() {
        let kernels = reported();
        let of = |registers, shared, stack, spill_stores, spill_loads| KernelResources {
            module: "x".to_owned(),
            registers,
            shared,
            stack,
            spill_stores,
            spill_loads,
        };
        assert_eq!(kernels.len(), 3);
        assert_eq!(kernels["other"], of(32, 0, 400, 4, 8));
        assert_eq!(kernels["called"], of(0, 0, 400, 16, 32));
        assert_eq!(kernels["try_it"], of(10, 512, 24, 0, 0));
        assert!(of_ptxas("ptxas info    : Used many registers", "x").is_err());
        let silent = "Compiling entry function 'other' for 'sm_90'";
        assert!(of_ptxas(silent, "x").is_err());
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record {
            nvcc: "13.0.88".to_owned(),
            flags: "-x \"y\"".to_owned(),
            sources: [("a.cuh".to_owned(), "00ff".to_owned())].into(),
            images: [("x".to_owned(), "ff00".to_owned())].into(),
            kernels: reported(),
        };
        let read: Record = toml::from_str(&record.to_toml()).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn bounds_are_kept_to_the_unit() {
        let judge = |text: &str| judge(&reported(), &toml::from_str(text).unwrap()).1;
        let good = "other = { registers = 32, stack = 400, spills = 8 }
                    called = { stack = 400, spills = 32 }
                    try_it = { registers = 10, shared = 512, stack = 24 }";
        assert_eq!(judge(good), [] as [&str; 0]);
        for (from, to, says) in [
            (
                "registers = 32",
                "registers = 31",
                "other needs 32 registers, more than 31",
            ),
            (
                "called = { stack = 400",
                "called = { stack = 399",
                "called needs 400 bytes of stack, more than 399",
            ),
            (
                "shared = 512",
                "shared = 0",
                "try_it needs 512 bytes of shared memory, more than 0",
            ),
            (
                ", spills = 32",
                "",
                "called needs 32 spilled bytes, more than 0",
            ),
        ] {
            assert_eq!(judge(&good.replace(from, to)), [says]);
        }
        let renamed = judge(&good.replace("try_it", "tried_it"));
        assert_eq!(renamed.len(), 2, "{renamed:?}");
        assert!(renamed[0].starts_with("try_it has no bound"));
        assert_eq!(renamed[1], "tried_it has a bound and is no kernel");
    }
}
