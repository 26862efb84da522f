//! What goes over the wire, by other hands: files that curl inflates, the bank over TLS, and what
//! connections over TLS take of memory.

use crate::server::{Server, service};
use crate::tls::{client, make};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const BANKING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/banking");

fn curl(arguments: &[&str], url: &str) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--max-time", "60"]);
    let output = command.args(arguments).arg(url).output();
    let output = output.expect("there is curl");
    assert!(output.status.success(), "{arguments:?} {url}: {output:?}");
    output.stdout
}

#[test]
fn curl_inflates_every_form_of_a_file_to_the_file() {
    let folder = service("wire_files");
    fs::write(
        folder.join("service.toml"),
        "[static]\ncompress_time = \"10m\"\n",
    )
    .expect("a file");
    fs::create_dir_all(folder.join("static")).expect("a folder");
    let lines = |from: u32| -> String {
        let line = |n: u32| format!(".c{n} {{ margin: {}px }}\n", n * n % 911);
        (from..from + 2000).map(line).collect()
    };
    let css = lines(0);
    fs::write(folder.join("static/a.css"), &css).expect("a file");
    fs::write(folder.join("static/a.svg"), &css).expect("a file");
    let server = Server::start(&folder, &[]);
    let url = |name: &str| format!("http://{}/static/{name}", server.address);
    for name in ["a.css", "a.svg"] {
        for (accepts, encoding) in [("gzip", "gzip"), ("br", "br"), ("br;q=0.1, gzip", "gzip")] {
            let header = format!("Accept-Encoding: {accepts}");
            let head = curl(&["--head", "--header", &header], &url(name));
            let head = String::from_utf8_lossy(&head).into_owned();
            assert!(
                head.contains(&format!("Content-Encoding: {encoding}\r\n")),
                "{head}"
            );
            let whole = curl(&["--compressed", "--header", &header], &url(name));
            assert!(whole == css.as_bytes(), "{name} {accepts}");
            let sent = curl(&["--header", &header], &url(name));
            assert!(
                sent.len() < css.len() / 2,
                "{} of {}",
                sent.len(),
                css.len()
            );
        }
        assert!(curl(&[], &url(name)) == css.as_bytes());
    }
    // After a reload it is another file, and so are all its forms.
    let other = lines(7);
    fs::write(folder.join("static/a.css"), &other).expect("a file");
    server.signal(rustix::process::Signal::HUP);
    server.said("is reloaded");
    for arguments in [&[][..], &["--compressed"]] {
        assert!(curl(arguments, &url("a.css")) == other.as_bytes());
        assert!(curl(arguments, &url("a.svg")) == css.as_bytes());
    }
}

fn load(url: &str, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
    command.args(["load", url, "--duration", "3s", "--sessions", "20"]);
    command.args(["--json", "-"]).args(flags);
    command.output().expect("it runs")
}

#[test]
fn users_of_the_bank_are_served_over_tls_and_certificates_are_checked() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wire_bank");
    let certificate = make(&folder, "tls", &["localhost"]);
    let key = certificate.with_file_name("key.pem");
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().expect("a text"));
    let flags = [
        "--tls-listen",
        "127.0.0.1:0",
        "--tls-certificate",
        certificate,
    ];
    let flags = [&flags[..], &["--tls-key", key]].concat();
    let server = Server::start(Path::new(BANKING), &flags);
    let port = server.places()[1].port();
    let url = format!("https://localhost:{port}");
    for flags in [
        &["--ca", certificate, "--gzip"][..],
        &["--insecure", "--no-files"],
    ] {
        let output = load(&url, flags);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{flags:?}: {output:?}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&told);
        assert_eq!(report["invalid"], 0);
        let [handshakes, connections, pages] =
            ["handshakes", "connections", "pages"].map(|name| report[name].as_u64().expect(name));
        assert!(
            handshakes >= 20 && handshakes <= connections && pages > 0,
            "{report}"
        );
    }
    // Of the same server: a name that its certificate is not for, one whom nobody vouches for, and
    // a place where TLS is not spoken.
    let address = format!("https://127.0.0.1:{port}");
    let plain = format!("https://localhost:{}", server.address.port());
    let clear = format!("http://{}", server.address);
    for (url, flags, says) in [
        (&address, &["--ca", certificate][..], "--insecure"),
        (&url, &["--ca", key], "no certificate in it"),
        (&plain, &["--insecure"], "does it speak TLS at this port?"),
        (&clear, &["--insecure"], "with https:// only"),
    ] {
        let output = load(url, flags);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{url} {flags:?}: {told}");
        assert!(told.contains(says), "{url} {flags:?}: {told}");
    }
}

#[test]
fn idle_connections_over_tls_take_little_memory() {
    /// Bytes of each: 10,000 are within 400 MB.
    const EACH_MAX: usize = 40_000;
    let count = std::env::var("RHYTHM_TLS_CONNECTIONS").ok();
    let count = count.map_or(300, |count| count.parse().expect("a number"));
    let folder = service("wire_idle");
    let certificate = make(&folder, "tls", &["localhost"]);
    let settings = "[limits]\nidle_timeout = \"10m\"\nconnections_max = 20000\n\
                    [tls]\ncertificate = \"tls/cert.pem\"\nkey = \"tls/key.pem\"\n";
    fs::write(folder.join("service.toml"), settings).expect("a file");
    let server = Server::start(&folder, &["--tls-listen", "127.0.0.1:0"]);
    let resident = || -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid()));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        1024 * kilobytes.and_then(|n| n.parse::<usize>().ok()).expect("kB")
    };
    let tls = server.places()[1];
    let connect = || {
        let mut client = client(tls, &certificate);
        let answer = client.ask("GET", "/hello", "").expect("an answer");
        assert_eq!(answer.status, 200);
        client
    };
    // What the first ones take is the server's.
    let mut clients: Vec<_> = (0..20).map(|_| connect()).collect();
    let before = resident();
    clients.extend((0..count).map(|_| connect()));
    let each = resident().saturating_sub(before) / count;
    println!("{count} idle connections over TLS take {each} bytes each, beside {before} bytes");
    assert!(each < EACH_MAX, "{each} bytes each");
    // They are there, and not merely counted.
    let mut first = clients.swap_remove(0);
    assert_eq!(
        first.ask("GET", "/hello", "").expect("an answer").status,
        200
    );
}
