//! What a folder may hold, and files that change while they are sent.

use crate::server::*;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn only_regular_files_are_read() {
    for (at, what) in [("static/img/x", "a FIFO"), ("pages/x.html", "a FIFO")] {
        let folder = service("kinds", "");
        fifo(&folder.join(at));
        let said = complaint(&folder);
        assert!(said.contains(at) && said.contains(what), "{said}");
        assert!(said.contains("move it out of the folder"), "{said}");
        // What is hidden is not looked at.
        fs::remove_file(folder.join(at)).expect("it is there");
        fifo(&folder.join("static/.x"));
        assert!(check(&folder).0);
    }
    let folder = service("kinds-toml", "");
    fs::remove_file(folder.join("service.toml")).expect("it is there");
    fifo(&folder.join("service.toml"));
    assert!(complaint(&folder).contains("service.toml is a FIFO"));
    let folder = service("kinds-device", "[static]\noutside_links = true\n");
    symlink("/dev/zero", folder.join("static/zero")).expect("a link can be made");
    assert!(complaint(&folder).contains("static/zero is a device"));
    let folder = service("kinds-socket", "");
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("static/s")).expect("a path");
    assert!(complaint(&folder).contains("static/s is a socket"));
}

#[test]
fn links_stay_in_their_folder_unless_they_may_leave_it() {
    let folder = service("links", "");
    symlink("../a.css", folder.join("static/img/b.css")).expect("a link can be made");
    symlink("img", folder.join("static/pictures")).expect("a link can be made");
    assert!(check(&folder).0, "within the folder");
    for (link, to) in [
        ("static/out", "../service.toml"),
        ("static/img/out", "/etc/hostname"),
        ("static/out", "/etc"),
        ("pages/out.html", "/etc/hostname"),
        ("templates", "/tmp"),
    ] {
        symlink(to, folder.join(link)).expect("a link can be made");
        let said = complaint(&folder);
        let is_clear = said.contains(link) && said.contains("outside_links = true");
        assert!(is_clear, "{link}: {said}");
        fs::remove_file(folder.join(link)).expect("it is there");
    }
    symlink("../service.toml", folder.join("static/out")).expect("a link can be made");
    write(
        &folder.join("service.toml"),
        "[static]\noutside_links = true\n",
    );
    let server = Server::start(&folder, &[]);
    assert!(
        server
            .get("/static/out")
            .ends_with("outside_links = true\n")
    );
    assert!(server.get("/static/pictures/b.css").ends_with("body {}"));
    // Round in circles.
    symlink("..", folder.join("static/img/up")).expect("a link can be made");
    assert!(complaint(&folder).contains("leads back to a folder that it is in"));
}

#[test]
fn what_is_kept_and_held_open_is_bounded() {
    for (settings, told) in [
        ("kept_bytes_sum_max = 1000", "kept_bytes_sum_max = 1000"),
        (
            "kept_bytes_max = 100\nstreamed_files_max = 1",
            "streamed_files_max = 1",
        ),
        ("files_max = 3", "files_max = 3"),
    ] {
        let folder = service("bounds", &format!("[static]\n{settings}\n"));
        write(&folder.join("static/b"), [b'b'; 600]);
        write(&folder.join("static/c"), [b'c'; 600]);
        let said = complaint(&folder);
        assert!(said.contains(told), "{said}");
        fs::remove_file(folder.join("static/c")).expect("it is there");
        assert!(check(&folder).0, "{settings}");
    }
}

#[test]
fn a_service_that_serves_nothing_is_a_mistake() {
    let folder = service("nothing", "");
    fs::rename(
        folder.join("pages/hello.html"),
        folder.join("pages/hello.htm"),
    )
    .expect("a file");
    assert!(check(&folder).0, "it has a static file");
    fs::remove_file(folder.join("static/a.css")).expect("it is there");
    let said = complaint(&folder);
    assert!(
        said.contains("pages/hello.htm") && said.contains(".html"),
        "{said}"
    );
    let serve = rhythm(&folder, "serve").output().expect("it is built");
    let said = String::from_utf8_lossy(&serve.stderr);
    assert!(!serve.status.success() && said.contains(".html"), "{said}");
}

#[test]
fn a_long_file_that_changes_is_cut_off_and_never_mixed() {
    let folder = service("changes", "[static]\nkept_bytes_max = 1000\n");
    let path = folder.join("static/long");
    let length = 64 << 20;
    write(&path, vec![b'a'; length]);
    let server = Server::start(&folder, &[]);
    let mut client = TcpStream::connect(&server.address).expect("it listens");
    client.set_read_timeout(Some(NEVER)).expect("a duration");
    client
        .write_all(b"GET /static/long HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it reads");
    client.read_exact(&mut [0; 9]).expect("it answers");
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("it is there");
    (&file)
        .write_all(&vec![b'b'; length])
        .expect("it can be written");
    let mut bytes = Vec::new();
    // Reset, or an early end.
    let _ = client.read_to_end(&mut bytes);
    let head = bytes
        .windows(4)
        .position(|at| at == b"\r\n\r\n")
        .expect("a head")
        + 4;
    assert!(bytes.len() - head < length && !bytes[head..].contains(&b'b'));
    assert!(server.get("/static/long").starts_with("HTTP/1.1 503 "));
    server.line("it has changed since the service was loaded");
    server.signal(Signal::HUP);
    server.line("the service is reloaded");
    assert!(server.get("/static/long").ends_with("bbbb"));
    file.set_len(10).expect("it can be shortened");
    assert!(server.get("/static/long").starts_with("HTTP/1.1 503 "));
    // Replaced as a whole, it is what it was until it is loaded again.
    file.set_len(5000).expect("it can be lengthened");
    server.signal(Signal::HUP);
    server.line("the service is reloaded");
    write(&folder.join("new"), "new");
    fs::rename(folder.join("new"), &path).expect("a file can be renamed");
    assert_eq!(server.get("/static/long").matches('\0').count(), 4990);
}

#[test]
fn a_file_grows_while_it_is_sent_and_ends_the_connection() {
    let folder = service("grows", "[static]\nkept_bytes_max = 0\n");
    let path = folder.join("static/grows");
    write(&path, vec![b'a'; 1000]);
    let server = Server::start(&folder, &[]);
    assert!(server.get("/static/grows").ends_with("aaaa"));
    let mut file: File = OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("it is there");
    file.write_all(b"more").expect("it can be written");
    assert!(server.get("/static/grows").starts_with("HTTP/1.1 503 "));
}

#[test]
fn an_encoded_file_is_sent_in_place_of_its_own_until_that_is_changed() {
    let folder = service("encoded", "");
    let [plain, encoded] = ["a.css", "a.css.gz"].map(|name| folder.join("static").join(name));
    // With the length of what it encodes at its end.
    write(&encoded, b"\x1f\x8bas if by gzip\x07\0\0\0");
    let made = UNIX_EPOCH + Duration::from_millis(1_000_000_000_123);
    let touch = |path: &Path, at: SystemTime| {
        let file = File::options().append(true).open(path);
        (file.expect("it is there").set_modified(at)).expect("a file's time can be set");
    };
    // As gzip leaves it.
    touch(&plain, made);
    touch(&encoded, made);
    let server = Server::start(&folder, &[]);
    let get = |headers: &str| get_with(&server.address, "/static/a.css", headers);
    let answer = get("Accept-Encoding: gzip\r\n");
    assert!(answer.contains("Content-Encoding: gzip\r\n"), "{answer}");
    assert!(
        answer.ends_with("\r\n\r\n\x1f\u{fffd}as if by gzip\x07\0\0\0"),
        "{answer}"
    );
    assert!(get("").ends_with("\r\n\r\nbody {}"));
    touch(&plain, made + Duration::from_millis(1));
    server.signal(Signal::HUP);
    server.line("a static file is older than what it encodes");
    server.line("the service is reloaded");
    let answer = get("Accept-Encoding: gzip\r\n");
    assert!(!answer.contains("Content-Encoding"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nbody {}"), "{answer}");
    drop(server);
    // It is told before it matters, too.
    let checked = rhythm(&folder, "check").output().expect("it is built");
    let told = String::from_utf8_lossy(&checked.stderr);
    let cure = "a.css.gz is not sent in place of a.css; compress it again, or remove it";
    assert!(checked.status.success() && told.contains(cure), "{told}");
    let mut starts = rhythm(&folder, "serve")
        .args(["--listen", "127.0.0.1:0", "--no-admin"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is built");
    let log = BufReader::new(starts.stderr.take().expect("it is piped")).lines();
    let log = log.map(|line| line.expect("UTF-8"));
    let before: Vec<String> = log.take_while(|line| !line.contains("serving")).collect();
    starts.kill().expect("it is there");
    starts.wait().expect("it is there");
    assert!(before.iter().any(|line| line.contains(cure)), "{before:?}");
}
