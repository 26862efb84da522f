//! A backend's name that leads elsewhere while its site is served. A library that is loaded before
//! the system's answers for the one name (`names/fake_names.cpp`).

use super::server::{NEVER, Server};
use super::site::{Site, until};
use super::sqlite::get;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The library, compiled, and the file with the name's address.
struct Names {
    library: PathBuf,
    file: PathBuf,
}

impl Names {
    fn new(test: &str) -> Names {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let names = Names {
            library: folder.join(format!("{test}-names.so")),
            file: folder.join(format!("{test}-name")),
        };
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/process/names/fake_names.cpp"
        );
        let compiled = Command::new("g++")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&names.library)
            .args([source, "-ldl"])
            .status();
        assert!(compiled.expect("there is g++").success());
        names
    }

    fn lead_to(&self, address: &str) {
        // Nobody reads half of it.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{address}\n")).expect("a file can be written");
        fs::rename(&new, &self.file).expect("it can be renamed");
    }

    /// A server whose resolver it is.
    fn start(&self, folder: &Path) -> Server {
        let (library, file) = (self.library.display(), self.file.display());
        let script = format!("LD_PRELOAD='{library}' FAKE_NAME='{file}' exec \"$0\" \"$@\"");
        Server::start_by(&script, Stdio::null(), folder, &[])
    }
}

/// A site whose backend is asked by the name.
fn site(test: &str, port: u16, look_up_every: &str) -> Site {
    let url = format!("http://moving.test:{port}");
    let table = format!("kind = \"http\"\nurl = \"{url}\"\nlook_up_every = \"{look_up_every}\"\n");
    let site = Site::new(test, &table);
    site.page(
        "where",
        "get = \"/\"\nrow = \"found(at)\"",
        "{{ found.at }}",
    );
    site
}

/// Answers at this address, until the process ends, where it is. How many connections it has.
fn serve(address: &'static str, port: u16) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((address, port)).expect("the port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let open = Arc::<AtomicUsize>::default();
    let count = open.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = count.clone();
            thread::spawn(move || {
                count.fetch_add(1, Ordering::SeqCst);
                // That a client is gone ends it.
                let _ = answer(stream, address);
                count.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (port, open)
}

fn answer(stream: TcpStream, address: &str) -> std::io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    let (mut output, mut line) = (stream, String::new());
    let body = format!("{{\"at\": \"{address}\"}}");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    while input.read_line(&mut line)? > 0 {
        if line.trim().is_empty() {
            output.write_all(format!("{head}{body}").as_bytes())?;
        }
        line.clear();
    }
    Ok(())
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < NEVER, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_name_that_leads_elsewhere_is_followed_and_its_old_connections_are_closed() {
    let names = Names::new("moves");
    names.lead_to("127.0.0.2");
    let (port, before) = serve("127.0.0.2", 0);
    let (_, after) = serve("127.0.0.3", port);
    let server = names.start(&site("moves", port, "1s").folder);
    assert_eq!(get(&server, "/where"), (200, "127.0.0.2".to_owned()));
    names.lead_to("127.0.0.3");
    let line = server.said("has other addresses");
    let of = |field: &str| line["fields"][field].as_str().map(str::to_owned);
    assert_eq!(of("name").as_deref(), Some("moving.test"));
    assert_eq!(of("new"), Some(format!("127.0.0.3:{port}")));
    assert_eq!(of("gone"), Some(format!("127.0.0.2:{port}")));
    wait_until("it is asked there", || {
        let (status, at) = get(&server, "/where");
        assert_eq!(status, 200, "nothing is lost on the way");
        at == "127.0.0.3"
    });
    wait_until("the old connections are closed", || {
        before.load(Ordering::SeqCst) == 0
    });
    assert!(after.load(Ordering::SeqCst) > 0);
    // A name that is lost leads to where it led before.
    fs::remove_file(&names.file).expect("it is there");
    server.said("is not found any more");
    assert_eq!(get(&server, "/where"), (200, "127.0.0.3".to_owned()));
    names.lead_to("127.0.0.3");
    server.said("is found again");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn the_name_of_a_backend_that_cannot_be_reached_is_looked_up_at_once() {
    let names = Names::new("fails");
    let (port, _) = serve("127.0.0.3", 0);
    // Nobody is there.
    names.lead_to("127.0.0.4");
    let server = names.start(&site("fails", port, "0s").folder);
    until(&server, "/where", 503);
    names.lead_to("127.0.0.3");
    // Each worker tries again in its own time.
    wait_until("it is asked there", || {
        let (status, at) = get(&server, "/where");
        assert!(status != 200 || at == "127.0.0.3", "{at}");
        status == 200
    });
}
