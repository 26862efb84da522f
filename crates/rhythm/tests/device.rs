//! `--device`, as people type it: what is said where there is no GPU, and where flags do not go
//! together.

#[cfg(feature = "cuda-emulation")]
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
#[cfg(feature = "cuda-emulation")]
use std::process::Stdio;
use std::process::{Command, Output};
#[cfg(feature = "cuda-emulation")]
use std::time::{Duration, Instant};

const BANKING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/banking");

fn rhythm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .args(args)
        .output()
        .expect("the program is built")
}

/// What a program said as it failed with this exit code.
fn complaint(args: &[&str], code: i32) -> String {
    let output = rhythm(args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    text
}

/// A service with one small page, in a folder of the test's own.
fn small_service(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(folder.join("pages")).expect("a folder can be made");
    let page = "+++\nroute = \"GET /hello\"\n[params]\nname = { in = \"query\", type = \"text\" }\n\
                +++\n<h1>Hello, {{ name }}</h1>\n";
    std::fs::write(folder.join("service.toml"), "").expect("a file can be written");
    std::fs::write(folder.join("pages/hello.html"), page).expect("a file can be written");
    folder
}

#[test]
fn what_keeps_others_waiting_is_not_lent() {
    let said = complaint(&["device", "--device", "scalar"], 2);
    assert!(said.contains("lend host"), "{said}");
}

#[test]
fn no_driver_is_one_sentence() {
    const SENTENCE: &str = "rhythm: --device cuda: no CUDA driver: libcuda.so.1 was not found; \
                            install NVIDIA's driver (580 or later), or use --device host\n";
    let folder = small_service("no-driver");
    let folder = folder.to_str().expect("a plain path");
    let checked = rhythm(&["check", folder, "--device", "cuda"]);
    let said = String::from_utf8_lossy(&checked.stderr);
    if !said.contains("no CUDA driver") {
        // There is one. With a GPU every page must be right; without, a sentence says what is
        // wrong.
        let is_sentence =
            checked.status.code() == Some(1) && said.starts_with("rhythm: --device cuda: ");
        assert!(checked.status.success() || is_sentence, "{said}");
        return;
    }
    assert_eq!((checked.status.code(), &*said), (Some(1), SENTENCE));
    assert_eq!(
        complaint(&["bench", "--service", BANKING, "--device", "cuda"], 1),
        SENTENCE
    );
    assert_eq!(
        complaint(&["bench", "device", "--service", BANKING], 1),
        SENTENCE
    );
    let serve = [
        "serve",
        BANKING,
        "--listen",
        "127.0.0.1:0",
        "--no-admin",
        "--device",
        "cuda",
    ];
    assert_eq!(complaint(&serve, 1), SENTENCE);
}

#[test]
fn flags_of_the_gpu_need_the_gpu() {
    for (flag, value) in [
        ("--layout", "row"),
        ("--cohorts-in-flight", "2"),
        ("--gpu", "0"),
    ] {
        for command in [
            &["serve", BANKING][..],
            &["check", BANKING],
            &["check", BANKING, "--device", "host"],
            &["bench", "--service", BANKING],
        ] {
            let said = complaint(&[command, &[flag, value]].concat(), 2);
            assert!(
                said.starts_with(&format!("error: {flag} is for --device cuda;")),
                "{said}"
            );
        }
    }
}

#[test]
fn layouts_are_listed_where_one_is_wrong() {
    let said = complaint(&["serve", BANKING, "--device", "cuda", "--layout", "d"], 2);
    assert!(
        said.contains("[possible values: a, b, c, row, runs]"),
        "{said}"
    );
}

#[test]
fn a_backend_elsewhere_is_not_on_the_gpu() {
    let url = "besim=http://127.0.0.1:1/besim";
    let said = complaint(
        &[
            "serve",
            BANKING,
            "--device",
            "cuda",
            "--layout",
            "b",
            "--backend",
            url,
        ],
        1,
    );
    assert!(
        said.contains("--layout b has the backend on the GPU, but besim is at http://127.0.0.1:1"),
        "{said}"
    );
}

#[test]
fn a_device_is_compared_with_the_reference() {
    let folder = small_service("compared");
    let folder = folder.to_str().expect("a plain path");
    let of_one_size = ["--cohort-size", "33"];
    for (flags, lanes) in [(&[][..], "1, 2, 7, 33, 256, 4096"), (&of_one_size, "33")] {
        let output = rhythm(&[&["check", folder, "--device", "host"], flags].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let expected =
            format!("every byte of every page is the reference's, in cohorts of {lanes} lanes");
        assert_eq!(said, format!("host: {expected}\n"));
    }
}

#[test]
fn what_a_server_runs_in_passes_is_compared_whole() {
    let fortunes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/fortunes");
    let output = rhythm(&["check", fortunes, "--device", "host"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[cfg(feature = "cuda-emulation")]
#[test]
fn the_emulation_is_a_device() {
    let folder = small_service("emulated");
    let folder = folder.to_str().expect("a plain path");
    for layout in ["a", "b", "c", "row", "runs"] {
        let output = rhythm(&[
            "check",
            folder,
            "--device",
            "cuda-emulated",
            "--layout",
            layout,
        ]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            said.starts_with(&format!("cuda-emulated-{layout}: every byte")),
            "{said}"
        );
    }
    let said = complaint(
        &["check", folder, "--device", "cuda-emulated", "--gpu", "0"],
        2,
    );
    assert!(said.contains("--gpu is for --device cuda;"), "{said}");
    let bench = [
        "bench",
        "device",
        "--service",
        BANKING,
        "--device",
        "cuda-emulated",
    ];
    let said = complaint(&[&bench[..], &["--gpu", "0"]].concat(), 2);
    assert!(said.contains("--gpu is for --device cuda;"), "{said}");
}

#[cfg(feature = "cuda-emulation")]
#[test]
fn the_whole_server_is_measured_on_the_emulation() {
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-device.json");
    let file = json.to_str().expect("a plain path");
    let output = rhythm(&[
        "bench",
        "device",
        "--service",
        BANKING,
        "--device",
        "cuda-emulated",
        "--layout",
        "row",
        "--layout",
        "runs",
        "--page",
        "account_summary",
        "--page",
        "login",
        "--cohort-size",
        "32",
        "--cohorts-in-flight",
        "2",
        "--seconds",
        "0.01",
        "--json",
        file,
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&json).expect("the report is written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let layouts = report["report"]["layouts"]
        .as_array()
        .expect("it has layouts");
    assert_eq!(layouts.len(), 2);
    for layout in layouts {
        let pages = layout["pages"].as_array().expect("it has pages");
        assert_eq!(pages.len(), 2);
        for page in pages {
            let number = |name: &str| page[name].as_f64().unwrap_or(f64::NAN);
            assert!(number("requests_per_s") > 0.0, "{page}");
            assert!(number("answer_bytes") > 100.0, "{page}");
        }
    }
    let bytes = |layout: &serde_json::Value| layout["pages"][1]["answer_bytes"].as_f64();
    assert!(
        bytes(&layouts[0]) > bytes(&layouts[1]),
        "runs are less than pages"
    );
}

#[cfg(feature = "cuda-emulation")]
#[test]
fn queues_are_measured_by_a_process_for_each_number_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("queues.json");
    let output = rhythm(&[
        "bench",
        "device",
        "--service",
        BANKING,
        "--device",
        "cuda-emulated",
        "--measure",
        "queues",
        "--layout",
        "runs",
        "--cohort-size",
        "16",
        "--cohorts-in-flight",
        "2",
        "--seconds",
        "0.01",
        "--json",
        json.to_str().expect("a plain path"),
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&json).expect("the report is written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(report["report"]["notes"], serde_json::json!([]), "{report}");
    let found = report["report"]["concurrency"].as_array().expect("a list");
    let queues: Vec<_> = found.iter().map(|of| of["queues"].as_u64()).collect();
    assert_eq!(queues, [1, 8, 32].map(Some));
    for of in found {
        assert!(of["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
        assert!(of["cohort"] == 16 && of["in_flight"] == 2, "{of}");
    }
}

/// The last of a process's children, if it has one.
#[cfg(feature = "cuda-emulation")]
fn child_of(process: u32) -> Option<u32> {
    let file = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(file).ok()?;
    children.split_whitespace().next_back()?.parse().ok()
}

#[cfg(feature = "cuda-emulation")]
#[test]
fn no_process_for_queues_outlives_the_one_that_started_it() {
    const NEVER: Duration = Duration::from_secs(60);
    let until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < NEVER, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    for (signal, status) in [(Signal::TERM, Some(128 + 15)), (Signal::KILL, None)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bench = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["bench", "device", "--service", BANKING])
            .args(["--device", "cuda-emulated", "--measure", "queues"])
            .args(["--cohort-size", "16", "--cohorts-in-flight", "2"])
            .args(["--seconds", "60"])
            .env("TMPDIR", folder.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is built");
        let mut child = None;
        until("it starts no other", &mut || {
            child = child_of(bench.id());
            child.is_some()
        });
        kill_process(Pid::from_child(&bench), signal).expect("it runs");
        let ended = bench.wait().expect("it ends");
        assert_eq!(ended.code(), status);
        let is_there = format!("/proc/{}/exe", child.expect("it was found"));
        until("the other goes on", &mut || {
            std::fs::read_link(&is_there).is_err()
        });
        if signal == Signal::TERM {
            let left = std::fs::read_dir(folder.path()).expect("it is there");
            assert_eq!(left.count(), 0);
        }
    }
}
