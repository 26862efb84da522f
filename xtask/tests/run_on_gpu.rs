//! The script for a machine with a GPU, run with programs that only play theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Says it is a GPU.
const SMI: &str = "echo 'NVIDIA H200, 580.159.03, 143771 MiB'";

/// Finds every layout right, writes a report, and serves until it is told to end, with a GPU that
/// fails where it is to.
const RHYTHM: &str = r#"
case $1 in
--version) echo rhythm 0.1.0 ;;
bench) for file; do :; done; echo '{}' >"$file" ;;
serve)
    [[ $* == *--help* ]] && exit
    [ -z "$GPU_FAULT_AFTER" ] || echo "ERROR the GPU is lost"
    trap 'exit 0' TERM
    while :; do sleep 0.1; done
    ;;
esac"#;

/// Runs what it is given, and finds nothing.
const SANITIZER: &str = r#"shift 4; exec "$@""#;

/// A folder of its own for a test, gone at its end.
struct Bundle(PathBuf);

impl Bundle {
    /// The script, and programs of these texts.
    fn new(test: &str, smi: &str, rhythm: &str, sanitizer: &str) -> Bundle {
        let folder = std::env::temp_dir().join(format!("rhythm-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let script = include_str!("../src/run-on-gpu");
        fs::write(folder.join("run"), script).unwrap();
        fs::write(
            folder.join("about"),
            "commit 1\nneeds glibc 2.34 or later\n",
        )
        .unwrap();
        for (name, text) in [
            ("nvidia-smi", smi),
            ("rhythm", rhythm),
            ("compute-sanitizer", sanitizer),
        ] {
            let file = folder.join(name);
            fs::write(&file, format!("#!/usr/bin/env bash\n{text}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Bundle(folder)
    }

    fn run(&self) -> Output {
        self.run_with(&self.0.join("out"), &[])
    }

    fn run_with(&self, argument: &Path, parts: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap();
        let mut bash = Command::new("bash");
        bash.env("PATH", format!("{}:{path}", self.0.display()));
        bash.env_remove("COMPUTE_SANITIZER");
        bash.arg(self.0.join("run")).arg(argument).args(parts);
        bash.output().unwrap()
    }

    /// The result of each part.
    fn results(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.0.join("out/summary.txt")).unwrap();
        text.lines()
            .map(|line| {
                let mut words = line.split_whitespace().map(str::to_owned);
                (words.next().unwrap(), words.next().unwrap())
            })
            .collect()
    }

    /// The parts whose result is not `right`, with it.
    fn others(&self) -> Vec<String> {
        let results = self.results();
        assert_eq!(results.len(), 12);
        let others = results.iter().filter(|(_, result)| result != "right");
        others
            .map(|(part, result)| format!("{part} {result}"))
            .collect()
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        // What is left behind is in a temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join("out").join(file)).unwrap()
}

#[test]
fn without_a_gpu_it_stops_with_a_sentence() {
    let bundle = Bundle::new(
        "no-gpu",
        "echo No devices were found; exit 6",
        RHYTHM,
        SANITIZER,
    );
    let output = bundle.run();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "run: there is no NVIDIA GPU here: nvidia-smi says \"No devices were found\"\n"
    );
}

#[test]
fn a_binary_that_does_not_start_is_told() {
    let loader = "echo 'version `GLIBC_2.39` not found'; exit 1";
    let bundle = Bundle::new("no-start", SMI, loader, SANITIZER);
    let output = bundle.run();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("GLIBC_2.39") && error.contains("build on this machine"),
        "{error}"
    );
}

#[test]
fn all_that_is_right() {
    let bundle = Bundle::new("right", SMI, RHYTHM, SANITIZER);
    let output = bundle.run();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(bundle.others(), [] as [&str; 0]);
    assert_eq!(text(&bundle.0, "bench.json"), "{}\n");
    let summary = text(&bundle.0, "summary.json");
    assert!(
        summary.contains("\"gpu\": \"NVIDIA H200, 580.159.03, 143771 MiB\""),
        "{summary}"
    );
    assert!(summary.contains("\"failed\": 0"), "{summary}");
    assert!(text(&bundle.0, "machine.txt").contains("needs glibc 2.34"));
}

#[test]
fn what_fails_is_counted_and_the_rest_goes_on() {
    let wrong_b =
        format!(r#"case "$*" in *"layout b"*) echo "lane 3 differs"; exit 1 ;; esac{RHYTHM}"#);
    let race = format!(r#"case "$2" in racecheck|initcheck) exit 99 ;; esac; {SANITIZER}"#);
    let bundle = Bundle::new("wrong", SMI, &wrong_b, &race);
    let output = bundle.run();
    assert_eq!(output.status.code(), Some(1));
    let others = [
        "conformance-b wrong",
        "memcheck wrong",
        "racecheck wrong",
        "synccheck wrong",
    ];
    assert_eq!(
        bundle.others(),
        [&others[..], &["initcheck unproven"]].concat()
    );
    assert!(text(&bundle.0, "conformance.log").contains("lane 3 differs"));
    assert!(text(&bundle.0, "summary.json").contains("\"failed\": 4"));
}

#[test]
fn a_tool_that_refuses_the_device_is_no_failure() {
    let refuses = "echo 'Error: Device not supported'; exit 1";
    let bundle = Bundle::new("refused", SMI, RHYTHM, refuses);
    assert_eq!(bundle.run().status.code(), Some(0));
    let refused = ["memcheck", "racecheck", "synccheck", "initcheck"];
    assert_eq!(
        bundle.others(),
        refused.map(|tool| format!("{tool} refused"))
    );
}

#[test]
fn flags_that_the_binary_does_not_know_are_told_before_it_travels() {
    let flags = Path::new("--flags");
    let good = Bundle::new("flags", SMI, RHYTHM, SANITIZER);
    assert_eq!(good.run_with(flags, &[]).status.code(), Some(0));
    for (test, unknown) in [
        ("layout", "layout runs"),
        ("lanes", "--cohort-size"),
        ("bench", "bench"),
        ("serve", "--no-access-log"),
        ("load", "--sessions"),
    ] {
        let picky = format!(r#"case "$*" in *"{unknown}"*) exit 2 ;; esac"#);
        let bundle = Bundle::new(&format!("flags-{test}"), SMI, &picky, SANITIZER);
        let output = bundle.run_with(flags, &[]);
        assert_eq!(output.status.code(), Some(1), "{unknown}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            error.contains("its command is") && error.contains(unknown),
            "{error}"
        );
    }
}

#[test]
fn parts_are_run_alone_and_a_gpu_that_should_have_failed_is_told() {
    let never = RHYTHM.replace("the GPU is lost", "all is well");
    let bundle = Bundle::new("parts", SMI, &never, SANITIZER);
    let out = bundle.0.join("out");
    let output = bundle.run_with(&out, &["benchmark", "fault"]);
    assert_eq!(output.status.code(), Some(1));
    let results = bundle.results();
    let results: Vec<_> = (results.iter())
        .map(|(part, result)| format!("{part} {result}"))
        .collect();
    let expected = ["benchmark right", "fault right", "fault-happened wrong"];
    assert_eq!(results, expected);
    let output = bundle.run_with(&out, &["bench"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("bench is no part"), "{error}");
}
