//! Compiles the library that `rhythm venice run` starts programs with (preload/): it is then a part
//! of the binary, so that nothing else need be installed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: [&str; 6] = [
    "calls.c", "helper.c", "link.c", "pieces.c", "ranges.c", "small.c",
];

fn main() {
    println!("cargo::rerun-if-changed=preload");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to put things"));
    let library = out.join("preload.so");
    let mut command: Command = cc::Build::new()
        .opt_level(2)
        .debug(false)
        .warnings(true)
        .flag("-std=gnu11")
        .flag("-fPIC")
        .flag("-fvisibility=hidden")
        // The helper thread has no storage of its own for what these check.
        .flag("-fno-stack-protector")
        .flag("-U_FORTIFY_SOURCE")
        .get_compiler()
        .to_command();
    command.args(["-shared", "-Wl,-z,initfirst", "-Wl,-z,now", "-o"]);
    command.arg(&library);
    command.args(SOURCES.map(|source| Path::new("preload").join(source)));
    let status = command.status().expect("a C compiler is there (cc)");
    assert!(status.success(), "the preload library does not compile");
}
