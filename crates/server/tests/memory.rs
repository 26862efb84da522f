//! The most memory that a server's settings let it take, and a server that is driven to it.
//!
//! It is alone in its process, so that what the process takes is what the server takes.

mod common;

use common::*;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::host::HostExecutor;
use rhythm_protocol::scan::Level;
use rhythm_server::{
    FileContent, FileSource, Memory, Server, Site, SiteSettings, StaticFile, Statics,
};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

const SETTINGS: &str = r#"
[session]
sessions_max = 1000
[static]
mount = "/static/"
index = { "/" = "/hello" }
[cohort]
size = 64
contexts_max = 8
arena_bytes_max = 16777216
answer_bytes_max = 4194304
[limits]
connections_max = 500
body_bytes_max = 65536
response_bytes_max = 2097152
worker_bytes_max = 16777216
[backend.echo]
kind = "besim"
timeout = "20s"
"#;

/// A long file that is never kept in memory.
#[derive(Debug)]
struct Long;

impl FileSource for Long {
    fn read(&self, _: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(b'x');
        Ok(())
    }
}

/// The files of the tests, and the long one.
fn files() -> Vec<StaticFile> {
    let mut files = statics();
    files.push(StaticFile {
        path: "long".into(),
        content: FileContent::Streamed {
            length: 1 << 30,
            version: 1,
            volume: 1,
            source: Arc::new(Long),
        },
        modified: None,
    });
    files
}

/// Connections of each kind.
const CONNECTIONS: usize = 80;

/// Bytes of memory that this process has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    1024 * kilobytes.and_then(|n| n.parse::<usize>().ok()).expect("kB")
}

#[test]
fn the_most_memory_that_settings_allow_is_not_exceeded() {
    let service = service_of(PAGES, SETTINGS);
    let mut options = options_of(&service);
    options.connections_max = 500;
    let files = Statics::new(&service.config.statics.mount, files());
    let memory = Memory::of(&service, &options, &files);
    let held_max = service.config.limits.worker_bytes_max as usize;
    let limits = LaneLimits::of(&service.config.limits);
    let before = resident();
    let settings = SiteSettings::of(&service);
    let site = Site::new(Arc::new(service), files, settings).expect("a sound site");
    let mut parts = parts(Arc::new(site), Box::new(|| Err("no".into())));
    parts.log = Some(log_to(io::sink()));
    parts.devices = Arc::new(move |_, _| Ok(Box::new(HostExecutor::new(limits, Level::active()))));
    let server = Server::start(options, parts).expect("it starts");
    let metrics = server.metrics().worker(0);
    let mut reads = client(&server);
    let page = reads.get("/large").body;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let long = "x".repeat(15_000);
    let kinds = [
        // A head that does not end.
        format!("GET /hello HTTP/1.1\r\nHost: x\r\nLong: {long}"),
        // A body that does not end, as it is and in chunks.
        format!(
            "POST /hello HTTP/1.1\r\nHost: x\r\n{form}Content-Length: 65000\r\n\r\nname={long}"
        ),
        format!(
            "POST /hello HTTP/1.1\r\nHost: x\r\n{form}Transfer-Encoding: chunked\r\n\r\n\
             4000\r\nname={long}"
        ),
        // Requests that wait behind one that is never answered.
        get("/ask?q=never") + &get("/hello").repeat(1500),
        // Large pages that nobody reads.
        get("/large").repeat(64),
        // Long files, with as much to be logged of each.
        get(&format!("/static/long?{}", &long[..8000])).repeat(64),
    ];
    let mut clients = Vec::new();
    let mut most = 0;
    let mut most_held = 0;
    for kind in &kinds {
        for _ in 0..CONNECTIONS {
            let mut client = client(&server);
            // It may have been dropped by then.
            let _ = client.stream.write_all(kind.as_bytes());
            clients.push(client);
        }
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(100));
            most = most.max(resident());
            most_held = most_held.max(metrics.held_bytes.get() as usize);
        }
        assert!(reads.get("/large").body == page, "others are served");
    }
    let (sum, took) = (memory.sum(), most.saturating_sub(before));
    assert!(took <= sum, "{took} bytes were taken of {sum}: {memory:?}");
    assert!(
        most_held <= held_max,
        "{most_held} bytes were held of {held_max}"
    );
    // It was driven there, and not by little.
    assert!(most_held >= held_max / 4, "{most_held} bytes were held");
    eventually("somebody gives way", || metrics.gave_way.get() > 0);
    drop(clients);
    stop(server);
}
