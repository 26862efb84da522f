//! `rhythm bench compare`, as short as can be.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Account summaries of user 42 by rhythm and by the limit server; what else is compared follows.
const CASE: &str = r#"
about       = "A test"
connections = [1, 4]
[[page]]
name   = "account summary"
target = "/bank/account_summary.php"
[[alike]]
find    = 'value="[0-9a-f]{40}"'
replace = 'value=""'
[[server]]
peer = "banking"
name = "rhythm"
[[server]]
peer = "limit"
name = "limit"
"#;

/// A folder with this case, and where its report comes.
fn case(name: &str, more: &str) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compared");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, format!("{CASE}{more}")).expect("it can be written");
    let out = folder.join(name);
    let _ = fs::remove_dir_all(&out);
    (file, out)
}

fn compare(file: &Path, out: &Path) -> (bool, String) {
    compare_all(&[file], out, "100ms")
}

fn compare_all(files: &[&Path], out: &Path, duration: &str) -> (bool, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["bench", "compare", "--rounds", "2", "--duration", duration]);
    command.args(["--warmup", "50ms", "--root"]).arg(root);
    let output = command.arg("--out").arg(out).args(files).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("it is built");
    let said = [stdout, stderr].concat();
    (
        status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn servers_are_compared_and_who_is_not_here_is_left_out() {
    let more = r#"
        [[server]]
        peer = "absent"
        name = "absent"
        [peer.absent]
        about   = "what nobody has"
        command = ["rhythm-test-of-what-nobody-has"]
        install = "make it"
    "#;
    let (file, out) = case("compared", more);
    let (is_well, said) = compare(&file, &out);
    assert!(is_well, "{said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).expect("it is written");
    let report: Value = serde_json::from_str(&read("compare.json")).expect("JSON");
    let points = report["cases"][0]["points"].as_array().expect("a list");
    assert_eq!(points.len(), 2);
    for point in points {
        assert!(point["bytes"].as_u64() > Some(10_000), "{point}");
        let servers = point["servers"].as_array().expect("a list");
        assert_eq!(servers.len(), 2);
        for server in servers {
            let runs = server["runs"].as_array().expect("a list");
            assert_eq!(runs.len(), 2);
            for figure in ["requests_per_s", "p50_us", "p99_us", "server_us"] {
                let median = server[figure]["median"].as_f64();
                assert!(median > Some(0.0), "{figure}: {server}");
            }
            assert_eq!(server["errors"], 0);
            assert!(server["database_us"].is_null());
        }
    }
    let table = read("compare.md");
    assert!(said.contains(&table));
    let left_out = "- absent: left out; there is no rhythm-test-of-what-nobody-has: make it";
    assert!(table.contains(left_out), "{table}");
    assert!(table.contains("(compared.svg)") && read("compared.svg").ends_with("</svg>\n"));
}

#[test]
fn who_serves_behind_a_server_is_in_the_report_with_its_processor() {
    let (file, out) = case("behind", "");
    let text = r#"
        about       = "A test"
        connections = [1]
        upstream    = "constant"
        [[page]]
        name   = "16 KB"
        target = "/"
        [[server]]
        peer = "proxy"
        name = "rhythm"
    "#;
    fs::write(&file, text).expect("it can be written");
    let (is_well, said) = compare(&file, &out);
    assert!(is_well, "{said}");
    let report = fs::read_to_string(out.join("compare.json")).expect("it is written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let upstream = &report["cases"][0]["upstream"];
    assert_eq!(upstream["name"], "constant");
    assert!(upstream["processor"].is_u64(), "{upstream}");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(upstream["is_beside_servers"], processors < 3);
    assert!(
        said.contains("- behind them: constant, a constant page"),
        "{said}"
    );
}

#[test]
fn nothing_is_measured_where_a_page_is_another() {
    // The page of another user.
    let more = r#"
        [[server]]
        peer = "other"
        name = "other"
        [peer.other]
        about   = "another user's pages"
        command = ["{rhythm}", "serve", "{root}/services/banking", "--no-admin", "--workers", "1",
            "--listen", "{address}"]
        install = "it is there"
        [peer.other.before]
        method = "POST"
        target = "/bank/login.php"
        form   = "userid=43&password=secret-43"
    "#;
    let (file, out) = case("differs", more);
    let (is_well, said) = compare(&file, &out);
    let why = "/bank/account_summary.php of other is another page than that of rhythm: line ";
    assert!(!is_well && said.contains(why), "{said}");
    let report = fs::read_to_string(out.join("compare.json")).expect("it is written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let case = &report["cases"][0];
    assert_eq!(case["points"], Value::Array(Vec::new()));
    assert!(
        case["error"]
            .as_str()
            .is_some_and(|error| error.contains(why)),
        "{case}"
    );
}

#[test]
fn a_server_that_dies_is_told_with_its_cause_and_what_was_measured_stays() {
    // It serves as the other does until it is loaded, and a while of that.
    let more = r#"
        [[server]]
        peer = "dying"
        name = "dying"
        [peer.dying]
        about   = "one that dies"
        command = ["sh", "{folder}/run"]
        install = "it is there"
        [peer.dying.files]
        run = """
{rhythm} serve {root}/services/banking --no-admin --workers 1 --listen {address} &
trap 'kill $!' TERM
sleep 3
kill $!
echo out of luck >&2
exit 7
"""
        [peer.dying.before]
        method = "POST"
        target = "/bank/login.php"
        form   = "userid=42&password=secret-42"
    "#;
    let (file, out) = case("dies", more);
    let other = out.with_file_name("lives.toml");
    fs::write(&other, CASE).expect("it can be written");
    let (is_well, said) = compare_all(&[&file, &other], &out, "1s");
    assert!(!is_well, "{said}");
    let report = fs::read_to_string(out.join("compare.json")).expect("it is written");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let cases = report["cases"].as_array().expect("a list");
    let error = cases[0]["error"].as_str().expect("it died");
    assert!(
        error.contains("dying does not serve") && error.contains("exit status: 7"),
        "{error}"
    );
    assert!(error.contains("out of luck"), "{error}");
    assert!(
        cases[1]["error"].is_null() && cases[1]["points"][1].is_object(),
        "{report}"
    );
}

#[test]
fn mistakes_are_told() {
    let (_, out) = case("mistaken", "");
    for (arguments, why) in [
        (
            ["nothing", "--rounds", "1"],
            "there is no case nothing: there are account_summary,",
        ),
        (
            ["shop", "--only", "x"],
            "shop: there is no server x: there are rhythm; axum",
        ),
        (["shop", "--duration", "0s"], "measures nothing"),
        (["shop", "fortunes", "shop"], "two cases are called shop"),
        (
            ["account_summary", "--root", "/"],
            "there is no /services: run this in the repository",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
        command.args(["bench", "compare"]).args(arguments);
        let output = command.arg("--out").arg(&out).output();
        let output = output.expect("it is built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
    let mut list = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    let list = list.args(["bench", "compare", "--list"]).output();
    let list = String::from_utf8(list.expect("it is built").stdout).expect("text");
    assert!(
        list.contains("account_summary-tls") && list.lines().count() >= 5,
        "{list}"
    );
}
