//! `rhythm reproduce kv`: all of it, as small as can be.

use std::fs;
use std::path::Path;
use std::process::Command;

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
}
