//! `rhythm reproduce`: all of it, as small as can be.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn charts_tables_and_data_are_made() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced");
    let _ = fs::remove_dir_all(&out);
    let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .args(["reproduce", "kv", "--quick", "--keys", "300"])
        .args(["--duration", "200ms", "--out"])
        .arg(&out)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    assert!(output.status.success(), "{said}\n{}", read("kv.md"));
    for chart in ["protocols", "sizes", "response", "efficiency"] {
        let text = read(&format!("{chart}.svg"));
        assert!(
            text.starts_with("<svg") && text.ends_with("</svg>\n"),
            "{chart}"
        );
        assert!(read("kv.md").contains(&format!("({chart}.svg)")));
    }
    let report: serde_json::Value = serde_json::from_str(&read("kv.json")).expect("JSON");
    let points = report["points"].as_array().expect("a list");
    assert_eq!(points.len(), 8 + 18 + 2);
    for point in points {
        let servers = point["servers"].as_array().expect("a list");
        let ours = servers.last().expect("kv is there");
        assert_eq!(ours["server"], "kv");
        let rate = |name: &str| ours[name].as_f64().expect("a number");
        assert!(rate("operations_per_s") > 0.0 && rate("gbit_s") > 0.0);
    }
    let responses = report["responses"].as_array().expect("a list");
    let of_kv = responses.iter().filter(|response| {
        let setup = response["setup"].as_str().expect("a name");
        setup.starts_with("kv")
    });
    // The server's own share is a share.
    for response in of_kv.clone() {
        let internal = response["internal_us"].as_f64().expect("kv tells");
        assert!(internal > 0.0, "{response}");
        assert!(
            internal < response["latency"]["mean"].as_f64().expect("a number"),
            "{response}"
        );
    }
    assert_eq!(of_kv.count(), 4);
    // What a ring costs is told beside a node alone.
    let copies = report["copies"].as_array().expect("a list");
    let ratios = copies.iter().map(|of| of["cpu_ratio"].as_f64());
    let ratios: Vec<Option<f64>> = ratios.collect();
    assert!(matches!(ratios[..], [None, Some(_), Some(_)]), "{ratios:?}");
    assert!(report["loopback_gbit_s"].as_f64().expect("a number") > 0.0);
    let claims = report["claims"].as_array().expect("a list");
    let internal = claims.iter().find(|claim| claim["at"] == "picture 3");
    let internal = internal.expect("it is claimed")["figure"].as_f64();
    assert!(internal.is_some_and(|us| us > 0.0), "{claims:?}");
    assert_eq!(
        report["verdicts"].as_array().map(Vec::len),
        Some(claims.len())
    );
    // Where there is a memcached, kv is beside it, at the point with the most requests under way.
    let point = points.iter().rfind(|point| point["protocol"] == "binary");
    let servers = point.expect("it is measured")["servers"].as_array();
    let rates = servers.expect("a list").iter();
    let rates: Vec<f64> = rates
        .filter_map(|of| of["operations_per_s"].as_f64())
        .collect();
    let times = claims.iter().find(|claim| {
        let says = claim["says"].as_str().expect("a text");
        says.contains("rate by binary")
    });
    let times = times.expect("it is claimed")["figure"].as_f64();
    match (report["has_memcached"].as_bool(), &rates[..]) {
        (Some(true), [memcached, kv]) => {
            let expected = kv / memcached;
            assert!(times.is_some_and(|times| (times - expected).abs() < 1e-9));
        }
        _ => assert!(times.is_none()),
    }
    assert!(read("kv.md").contains("| picture 3 |"));
}

#[test]
fn a_signal_leaves_no_server_and_no_folder_behind() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-not");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    // What one leaves that is killed, and can do nothing for it, the next one removes.
    for signal in [Signal::KILL, Signal::TERM] {
        ended_by(signal, &folder);
    }
    let left = fs::read_dir(&folder).expect("it is there").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    // Where it had come so far, what it is to write to is there.
    assert!(left.iter().all(|name| name == "out"), "{left:?}");
}

/// Starts one that starts servers in this folder, as nohup does, and ends it by a signal: they end,
/// too. That its terminal is closed ends nothing.
fn ended_by(signal: Signal, folder: &Path) {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["reproduce", "kv", "--quick", "--out"]);
    command.arg(folder.join("out")).env("TMPDIR", folder);
    let mut running = command.spawn().expect("it starts");
    let pid = running.id();
    let servers = || {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("it runs");
        (children.split_whitespace().map(str::to_owned)).collect::<Vec<_>>()
    };
    let until = Instant::now() + Duration::from_secs(30);
    while servers().is_empty() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
    let servers = servers();
    for signal in [Signal::HUP, signal] {
        let told = kill_process(Pid::from_child(&running), signal);
        told.expect("it can be told");
    }
    let status = running.wait().expect("it ends");
    let code = (signal == Signal::TERM).then_some(128 + 15);
    assert_eq!(status.code(), code);
    assert!(!servers.is_empty());
    for server in servers {
        let end = || !Path::new(&format!("/proc/{server}")).exists() || is_dead(&server);
        while !end() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(end(), "{server}");
    }
}

/// Whether a process has ended and nobody has asked how.
fn is_dead(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next();
    state.is_some_and(|state| state.starts_with('Z'))
}

#[test]
fn schemes_are_compared_and_what_is_confirmed_outlives_a_node() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-schemes");
    let _ = fs::remove_dir_all(&out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["reproduce", "kv", "--schemes", "--quick"]);
    command.args(["--keys", "300", "--out"]).arg(&out);
    // Most of a keyspace's nodes must not wait for one slow disk: they say so rightly, after 5 s.
    let memory = tempfile::tempdir_in("/dev/shm").ok();
    command.envs(memory.iter().map(|memory| ("TMPDIR", memory.path())));
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    // What a scheme promises to keep is kept, or it fails.
    assert!(output.status.success(), "{said}\n{}", read("schemes.md"));
    for chart in ["schemes-times.svg", "schemes-rates.svg"] {
        assert!(read(chart).starts_with("<svg"), "{chart}");
        assert!(read("schemes.md").contains(&format!("({chart})")));
    }
    let report: serde_json::Value = serde_json::from_str(&read("schemes.json")).expect("JSON");
    let schemes = report["schemes"].as_array().expect("a list");
    let of = |scheme: &str, replicate: &str| {
        let is = |of: &&serde_json::Value| of["scheme"] == scheme && of["replicate"] == replicate;
        schemes.iter().find(is).expect("it is there")
    };
    let figure = |of: &serde_json::Value, name: &str| of[name].as_f64().expect("a number");
    for scheme in schemes {
        assert!(figure(scheme, "operations_per_s") > 0.0, "{scheme}");
        assert!(
            scheme["deaths"].as_array().map(Vec::len) == Some(1),
            "{scheme}"
        );
        // Two others have a copy, of 512 bytes and more; in so short a time a third of that is
        // missed, as servers tell their figures ten times a second.
        assert!(figure(scheme, "bytes_per_write") > 512.0, "{scheme}");
    }
    // Who asks a key's own node asks no other; and whoever has a copy answers.
    for scheme in [of("ring", "acked"), of("primary", "acked")] {
        assert!(figure(scheme, "bytes_per_read") < 100.0, "{scheme}");
    }
    // Whoever else served its keys did so when it was taken for dead.
    let death = &of("ring", "acked")["deaths"][0];
    assert!(figure(death, "write_wait_ms") > 100.0, "{death}");
}

#[test]
fn the_papers_tables_of_rpo_are_simulated() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-rpo");
    let _ = fs::remove_dir_all(&out);
    let reproduce = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .args(["reproduce", "rpo", "--seeds", "2", "--out"])
            .arg(&out)
            .args(more)
            .output()
            .expect("it starts")
    };
    let refused = reproduce(&["--params", "/dev/null"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("/dev/null"),
        "{said}"
    );
    let browsing = "section II, Table I: all threads answer browsing sooner: R of NOHT, times \
                    HT's, 1.6 GHz";
    let earlier = out.with_extension("json");
    let verdict = serde_json::json!({ "figure": browsing, "verdict": "differs" });
    let verdicts = serde_json::json!({ "verdicts": [verdict] });
    fs::write(&earlier, verdicts.to_string()).expect("the folder can be written");
    let output = reproduce(&["--against", earlier.to_str().expect("a plain path")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().count() == 10, "a line for each tenth: {said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    let report: serde_json::Value = serde_json::from_str(&read("rpo.json")).expect("JSON");
    let text = read("rpo.md");
    let numbers = "I II III IV V VI VII VIII IX X XI XIV XV";
    for number in numbers.split(' ') {
        assert!(text.contains(&format!("## Table {number}: ")), "{number}");
    }
    for chart in ["figure-1", "figure-2", "table-i", "table-vi", "table-xv"] {
        assert!(read(&format!("{chart}.svg")).starts_with("<svg"));
        assert!(text.contains(&format!("({chart}.svg)")), "{chart}");
    }
    let tables = report["tables"].as_array().expect("a list");
    let table = |number: &str| {
        let is = |table: &&serde_json::Value| table["number"] == number;
        tables.iter().find(is).expect("it is there")
    };
    // What the paper is about: RPO is better than either setting alone under S(0).
    let response = |who: &str| {
        let rows = table("IX")["rows"].as_array().expect("a list");
        let is = |row: &&serde_json::Value| row["name"] == format!("S(0), 1.6 GHz, {who}");
        let row = rows.iter().find(is).expect("it is there");
        let ours = &row["cells"][1]["ours"];
        assert!(ours["within"].as_f64().expect("of two seeds") > 0.0);
        ours["mean"].as_f64().expect("a number")
    };
    assert!(response("RPO") < response("HT").min(response("NOHT")));
    assert!(response("oracle") <= response("HT").min(response("NOHT")));
    assert_eq!(table("IX")["columns"][3]["kind"], "modeled");
    assert_eq!(table("IX")["columns"][1]["kind"], "simulated");
    // The paper's claims have verdicts, as far as two seeds tell one setting from another.
    let verdicts = report["verdicts"].as_array().expect("a list");
    for (claim, expected) in [
        (browsing, "holds"),
        (
            "section IV-B2, Table X: RPO answers S(50) sooner than either setting: R of HT, times \
             RPO's",
            "undecided",
        ),
    ] {
        let of_claim = verdicts.iter().find(|of| of["figure"] == claim);
        assert_eq!(of_claim.expect("it is judged")["verdict"], expected);
    }
    assert!(
        text.contains("| section IV-B1, Table IX | RPO answers S(0)"),
        "{text}"
    );
    // Beside an earlier report, what has turned round is told.
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains(&format!("{browsing}: holds, was differs\n")),
        "{printed}"
    );
}

#[test]
fn the_servers_own_paper_is_made_again_with_a_gpus_report_and_without_valgrind() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-rhythm");
    let _ = fs::remove_dir_all(&out);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reproduce = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .current_dir(&root)
            .args(["reproduce", "rhythm", "--quick", "--watts-core", "8"])
            .args(["--valgrind", "/no/valgrind", "--out"])
            .arg(&out)
            .args(more)
            .output()
            .expect("it starts")
    };
    let refused = reproduce(&[
        "--device-report",
        "docs/results/2026-11-26-reproduce-rpo/rpo.json",
    ]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("rhythm bench device"),
        "{said}"
    );
    let refused = reproduce(&[
        "--against",
        "docs/results/2026-11-26-reproduce-rpo/rpo.json",
    ]);
    let said = String::from_utf8_lossy(&refused.stderr);
    // It is of another paper.
    assert!(
        !refused.status.success() && said.contains("with verdicts"),
        "{said}"
    );
    let given = fs::read(root.join("docs/results/2026-11-27-gpu-stretches.json"));
    let mut given: serde_json::Value =
        serde_json::from_slice(&given.expect("it is there")).expect("JSON");
    let file = out.with_extension("device.json");
    let file = file.to_str().expect("it is UTF-8");
    // A layout that answers nobody is refused before anything takes its time.
    let layouts = given["report"]["layouts"].as_array().expect("a list");
    let mut still = given.clone();
    let trials = layouts[1]["tried"].as_array().map_or(0, Vec::len);
    for trial in 0..trials {
        still["report"]["layouts"][1]["tried"][trial]["requests_per_s"] = 0.into();
    }
    fs::write(file, still.to_string()).expect("it can be written");
    let refused = reproduce(&["--device-report", file]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("device.json: cohorts of layout b cannot"),
        "{said}"
    );
    assert!(!said.contains("1 of "), "{said}");
    // Of one there is no latency.
    given["report"]["layouts"][0]["latency"] = serde_json::json!([]);
    fs::write(file, given.to_string()).expect("it can be written");
    let output = reproduce(&["--device-report", file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    let (text, json) = (read("report.md"), read("report.json"));
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let sections = report["sections"].as_array().expect("a list");
    let section = |number: &str| {
        let is = |of: &&serde_json::Value| of["table"]["number"] == number;
        &sections.iter().find(is).expect("it is there")["table"]
    };
    let ours = |number: &str, row: usize, column: usize| {
        let cell = &section(number)["rows"][row]["cells"][column];
        cell["ours"]["mean"].as_f64().expect("a number")
    };
    // What is not there is said, with the cure.
    for absent in ["Table 2", "Figure 2", "Section 2.3"] {
        assert_eq!(section(absent)["rows"].as_array().map(Vec::len), Some(0));
    }
    assert!(text.contains("/no/valgrind") && text.contains("apt-get install valgrind"));
    // A core is a core, whatever is measured on it.
    let (rate, joule) = (ours("Table 3, CPU", 1, 0), ours("Table 3, CPU", 1, 4));
    let rate_of_host = rate;
    assert!(
        rate > 1.0 && (rate * 1e3 / 8.0 / joule - 1.0).abs() < 1e-6,
        "{rate}, {joule}"
    );
    // At a tenth of what it reaches a core is idle most of the time, at 95 % it is not; what takes
    // longest takes longer than the average.
    let busy = |row| ours("Table 3, latency", row, 2);
    assert!(busy(0) < busy(3), "{} and {}", busy(0), busy(3));
    assert!(ours("Table 3, latency", 0, 1) >= ours("Table 3, latency", 0, 0));
    // The report's figures are the card's.
    assert!((ours("Table 3, GPU", 2, 0) - 68_593.4).abs() < 1.0);
    assert_eq!(section("Figure 9")["columns"][0]["kind"], "measured");
    // Rows win there in all but efficiency, which columns left as they are have.
    let wins = "Who wins: throughput: layout row; efficiency: layout c; latency: layout row";
    assert!(text.replace("\n  ", " ").contains(wins), "{text}");
    // What cannot be simulated of it is named.
    let formed = section("Table 3, GPU latency")["rows"].as_array();
    let names = formed.expect("a list").iter().map(|row| &row["name"]);
    let names: Vec<_> = names.filter_map(serde_json::Value::as_str).collect();
    assert!(
        names.iter().any(|name| name.starts_with("layout b, "))
            && !names.iter().any(|name| name.starts_with("layout a, ")),
        "{names:?}"
    );
    assert!(text.replace("\n  ", " ").contains("Layouts: a"), "{text}");
    // That report has no queues: no other card's stand in for them.
    let rows = section("Section 6.4, queues")["rows"].as_array();
    assert_eq!(rows.map(Vec::len), Some(0));
    assert!(text.contains("bench device --measure queues"), "{text}");
    // Buffers are powers of two that their answers just fit; of a page's some may be the next.
    for row in 0..14 {
        let (answer, buffer) = (
            ours("Figure 10, CPU", row, 3),
            ours("Figure 10, CPU", row, 4),
        );
        assert!(
            (answer..=2.0 * answer).contains(&buffer),
            "{answer} {buffer}"
        );
    }
    // No figure without a command, and none that is the paper's, too, without a verdict.
    for section in sections {
        let has_rows = section["table"]["rows"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty());
        let command = section["command"].as_str().expect("a text");
        assert!(!has_rows || command.contains("rhythm "), "{section}");
    }
    let verdicts = report["verdicts"].as_array().expect("a list");
    let verdict = |figure: &str| {
        let is = |of: &&serde_json::Value| of["figure"] == figure;
        &verdicts.iter().find(is).expect("it is there")["verdict"]
    };
    let bytes = verdict("Table 2, answers, login, KB of an answer");
    assert_eq!(bytes, "within 10 %");
    let rate = "layout c, NVIDIA H100 80GB HBM3 (paper: Titan C), 1000 requests/s";
    assert_eq!(verdict(&format!("Table 3, GPU, {rate}")), "not comparable");
    // Claims are decided by the run and by the report, and stay open where neither has a figure.
    let rows = "threads that share one request perform poorly: the better of layouts b and c, \
                times layout row's throughput";
    assert_eq!(verdict(&format!("section 4.3.2: {rows}")), "differs");
    let transpose = "without the transpose it is more: layout c, times b's throughput";
    assert_eq!(verdict(&format!("section 6.1.3: {transpose}")), "holds");
    let queues = "section 6.4: one queue limits throughput: 32, times one";
    assert_eq!(verdict(queues), "absent");
    let claims = report["claims"].as_array().expect("a list");
    let together = claims.iter().find(|claim| {
        let says = claim["says"].as_str().expect("a text");
        says.starts_with("similar requests executed together")
    });
    let times = together.expect("it is claimed")["figure"].as_f64();
    let (scalar, host) = (ours("Table 3, CPU", 0, 0), rate_of_host);
    assert!((times.expect("a figure") - host / scalar).abs() < 1e-9);
    assert!(
        text.contains("| section 6.4 | one queue limits throughput"),
        "{text}"
    );
    // A cohort is no sooner there than it is on the device alone, and formation is told.
    let of_layouts = section("Table 3, GPU latency");
    let first = &of_layouts["rows"][0];
    assert_eq!(first["name"], "layout b, 1000000 requests/s");
    assert_eq!(of_layouts["columns"][0]["kind"], "simulated");
    let [mean, p99, lanes] = [0, 1, 2].map(|column| ours("Table 3, GPU latency", 0, column));
    assert!(mean >= 1.0 && p99 >= mean && (1.0..=1024.0).contains(&lanes));
    for chart in ["figure-8", "figure-9", "figure-10", "cohort-sizes"] {
        assert!(read(&format!("{chart}.svg")).starts_with("<svg"), "{chart}");
        assert!(text.contains(&format!("({chart}.svg)")), "{chart}");
    }
}

#[test]
fn what_valgrind_counts_has_figures_behind_sockets_too() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-counted");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).expect("the folder can be written");
    let earlier = out.join("earlier.json");
    fs::write(&earlier, r#"{"verdicts": []}"#).expect("the folder can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args([
            "reproduce",
            "rhythm",
            "--quick",
            "--page",
            "login",
            "--against",
        ])
        .arg(&earlier)
        .args(["--watts-idle", "40", "--watts-load", "52", "--out"])
        .arg(&out)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    let report: serde_json::Value = serde_json::from_str(&read("report.json")).expect("JSON");
    let sections = report["sections"].as_array().expect("a list");
    let table = |number: &str| {
        let is = |of: &&serde_json::Value| of["table"]["number"] == number;
        &sections.iter().find(is).expect("it is there")["table"]
    };
    let ours = |number: &str, row: usize, column: usize| {
        let cell = &table(number)["rows"][row]["cells"][column];
        let mean = cell["ours"]["mean"].as_f64();
        mean.unwrap_or_else(|| panic!("no figure in {number}: {}", read("report.md")))
    };
    assert!(ours("Table 2", 0, 0) > 1000.0);
    assert!((1.0..=100.0).contains(&ours("Figure 2", 0, 0)));
    // Of a request, all together: what is between system calls, as often as there are any.
    let [between, calls, all] = [0, 1, 2].map(|column| ours("Section 2.3", 0, column));
    assert!(between > 100.0 && (between * calls / all - 1.0).abs() < 1e-6);
    // A meter's figures make joules measured ones.
    let of_cpu = table("Table 3, CPU");
    assert_eq!(of_cpu["columns"][2]["kind"], "measured");
    assert_eq!(ours("Table 3, CPU", 0, 1), 52.0);
    assert_eq!(ours("Table 3, CPU", 0, 2), 12.0);
    assert!(read("report.md").contains("a meter's, as given by --watts-idle and --watts-load"));
    // Beside an earlier one that had none, all verdicts are new.
    let printed = String::from_utf8_lossy(&output.stdout);
    let bytes = "Table 2, answers, login, KB of an answer: within 10 %, was absent";
    assert!(printed.contains(bytes), "{printed}");
}

#[test]
fn of_all_papers_the_others_are_made_where_some_fail_and_it_is_told() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-all");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).expect("the folder can be written");
    // No folder can be made there.
    for paper in ["rhythm", "kv", "venice"] {
        fs::write(out.join(paper), "").expect("the folder can be written");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .args(["reproduce", "all", "--quick", "--out"])
        .arg(&out)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report = fs::read_to_string(out.join("report.md")).expect("it is there");
    assert!(report.contains("](rpo/rpo.md) | made |"), "{report}");
    assert!(out.join("rpo/rpo.md").exists());
    for paper in ["rhythm", "kv", "venice"] {
        assert!(
            said.contains(&format!("reproduce {paper}: failed: ")),
            "{said}"
        );
        assert!(!report.contains(&format!("]({paper}/")), "{report}");
    }
    assert_eq!(report.matches("| failed: ").count(), 3, "{report}");
}

#[test]
fn requests_are_replayed_for_a_profiler_each_between_its_marks() {
    let replay = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .args([
                "bench", "replay", "--mark", "--page", "login", "--page", "logout",
            ])
            .args(arguments)
            .output()
            .expect("it starts")
    };
    let output = replay(&["--users", "5", "--requests", "3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let marks: Vec<&str> = said.lines().collect();
    assert_eq!(marks, ["rhythm: begin", "rhythm: end"].repeat(6));
    let together = replay(&["--users", "5", "--requests", "5", "--cohort-size", "4"]);
    let said = String::from_utf8_lossy(&together.stderr);
    assert_eq!(said.lines().count(), 2 * 2 * 2, "{said}");
    let refused = replay(&["--users", "5", "--requests", "6"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("--users 5"),
        "{said}"
    );
}

#[test]
fn parts_of_servers_and_pages_in_gzip_are_replayed_too() {
    for of in [
        &["--part", "heads"][..],
        &["--part", "gets"],
        &["--part", "sets"],
        &["--gzip", "--page", "account_summary"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .args(["bench", "replay", "--users", "5", "--requests", "4"])
            .args(["--cohort-size", "3"])
            .args(of)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{of:?}: {said}");
    }
}

#[test]
fn figures_of_venice_are_made_and_what_is_lacking_is_said() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reproduced-venice");
    let _ = fs::remove_dir_all(&out);
    let output = Command::new(env!("CARGO_BIN_EXE_rhythm"))
        .args([
            "reproduce",
            "venice",
            "--quick",
            "--only",
            "14",
            "--only",
            "18",
        ])
        .args(["--redis", "/no/redis", "--out"])
        .arg(&out)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("left out: Figure 14: /no/redis"), "{said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is there");
    let (text, chart) = (read("venice.md"), read("figure-18.svg"));
    assert!(text.contains("Figure 14: /no/redis") && text.contains("Memory hot-plug"));
    assert!(
        text.contains("(figure-18.svg)") && chart.starts_with("<svg"),
        "{text}"
    );
    let report: serde_json::Value = serde_json::from_str(&read("venice.json")).expect("JSON");
    let table = &report["sections"][0]["table"];
    assert_eq!(table["columns"][0]["kind"], "measured");
    let rows = table["rows"].as_array().expect("a list");
    let papers = rows
        .iter()
        .filter_map(|row| row["cells"][4]["paper"].as_f64());
    assert_eq!(papers.collect::<Vec<f64>>(), [1.28, 1.51]);
    let ours = rows
        .iter()
        .filter_map(|row| row["cells"][0]["ours"]["mean"].as_f64());
    let ours: Vec<f64> = ours.collect();
    assert!(
        ours.len() == 7 && ours.iter().all(|times| *times > 0.0),
        "{ours:?}"
    );
    // A claim has the figure that was made, and one whose figure was not stays open.
    let claims = report["claims"].as_array().expect("a list");
    let claim = |at: &str| {
        let is = |claim: &&serde_json::Value| claim["at"] == at;
        claims.iter().find(is).expect("it is claimed")
    };
    let all = rows.iter().find(|row| row["name"] == "all sizes");
    let all = all.and_then(|row| row["cells"][1]["ours"]["mean"].as_f64());
    assert!(all.is_some() && claim("section 7.2, Figure 18")["figure"].as_f64() == all);
    let cache = claim("section 7.1, Figure 14");
    assert!(cache["figure"].is_null() && cache["verdict"] == "absent");
}
