//! With the feature `emulation`: compiles the kernels and the emulation as C++ and links all of it.
//!
//! - `-fno-strict-aliasing`: kernels read bytes as words and vectors, which nvcc's programs may.
//! - `-ffp-contract=off`: as nvcc is told `-fmad=false`; floating point is then the same
//!   everywhere.
//! - No `-fwrapv`: an overflow of a signed integer is a mistake for nvcc, too, and the sanitizer
//!   shows it.
//! - `-Wno-unknown-pragmas`: `#pragma unroll` is nvcc's.
//!
//! With `RHYTHM_EMULATION_SANITIZE=1` in the environment, under the address and the
//! undefined-behavior sanitizer: see `emulation/README.md`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(emulation_sanitized)");
    #[cfg(feature = "emulation")]
    emulation::build();
}

#[cfg(feature = "emulation")]
mod emulation {
    use std::env;
    use std::fs;
    use std::path::PathBuf;
    use std::thread;

    const SANITIZE: &str = "RHYTHM_EMULATION_SANITIZE";

    pub(crate) fn build() {
        println!("cargo:rerun-if-changed=kernels");
        println!("cargo:rerun-if-changed=emulation");
        println!("cargo:rerun-if-env-changed={SANITIZE}");
        let sanitize = env::var(SANITIZE).is_ok_and(|value| value == "1");
        if sanitize {
            println!("cargo:rustc-cfg=emulation_sanitized");
        }
        compile(
            "rhythm_emulation",
            sanitize,
            sources("emulation", "cpp").chain(sources("kernels", "cu")),
        );
        let out = env::var("OUT_DIR").expect("cargo sets it");
        println!("cargo:rustc-link-search=native={out}");
        println!("cargo:rustc-link-lib=static:+whole-archive=rhythm_emulation");
        if sanitize {
            // Before any other library: the runtime must be the first that is loaded.
            println!("cargo:rustc-link-lib=asan");
            println!("cargo:rustc-link-lib=ubsan");
        }
        println!("cargo:rustc-link-lib=stdc++");
        // Kernels with mistakes, for the emulation's own tests and nothing else.
        compile(
            "rhythm_emulation_tests",
            sanitize,
            sources("emulation/tests", "cu"),
        );
        println!(
            "cargo:rustc-link-arg-tests=-Wl,--whole-archive,{out}/librhythm_emulation_tests.a,\
             --no-whole-archive"
        );
    }

    /// The files of a folder with an extension, in order.
    fn sources(folder: &str, extension: &str) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.expect("a folder that can be read").path())
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .collect();
        files.sort();
        files.into_iter()
    }

    /// Makes a library of some files, all compiled beside each other.
    fn compile(name: &str, sanitize: bool, files: impl Iterator<Item = PathBuf>) {
        let objects: Vec<PathBuf> = thread::scope(|scope| {
            let compile_one =
                |file| scope.spawn(move || compiler(sanitize).file(file).compile_intermediates());
            let threads: Vec<_> = files.map(compile_one).collect();
            let objects = threads.into_iter().map(|thread| thread.join());
            objects
                .flat_map(|objects| objects.expect("the compiler takes it"))
                .collect()
        });
        compiler(sanitize).objects(objects).compile(name);
    }

    fn compiler(sanitize: bool) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .cpp_link_stdlib(None)
            .cargo_metadata(false)
            .std("c++17")
            .opt_level(2)
            .debug(true)
            .warnings(true)
            .extra_warnings(true)
            .include("emulation")
            .include("kernels")
            .define("RHYTHM_EMULATION", None)
            .flag("-ffp-contract=off")
            .flag("-fno-strict-aliasing")
            .flag("-fno-exceptions")
            .flag("-fno-rtti")
            .flag("-Wno-unknown-pragmas");
        if sanitize {
            build
                .flag("-fsanitize=address,undefined")
                .flag("-fno-sanitize-recover=undefined")
                .flag("-fno-omit-frame-pointer");
        }
        // Kernels are `.cu`, which the compiler would take for something to link.
        build.flag("-xc++");
        build
    }
}
