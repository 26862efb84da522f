//! What the binary tells people: of what they mistyped, and where.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn rhythm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(arguments).env_remove("RHYTHM_SIMD");
    command.env_remove("RHYTHM_LOG").stdin(Stdio::null());
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A service with one page, in a folder of the test's own.
fn service(test: &str, toml: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(folder.join("pages")).expect("a folder can be made");
    let page = "+++\nroute = \"GET /hello\"\n+++\n<h1>Hello</h1>\n";
    std::fs::write(folder.join("service.toml"), toml).expect("a file can be written");
    std::fs::write(folder.join("pages/hello.html"), page).expect("a file can be written");
    folder
}

#[test]
fn flags_that_mean_nothing_are_refused_with_what_would_be_right() {
    for (arguments, told) in [
        (&["besim", "--fail", "101"][..], "a number from 0 to 100"),
        (&["besim", "--fail", "NaN"], "a number from 0 to 100"),
        (&["besim", "--users", "0"], "0 is not in 1..=1073741824"),
        (
            &["kv", "--admin", "localhost:29312"],
            "an IP address and a port, such as 127.0.0.1:29312",
        ),
        (
            &["load", "http://127.0.0.1:1", "--rate", "0"],
            "a number from 0.001 to 10000000",
        ),
        (
            &["load", "http://127.0.0.1:1/bank/login.php"],
            "the URL names a page; give the server alone",
        ),
        (
            &["load", "redis://127.0.0.1:1"],
            "the URL must start with http://, https:// or memcached://",
        ),
        (
            &["load", "memcached://127.0.0.1:1", "--page", "login"],
            "--page is for http:// and https:// only",
        ),
        (
            &["load", "http://127.0.0.1:1", "--udp"],
            "flags of memcached:// are given",
        ),
        (
            &["load", "memcached://127.0.0.1:1", "--value-bytes", "9"],
            "16 to 1048576 bytes",
        ),
        (&["load", "memcached://127.0.0.1:1"], "no answer from"),
        (
            &["load", "memcached://127.0.0.1:1", "--udp"],
            "only where they were started with -U PORT",
        ),
        (
            &[
                "load",
                "http://127.0.0.1:1",
                "--rate",
                "9",
                "--page",
                "login",
            ],
            "leave out --rate",
        ),
        (&["kv", "-I", "33m"], "For -I 33m give -m 66 or more"),
        (&["bench", "--ring", "0"], "0 is not in 1.."),
        (
            &["bench", "--output", "runs", "--buffers", "pow2"],
            "of whole answers, not of runs",
        ),
    ] {
        let output = rhythm(arguments).output().expect("the binary runs");
        assert!(!output.status.success(), "{arguments:?}");
        assert!(errors(&output).contains(told), "{}", errors(&output));
    }
}

#[test]
fn an_unknown_simd_level_is_told_of_by_every_command() {
    let folder = service("simd", "");
    let mut check = rhythm(&["check"]);
    let output = check.arg(&folder).env("RHYTHM_SIMD", "mmx").output();
    let output = output.expect("the binary runs");
    let told = "rhythm: warning: RHYTHM_SIMD=mmx: not one of portable, sse2, avx2, avx512, neon; ";
    assert!(
        output.status.success() && errors(&output).starts_with(told),
        "{output:?}"
    );
    let output = rhythm(&["check"])
        .arg(&folder)
        .output()
        .expect("the binary runs");
    assert_eq!(errors(&output), "");
}

#[test]
fn who_has_read_enough_of_a_listing_ends_it_quietly() {
    // More than a pipe has room for.
    let folder = service("enough", "");
    let rows = "{{ n }} and {{ n }}\n".repeat(10_000);
    let page = "+++\nroute = \"GET /long\"\n[params]\nn = { in = \"query\", type = \"int\" }\n\
                +++\n";
    std::fs::write(folder.join("pages/long.html"), page.to_owned() + &rows).expect("a file");
    let mut check = rhythm(&["check", "--print", "programs"]);
    check.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.arg(&folder).spawn().expect("the binary runs");
    let mut listing = BufReader::new(check.stdout.take().expect("it is piped"));
    let mut line = String::new();
    listing.read_line(&mut line).expect("a line");
    drop(listing);
    let output = check.wait_with_output().expect("it ends");
    assert!(line.starts_with("page "), "{line}");
    assert_eq!(errors(&output), "");
    assert_eq!(output.status.code(), Some(128 + 13));
}

#[test]
fn what_is_wrong_in_many_places_is_told_once_with_all_of_them() {
    let folder = service("many_places", "");
    for page in ["a", "b", "c"] {
        let text = format!(
            "+++\nroute = \"GET /{page}\"\n[[step]]\ncall = \"bank\"\nrequest = \"1\"\n\
             rows = \"a(b)\"\n+++\n"
        );
        std::fs::write(folder.join(format!("pages/{page}.html")), text).expect("a file");
    }
    let output = rhythm(&["check"]).arg(&folder).output();
    let said = errors(&output.expect("the binary runs"));
    // Paths are such that they lead there from where it was asked.
    let pages = folder.join("pages").display().to_string();
    let places = format!(
        "\n  the same at 2 other places:\n    {pages}/b.html:4:9\n    {pages}/c.html:4:9\n"
    );
    let first = format!("{pages}/a.html:4:9: error: ");
    assert!(said.starts_with(&first), "{said}");
    assert!(said.contains(&places), "{said}");
    let there = rhythm(&["check", "."]).current_dir(&folder).output();
    let said_there = errors(&there.expect("the binary runs"));
    assert!(said_there.starts_with("pages/a.html:4:9: "), "{said_there}");
    assert_eq!(said.matches("hint:").count(), 1, "{said}");
    assert!(said.ends_with("3 errors, 0 warnings\n"), "{said}");
}

#[test]
fn where_a_backend_is_is_not_said_by_the_flag_that_asks_all() {
    let folder = service("backends_flag", "");
    let mut check = rhythm(&["check"]);
    check
        .arg(&folder)
        .args(["--backends", "shop=postgres://a@b/c"]);
    let said = errors(&check.output().expect("the binary runs"));
    let told = "where a backend is says --backend shop=URL, without an s";
    assert!(said.contains(told), "{said}");
}

#[test]
fn one_of_a_thing_is_one() {
    let folder = service("one", "");
    let output = rhythm(&["check"]).arg(&folder).output();
    let said = output.expect("the binary runs").stdout;
    let said = String::from_utf8_lossy(&said);
    let told = "service: 1 page with 0 calls, 1 fragment of 14 bytes, 0 static files\n";
    assert!(said.starts_with(told), "{said}");
}

#[test]
fn an_access_log_that_cannot_be_written_names_its_setting() {
    let folder = service(
        "access_log",
        "[server]\naccess_log = \"/nowhere/access.log\"\n",
    );
    let mut serve = rhythm(&["serve", "--listen", "127.0.0.1:0", "--no-admin"]);
    let output = serve.arg(&folder).output().expect("the binary runs");
    let told = "rhythm: server.access_log (--access-log): cannot write to /nowhere/access.log: ";
    assert!(!output.status.success(), "{output:?}");
    assert!(errors(&output).starts_with(told), "{}", errors(&output));
    assert_eq!(errors(&output).matches("access_log").count(), 1);
}

#[test]
fn the_start_says_where_the_access_log_is_and_names_files_as_check_does() {
    let folder = service("access_log_place", "");
    std::fs::write(folder.join("pages/notes.txt"), "to do").expect("a file");
    // As the system knows it, whatever leads there.
    let above = folder.parent().expect("a folder").canonicalize();
    let above = above.expect("it is there");
    let mut serve = rhythm(&["serve", "access_log_place", "--listen", "127.0.0.1:0"]);
    serve.args(["--no-admin", "--access-log", "access_log_place.log"]);
    let server = serve.current_dir(&above).stderr(Stdio::piped()).spawn();
    let mut server = server.expect("the binary runs");
    let log = BufReader::new(server.stderr.take().expect("it is piped")).lines();
    let log = log.map(|line| line.expect("UTF-8"));
    let before: Vec<String> = log.take_while(|line| !line.contains("serving")).collect();
    server.kill().expect("it is there");
    server.wait().expect("it is there");
    let file = above.join("access_log_place.log");
    std::fs::remove_file(&file).expect("it is there");
    let told = |words: &str| before.iter().find(|line| line.contains(words));
    let place = told("requests are written to the access log").expect("it is told");
    assert!(
        place.contains(&format!("file={:?}", file.display().to_string())),
        "{place}"
    );
    let warning = told("this file is not used").expect("it is told");
    let named = "access_log_place/pages/notes.txt:1:1: warning: ";
    assert!(warning.contains(named), "{warning}");
    let help = rhythm(&["serve", "--help"])
        .output()
        .expect("the binary runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let words: Vec<&str> = help.split_whitespace().collect();
    let help = words.join(" ");
    let base = "is standard output [relative to the current folder]";
    assert!(help.contains(base), "{help}");
}

#[test]
fn a_shutdown_that_is_over_before_it_begins_is_told_wherever_it_is_said() {
    let told = "a shutdown is over after `drain_timeout` = 10s, before `drain_delay` = 20s is";
    let folder = service("drain", "[server]\ndrain_delay = \"20s\"\n");
    let output = rhythm(&["check"]).arg(&folder).output();
    let said = errors(&output.expect("the binary runs"));
    let place = format!("{}/service.toml:2:15: warning: ", folder.display());
    assert!(said.starts_with(&format!("{place}{told}")), "{said}");
    let listens = ["serve", "--listen", "127.0.0.1:0", "--no-admin"];
    for (folder, flags) in [
        (folder, &[][..]),
        (service("drain_flag", ""), &["--drain-delay", "20s"]),
    ] {
        let mut serve = rhythm(&listens);
        let server = serve
            .args(flags)
            .arg(&folder)
            .stderr(Stdio::piped())
            .spawn();
        let mut server = server.expect("the binary runs");
        let log = BufReader::new(server.stderr.take().expect("it is piped")).lines();
        let log = log.map(|line| line.expect("UTF-8"));
        let before: Vec<String> = log.take_while(|line| !line.contains("serving")).collect();
        server.kill().expect("it is there");
        server.wait().expect("it is there");
        let warned = before.iter().filter(|line| line.contains(told));
        assert_eq!(warned.count(), 1, "{before:?}");
    }
}

#[test]
fn what_cannot_be_read_hides_no_other_mistake() {
    let folder = service("unread", "[limits]\nheaders = 3\n");
    std::fs::write(folder.join("pages/latin.html"), b"+++\n+++\n\xe9\n").expect("a file");
    std::fs::write(folder.join("pages/notes.txt"), "to do").expect("a file");
    let page = "\u{feff}+++\nroute = \"GET /a\"\n+++\n{{ nothing }}\n";
    std::fs::write(folder.join("pages/a.html"), page).expect("a file");
    let output = rhythm(&["check"]).arg(&folder).output();
    let said = errors(&output.expect("the binary runs"));
    for told in [
        "pages/a.html:4:4: error: unknown name `nothing`",
        "invalid utf-8 sequence of 1 bytes from index 8\n  hint: save it as UTF-8",
        "pages/notes.txt:1:1: warning: this file is not used",
        "service.toml:2:1: error: unknown key `headers`",
        "3 errors, 1 warning",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn a_backend_that_is_wrong_is_told_of_once_and_its_calls_are_not_blamed() {
    let toml = "[backend.bank]\nkind = \"besim\"\nurl = \"https://bank.example/besim\"\n";
    let folder = service("tls", toml);
    let page = "+++\nroute = \"GET /ask\"\n[[step]]\ncall = \"bank\"\nrequest = \"1&99\"\n\
                row = \"a(b)\"\n[[step]]\ncheck = \"a.status == 0\"\nelse = \"none.html\"\n\
                +++\n{{ a.b }}\n";
    std::fs::write(folder.join("pages/ask.html"), page).expect("a file");
    let output = rhythm(&["check"]).arg(&folder).output();
    let said = errors(&output.expect("the binary runs"));
    for told in [
        "service.toml:3:8: error: this is no address of a backend",
        "TLS (https) is not spoken",
        "2 errors, 0 warnings",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    assert!(!said.lines().any(|line| line.trim() == "hint:"), "{said}");
}

/// What a server logs of a reload that fails: so many lines after the first.
fn log_of_a_reload(format: &str, lines_after: usize) -> Vec<String> {
    let folder = service(&format!("reload_{format}"), "");
    let mut serve = rhythm(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--no-admin",
        "--log-format",
    ]);
    let server = serve
        .arg(format)
        .arg(&folder)
        .stderr(Stdio::piped())
        .spawn();
    let mut server = server.expect("the binary runs");
    let mut log = BufReader::new(server.stderr.take().expect("it is piped")).lines();
    let mut until = |told: &str| {
        let mut line = log.next().expect("it tells more").expect("UTF-8");
        while !line.contains(told) {
            line = log.next().expect("it tells more").expect("UTF-8");
        }
        line
    };
    until("serving");
    std::fs::write(folder.join("service.toml"), "[limits]\nhead_bytes = 5000\n").expect("a file");
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it is there");
    let mut lines = vec![until("cannot be reloaded")];
    lines.extend((0..lines_after).map(|_| log.next().expect("it tells more").expect("UTF-8")));
    server.kill().expect("it is there");
    server.wait().expect("it is there");
    lines
}

#[test]
fn why_a_service_is_not_reloaded_is_told_in_lines_for_people_and_whole_for_machines() {
    let mistake = |format: &str| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reload_{format}"));
        let place = format!(
            "{}/service.toml:2:1: error: unknown key `head_bytes`",
            folder.display()
        );
        let more = [
            "  2 | head_bytes = 5000",
            "    | ^",
            "  hint: it is called `head_bytes_max` now",
        ];
        [&[place.as_str()][..], &more[..]].concat().join("\n")
    };
    let lines = log_of_a_reload("text", 4);
    assert!(
        lines[0].ends_with("the service cannot be reloaded; the old one is kept:"),
        "{lines:?}"
    );
    assert_eq!(lines[1..].join("\n"), mistake("text"));
    let line = &log_of_a_reload("json", 0)[0];
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let message = line["fields"]["message"].as_str().expect("a message");
    assert!(message.contains(&mistake("json")), "{message}");
}

#[test]
fn a_request_that_fails_or_is_refused_leaves_a_line_that_says_why() {
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let gone = gone.expect("a port");
    let folder = service(
        "failures",
        &format!(
            "[backend.bank]\nkind = \"besim\"\nurl = \"http://{gone}/besim\"\n\
             [backend.here]\nkind = \"besim\"\n\
             [session]\nfields = {{ name = \"text(3)\" }}\n"
        ),
    );
    let page = "+++\nroute = \"GET /divide\"\n[params]\nn = { in = \"query\", type = \"int\" }\n\
                [[step]]\nstatus = 200\n[[step]]\nwhen = \"7 // n > 1\"\nstatus = 201\n+++\n\
                {% include \"part.html\" %}";
    std::fs::write(folder.join("pages/divide.html"), page).expect("a file can be written");
    let part = "<p>\n{{ 10 // (n - 1) }}\n{% for i in range(n) %}{{ i }}{% endfor %}";
    std::fs::create_dir_all(folder.join("templates")).expect("a folder can be made");
    std::fs::write(folder.join("templates/part.html"), part).expect("a file can be written");
    let page = "+++\nroute = \"POST /name\"\n[[step]]\nsession = \"create\"\nuser = \"7\"\n\
                set = { name = \"'four' ~ cookies.x\" }\n+++\nin";
    std::fs::write(folder.join("pages/name.html"), page).expect("a file can be written");
    let page = "+++\nroute = \"GET /ask\"\n[params]\nn = { in = \"query\", type = \"int\" }\n\
                [[step]]\nstatus = 200\n[[step]]\ncall = \"bank\"\nrequest = \"1&3&{{ n }}\"\n\
                rows = \"a(a, b, c, d, e, f, g)\"\n+++\n{{ a | length }}";
    std::fs::write(folder.join("pages/ask.html"), page).expect("a file can be written");
    // A bank in the server itself, whose answers the page takes for others.
    let page = "+++\nroute = \"GET /here\"\n[[step]]\ncall = \"here\"\nrequest = \"1&9&1\"\n\
                rows = \"a(x:int, c, s, z, e, p)\"\n+++\n{{ a | length }}";
    std::fs::write(folder.join("pages/here.html"), page).expect("a file can be written");
    let page = "+++\nroute = \"POST /login\"\n[[step]]\nsession = \"create\"\nuser = \"7\"\n\
                +++\nin";
    std::fs::write(folder.join("pages/login.html"), page).expect("a file can be written");
    let page = "+++\nroute = \"POST /pay\"\ncsrf = true\n+++\npaid";
    std::fs::write(folder.join("pages/pay.html"), page).expect("a file can be written");
    let mut serve = rhythm(&["serve", "--listen", "127.0.0.1:0", "--no-admin"]);
    serve.args(["--workers", "1"]).arg(&folder);
    let mut server = serve.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut log = BufReader::new(server.stderr.take().expect("it is piped")).lines();
    let mut until = |told: &str| loop {
        let line = log.next().expect("it tells more").expect("UTF-8");
        if line.contains(told) {
            return line;
        }
    };
    let line = until("serving");
    let address = line
        .split("address=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let address = address.expect("it is told").trim_matches('"').to_owned();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        write!(
            stream,
            "{request}\r\nHost: bank\r\nConnection: close\r\n\r\n"
        )
        .expect("a socket");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer[9..12].to_owned()
    };
    for (request, status, told, words) in [
        (
            "GET /ask?n=7 HTTP/1.1",
            "502",
            "a request failed",
            &[
                "page=\"ask\" step=2 backend=\"bank\"",
                &*format!("address=\"{gone}\""),
                "no connection could be opened: connection refused",
            ][..],
        ),
        (
            "GET /here HTTP/1.1",
            "502",
            "a request failed",
            &[
                "page=\"here\" step=1 backend=\"here\"",
                "column 1 of a row is no integer",
                "column=\"x\"",
            ],
        ),
        (
            "GET /divide?n=0 HTTP/1.1",
            "500",
            "a request failed",
            &[
                "page=\"divide\" stage=1 step=2 at=\"pages/divide.html:8\"",
                "a division by zero",
            ],
        ),
        (
            "GET /divide?n=200000 HTTP/1.1",
            "500",
            "a request failed",
            &[
                "stage=1 at=\"templates/part.html:3\"",
                "take more turns than `limits.stage_turns_max`",
            ],
        ),
        (
            "POST /name HTTP/1.1\r\nContent-Length: 0",
            "500",
            "a request failed",
            &["text=\"session.name\"", "a text is longer than its field"],
        ),
        (
            "GET /ask?n=x HTTP/1.1",
            "400",
            "a request was refused",
            &["path=\"/ask\"", "parameter=\"n\""],
        ),
        (
            "POST /login HTTP/1.1\r\nContent-Length: 0\r\nOrigin: http://other",
            "403",
            "a request was refused",
            &["path=\"/login\" origin=\"http://other\" host=\"bank\""],
        ),
        (
            "POST /pay HTTP/1.1\r\nContent-Length: 0",
            "403",
            "it has no CSRF token of its session",
            &[
                "path=\"/pay\" cause=\"it has no session's cookie\"",
                "{{ csrf_input }}",
            ],
        ),
        (
            "GET /ask?n=<b> HTTP/1.1",
            "400",
            "its target is none of HTTP",
            &["path=\"/ask\"", "the target has a byte 0x3c, which must be"],
        ),
        (
            "POST /pay HTTP/1.1\r\nContent-Length: 99999999",
            "413",
            "its content is larger than `limits.body_bytes_max`",
            &["status=413 path=\"/pay\" bytes=99999999 most="],
        ),
        (
            "GET",
            "400",
            "a request was refused",
            &["no request of HTTP"],
        ),
    ] {
        assert_eq!(ask(request), status, "{request}");
        let line = until(told);
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    server.kill().expect("it is there");
    server.wait().expect("it is there");
}

#[test]
fn a_doctor_tells_what_the_machine_has() {
    let output = rhythm(&["doctor"]).output().expect("it is started");
    let text = String::from_utf8_lossy(&output.stdout);
    for what in ["kernel", "CPUs", "instructions", "open files", "GPU"] {
        let mut lines = text.lines();
        assert!(lines.any(|line| line.starts_with(what)), "{what}: {text}");
    }
    let counts = text.lines().last().unwrap_or_default();
    assert!(
        counts.contains(" problem") && counts.contains(" remark"),
        "{text}"
    );
    let output = rhythm(&["doctor", "--json"])
        .output()
        .expect("it is started");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let findings = report["findings"].as_array().expect("a list");
    let has_problem = findings.iter().any(|one| one["state"] == "problem");
    assert_eq!(output.status.code(), Some(i32::from(has_problem)));
}

#[test]
fn shells_and_man_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = rhythm(&["completions", shell])
            .output()
            .expect("it is started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("cohort-size"),
            "{shell}"
        );
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man/man1");
    let status = rhythm(&["man"]).arg(&folder).status();
    assert!(status.expect("it is started").success());
    for (page, told) in [
        ("rhythm.1", "similar requests"),
        ("rhythm-serve.1", "cohort\\-size"),
        ("rhythm-serve.1", ".SH EXIT STATUS\n.TP\n0\n"),
        ("rhythm-kv-keyspace.1", ".TP\n3\nThe node lacks"),
    ] {
        let text = std::fs::read_to_string(folder.join(page)).expect("it is there");
        assert!(text.contains(told), "{page}");
    }
}

/// What a command shows on a terminal, which util-linux's script(1) makes.
fn on_a_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let words = arguments.iter().map(|word| format!(" '{word}'"));
    let line = format!(
        "'{}'{}",
        env!("CARGO_BIN_EXE_rhythm"),
        words.collect::<String>()
    );
    let mut command = Command::new("script");
    command.args(["-q", "-c", &line, "/dev/null"]);
    for variable in ["NO_COLOR", "CLICOLOR_FORCE", "RHYTHM_SIMD", "RHYTHM_LOG"] {
        command.env_remove(variable);
    }
    command
        .env("TERM", "xterm")
        .envs(environment.iter().copied());
    let output = command.stdin(Stdio::null()).output();
    let output = output.expect("script is there (util-linux)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn no_color_keeps_colors_out_of_the_log() {
    const COLOR: &str = "\u{1b}[";
    // It warns of what the variable says, and ends.
    let command = [
        "venice",
        "run",
        "--local",
        "1M",
        "--remote",
        "1M",
        "--donor",
        "127.0.0.1:1",
    ];
    let command = [&command[..], &["--key-file", "/nowhere", "--", "true"]].concat();
    let wrong = ("RHYTHM_LOG", "wrong");
    for (environment, is_colored) in [
        (&[wrong][..], true),
        (&[wrong, ("NO_COLOR", "")], true),
        (&[wrong, ("NO_COLOR", "1")], false),
    ] {
        let shown = on_a_terminal(&command, environment);
        assert!(shown.contains("RHYTHM_LOG is none of"), "{shown}");
        assert_eq!(shown.contains(COLOR), is_colored, "{shown:?}");
    }
    let mut elsewhere = rhythm(&command);
    let output = elsewhere.env("RHYTHM_LOG", "wrong").output();
    let told = errors(&output.expect("it is started"));
    assert!(told.contains("RHYTHM_LOG is none of"), "{told}");
    assert!(!told.contains(COLOR), "{told:?}");
}

#[test]
fn a_check_shows_on_a_terminal_how_it_gets_on() {
    let folder = service("progress", "");
    let folder = folder.to_str().expect("it is UTF-8");
    let shown = on_a_terminal(&["check", folder], &[]);
    // A step a page, and one a service.
    let told = format!("1/1 compiles 2 files of {folder}");
    assert!(shown.contains(&told), "{shown:?}");
    assert!(shown.contains("0/1 reads 0 static files of "), "{shown:?}");
    let output = rhythm(&["check", folder]).output().expect("it is started");
    assert_eq!(errors(&output), "");
    let backend = "[backend.near]\nkind = \"redis\"\nurl = \"redis://127.0.0.1:1\"\n";
    let folder = service("progress_backends", backend);
    let folder = folder.to_str().expect("it is UTF-8");
    let shown = on_a_terminal(&["check", "--backends", folder], &[]);
    assert!(shown.contains("0/1 asks the backend near"), "{shown:?}");
}

#[test]
fn commands_end_with_what_the_table_says() {
    let sound = service("exits", "");
    let sound = sound.to_str().expect("it is UTF-8");
    let help = rhythm(&["--help"]).output().expect("it is started");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let (_, table) = help.split_once("\nExit status:\n").expect("it is there");
    for (arguments, status) in [
        (&["check", sound][..], 0),
        (&["check", "/nowhere"], 1),
        (&["check"], 2),
        (&["check", sound, "--no-such-flag"], 2),
        // Flags that are right by themselves, and not together, or not with what they have.
        (&["load", "http://127.0.0.1:1", "--udp"], 2),
        (&["bench", "--output", "runs", "--buffers", "pow2"], 2),
        (&["model", "--rate", "0"], 2),
        (&["model", "--mix", "1e308,1e308"], 2),
        (&["kv", "-I", "33m"], 2),
        (&["kv", "keyspace"], 2),
        (&["kv", "-o", "hashpower=40"], 2),
        (&["rpo", "--pid", "1"], 2),
        (
            &["rpo", "--pid", "1", "--ring", "x", "--policy", "paper"],
            2,
        ),
        (&["serve", sound, "--device", "remote=192.0.2.1:1"], 2),
        (&["bench", "device", "--page", "check_detail_image"], 2),
    ] {
        let output = rhythm(arguments).output().expect("it is started");
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        let mut lines = table.lines();
        assert!(
            lines.any(|line| line.starts_with(&format!("  {status}  "))),
            "{table}"
        );
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = rhythm(&["check", sound]).stdout(writer).status();
    assert_eq!(status.expect("it is started").code(), Some(141));
    assert!(
        table.lines().any(|line| line.starts_with("  141  ")),
        "{table}"
    );
}
