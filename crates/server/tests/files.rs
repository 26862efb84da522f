//! Files that are read while they are sent, over real sockets: the same answers as from memory,
//! the client's pace, and sources that hang, change or fail.

mod common;

use common::*;
use rhythm_engine::settings::AccessLogFormat;
use rhythm_server::{
    FileContent, FileSource, Handle, LogOpener, Server, ServerOptions, Site, SiteSettings,
    StaticFile, Statics,
};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What a test has sources do.
#[derive(Debug, Default)]
struct Fate {
    /// They wait until it is over.
    hangs: Mutex<bool>,
    freed: Condvar,
    /// From this byte on they fail, if it is not 0.
    fails_from: AtomicU64,
    /// Bytes that were read.
    read: AtomicU64,
    /// Times that a file's first bytes were.
    begun: AtomicU64,
    /// Whether any was asked to read.
    asked: AtomicBool,
}

impl Fate {
    fn hang(&self, hangs: bool) {
        *self.hangs.lock().expect("no panic") = hangs;
        self.freed.notify_all();
    }
}

/// A file in memory that behaves like one on a disk.
#[derive(Debug)]
struct Source {
    bytes: Vec<u8>,
    fate: Arc<Fate>,
}

impl FileSource for Source {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.fate.asked.store(true, Ordering::Release);
        let hangs = self.fate.hangs.lock().expect("no panic");
        drop(self.fate.freed.wait_while(hangs, |hangs| *hangs));
        let end = at + into.len() as u64;
        let fails_from = self.fate.fails_from.load(Ordering::Acquire);
        if fails_from > 0 && end > fails_from {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if at == 0 {
            self.fate.begun.fetch_add(1, Ordering::AcqRel);
        }
        into.copy_from_slice(&self.bytes[at as usize..end as usize]);
        self.fate
            .read
            .fetch_add(into.len() as u64, Ordering::AcqRel);
        Ok(())
    }
}

/// A source of this file on this volume.
fn streamed(file: StaticFile, volume: u64, fate: &Arc<Fate>) -> StaticFile {
    let FileContent::Kept(bytes) = file.content else {
        panic!("it is kept");
    };
    StaticFile {
        content: FileContent::Streamed {
            length: bytes.len() as u64,
            version: 7,
            volume,
            source: Arc::new(Source {
                bytes,
                fate: fate.clone(),
            }),
        },
        ..file
    }
}

/// A server of these files, whose pieces are waited for so long.
fn serve(
    files: Vec<StaticFile>,
    patience: Duration,
    change: impl FnOnce(&mut ServerOptions),
    log: Option<LogOpener>,
) -> Handle {
    let wait = |settings: &mut SiteSettings| settings.read_timeout = patience;
    serve_with(files, wait, change, log)
}

/// A server of these files, with these settings.
fn serve_with(
    files: Vec<StaticFile>,
    set: impl FnOnce(&mut SiteSettings),
    change: impl FnOnce(&mut ServerOptions),
    log: Option<LogOpener>,
) -> Handle {
    let service = service_of(PAGES, SERVICE);
    let mut options = options_of(&service);
    change(&mut options);
    let mut settings = SiteSettings::of(&service);
    set(&mut settings);
    let statics = Statics::new(&service.config.statics.mount, files);
    let site = Arc::new(Site::new(Arc::new(service), statics, settings).expect("a sound site"));
    let again = site.clone();
    let mut parts = parts(site, Box::new(move || Ok(again.clone())));
    parts.log = log;
    Server::start(options, parts).expect("it starts")
}

/// Long enough to mean never.
const NEVER: Duration = Duration::from_secs(60);
/// Short, where something is to take too long.
const SOON: Duration = Duration::from_secs(1);

/// All files of the tests, as streams of one volume.
fn all_streamed(fate: &Arc<Fate>) -> Vec<StaticFile> {
    let files = statics().into_iter();
    files.map(|file| streamed(file, 1, fate)).collect()
}

#[test]
fn answers_are_those_of_files_in_memory() {
    let fate = Arc::default();
    let kept = serve(statics(), NEVER, |_| {}, None);
    let streaming = serve(all_streamed(&fate), NEVER, |_| {}, None);
    let mut clients = [client(&kept), client(&streaming)];
    for (line, headers) in [
        ("GET /static/a.css", ""),
        ("GET /static/big.bin", ""),
        ("HEAD /static/big.bin", ""),
        ("GET /static/big.bin", "Range: bytes=1000000-2999999\r\n"),
        ("GET /static/big.bin", "Range: bytes=-1\r\n"),
        ("GET /static/big.bin", "Range: bytes=0-1,3-4\r\n"),
        ("GET /static/big.bin", "Range: bytes=3000000-\r\n"),
        ("HEAD /static/big.bin", "Range: bytes=5-9\r\n"),
        (
            "GET /static/big.bin",
            "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
        ),
        ("GET /static/big.bin", "If-Match: \"other\"\r\n"),
        ("GET /static/big.bin", "Connection: keep-alive\r\n"),
        ("GET /file?name=img/b.png", ""),
        ("GET /file?name=big.bin", "Range: bytes=7-900000\r\n"),
        ("HEAD /file?name=big.bin", ""),
        ("GET /file?name=none", ""),
        ("GET /static/a.css", "Connection: close\r\n"),
    ] {
        let answers = clients
            .each_mut()
            .map(|client| client.with(line, headers, ""));
        let [kept, streamed] = &answers;
        assert_eq!(kept.status, streamed.status, "{line} {headers}");
        assert!(kept.body == streamed.body, "{line} {headers}");
        // The fields come in another order.
        let fields = |response: &Response| {
            let told = |line: &&str| !line.starts_with("ETag:") && !line.starts_with("Date:");
            let mut lines: Vec<String> = response
                .head
                .lines()
                .filter(told)
                .map(str::to_owned)
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(fields(kept), fields(streamed), "{line} {headers}");
    }
    assert!(clients.iter_mut().all(Client::closed));
    assert!(fate.read.load(Ordering::Acquire) > 6_000_000);
    let etag = client(&streaming).get("/static/big.bin");
    let condition = format!("If-None-Match: {}\r\n", etag.header("etag").expect("a tag"));
    let again = client(&streaming).with("GET /static/big.bin", &condition, "");
    assert_eq!(again.status, 304);
    stop(kept);
    stop(streaming);
}

#[test]
fn how_long_files_may_be_kept_is_said_with_all_of_them_and_of_nothing_else() {
    let kept_for = |settings: &mut SiteSettings| settings.cache_control = "max-age=60".into();
    for files in [statics(), all_streamed(&Arc::default())] {
        let server = serve_with(files, kept_for, |_| {}, None);
        let mut client = client(&server);
        let whole = client.get("/static/a.css");
        let condition = format!(
            "If-None-Match: {}\r\n",
            whole.header("etag").expect("a tag")
        );
        let part = client.with("GET /static/a.css", "Range: bytes=0-1\r\n", "");
        let unchanged = client.with("GET /static/a.css", &condition, "");
        for (response, status) in [(whole, 200), (part, 206), (unchanged, 304)] {
            assert_eq!(response.status, status);
            assert_eq!(
                response.header("cache-control"),
                Some("max-age=60"),
                "{status}"
            );
        }
        for path in ["/hello?name=a", "/static/none"] {
            assert_eq!(client.get(path).header("cache-control"), None, "{path}");
        }
        stop(server);
    }
}

#[test]
fn pipelined_answers_keep_their_order() {
    let fate = Arc::default();
    let server = serve(all_streamed(&fate), NEVER, |_| {}, None);
    let mut client = client(&server);
    let paths = [
        "/static/big.bin",
        "/hello?name=a",
        "/static/a.css",
        "/file?name=big.bin",
    ];
    let requests = paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client.send(requests.concat());
    for length in [3_000_000, 15, 21, 3_000_000] {
        assert_eq!(client.response(false).body.len(), length);
    }
    stop(server);
}

/// A file that no socket takes at once.
fn huge(fate: &Arc<Fate>) -> Vec<StaticFile> {
    let file = StaticFile {
        path: "huge".into(),
        content: vec![b'x'; 64 << 20].into(),
        modified: None,
    };
    vec![streamed(file, 1, fate)]
}

const GET_HUGE: &str = "GET /static/huge HTTP/1.1\r\nHost: x\r\n\r\n";

/// Waits until sockets are full, and what may wait for them, too. Bytes that were read until then.
fn at_rest(fate: &Fate) -> u64 {
    let mut before = 0;
    eventually("nothing more is read", || {
        let read = fate.read.load(Ordering::Acquire);
        let is_at_rest = read > 0 && read == before;
        if !is_at_rest {
            before = read;
            std::thread::sleep(Duration::from_millis(300));
        }
        is_at_rest
    });
    before
}

#[test]
fn no_more_is_read_than_the_client_takes() {
    let fate = Arc::<Fate>::default();
    let server = serve(huge(&fate), NEVER, |_| {}, None);
    let mut client = client(&server);
    client.send(GET_HUGE);
    let before = at_rest(&fate);
    assert!(
        (1..32 << 20).contains(&before),
        "{before} bytes were read ahead"
    );
    assert_eq!(client.response(false).body.len(), 64 << 20);
    stop(server);
}

#[test]
fn nothing_of_a_file_is_read_before_its_turn() {
    let fate = Arc::<Fate>::default();
    let log = Some(log_to(io::sink()));
    let server = serve(huge(&fate), NEVER, |_| {}, log);
    let mut client = client(&server);
    client.send(GET_HUGE.repeat(64));
    at_rest(&fate);
    assert_eq!(fate.begun.load(Ordering::Acquire), 1);
    let held = server.metrics().worker(0).held_bytes.get();
    // Two pieces of one, and the requests that wait.
    assert!(held < 600 << 10, "{held} bytes are held");
    for _ in 0..3 {
        assert_eq!(client.response(false).body.len(), 64 << 20);
    }
    stop(server);
}

#[test]
fn slow_clients_leave_room_for_others() {
    const HELD_MAX: usize = 1 << 20;
    let fate = Arc::<Fate>::default();
    let change = |options: &mut ServerOptions| options.pipeline.clients.held_max = HELD_MAX;
    let server = serve(huge(&fate), NEVER, change, None);
    let mut deaf: Vec<Client> = (0..40).map(|_| client(&server)).collect();
    for client in &mut deaf {
        client.send(GET_HUGE);
    }
    at_rest(&fate);
    let metrics = server.metrics().worker(0);
    // What is shown of it may be some milliseconds old.
    let held = || metrics.held_bytes.get() as usize;
    eventually("much is held", || held() >= HELD_MAX / 4);
    let held = held();
    assert_eq!(client(&server).get("/static/huge").body.len(), 64 << 20);
    assert_eq!(metrics.gave_way.get(), 0, "of {held} bytes");
    stop(server);
}

#[test]
fn a_volume_that_hangs_keeps_only_its_own_waiting() {
    let (stuck, well) = (Arc::<Fate>::default(), Arc::<Fate>::default());
    let [css, png, big] = statics().try_into().expect("three files");
    let files = vec![streamed(css, 1, &stuck), streamed(png, 2, &well), big];
    let server = serve(files, 4 * SOON, |_| {}, None);
    stuck.hang(true);
    let mut waiting: Vec<Client> = (0..40).map(|_| client(&server)).collect();
    for client in &mut waiting {
        client.send("GET /static/a.css HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    let mut other = client(&server);
    assert_eq!(other.get("/static/img/b.png").body.len(), 256);
    assert_eq!(other.get("/hello").status, 200);
    for client in &mut waiting {
        let refused = client.response(false);
        assert_eq!(refused.status, 503);
        assert!(refused.header("retry-after").is_some());
    }
    // The connections are kept, and what was given up does no harm when it comes.
    stuck.hang(false);
    let mut again = || waiting[0].get("/static/a.css").status == 200;
    assert!((0..10).any(|_| again()), "it is read again");
    assert_eq!(
        waiting[1].get("/static/a.css").text(),
        "body { color: black }"
    );
    stop(server);
}

#[test]
fn a_server_ends_while_a_volume_hangs() {
    let fate = Arc::<Fate>::default();
    let drain = |options: &mut ServerOptions| options.drain.timeout = SOON;
    let server = serve(all_streamed(&fate), NEVER, drain, None);
    fate.hang(true);
    let mut client = client(&server);
    client.send("GET /static/big.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the file is asked for", || {
        fate.asked.load(Ordering::Acquire)
    });
    stop(server);
    fate.hang(false);
}

#[test]
fn a_file_that_changes_ends_the_connection_and_is_never_mixed() {
    let fate = Arc::<Fate>::default();
    let server = serve(all_streamed(&fate), NEVER, |_| {}, None);
    let fails_from = 1_500_000;
    fate.fails_from.store(fails_from, Ordering::Release);
    let mut cut = client(&server);
    cut.send("GET /static/big.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut bytes = Vec::new();
    // Reset, or an early end: what came is the beginning of the file all the same.
    let _ = cut.stream.read_to_end(&mut bytes);
    let head = bytes
        .windows(4)
        .position(|at| at == b"\r\n\r\n")
        .expect("a head")
        + 4;
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"));
    let body = &bytes[head..];
    assert!(body.len() as u64 <= fails_from);
    assert!((body.iter().enumerate()).all(|(at, byte)| *byte == (at % 251) as u8));
    // Before anything of it was sent there is a better answer.
    let late = client(&server).with("GET /static/big.bin", "Range: bytes=2000000-\r\n", "");
    assert_eq!(late.status, 503);
    fate.fails_from.store(0, Ordering::Release);
    assert_eq!(client(&server).get("/static/big.bin").body.len(), 3_000_000);
    stop(server);
}

/// A log that a test reads.
struct Lines(Sender<Vec<u8>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.0.send(bytes.to_vec()));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The statuses and bytes of all lines that were logged, until the server ended.
fn logged(lines: Receiver<Vec<u8>>) -> Vec<(u16, u64)> {
    let text = String::from_utf8(lines.iter().flatten().collect()).expect("text");
    let read = |line: &str| {
        let mut words = line.rsplit(' ');
        let bytes = words.next().expect("bytes");
        let status = words.next().expect("a status");
        let bytes = match bytes {
            "-" => 0,
            bytes => bytes.parse().expect("a number"),
        };
        (status.parse().expect("a number"), bytes)
    };
    text.lines().map(read).collect()
}

#[test]
fn the_access_log_tells_the_bytes_of_bodies_that_were_sent() {
    let fate = Arc::<Fate>::default();
    let (sender, lines) = channel();
    let format = |options: &mut ServerOptions| options.log_format = AccessLogFormat::Common;
    let log = Some(log_to(Lines(sender)));
    let server = serve(all_streamed(&fate), NEVER, format, log);
    let mut client = client(&server);
    let mut expected = Vec::new();
    for (line, headers) in [
        ("GET /static/a.css", ""),
        ("HEAD /static/a.css", ""),
        ("GET /static/big.bin", "Range: bytes=5-1000004\r\n"),
        ("GET /static/big.bin", "Range: bytes=9000000-\r\n"),
        (
            "GET /static/a.css",
            "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n",
        ),
        ("GET /file?name=big.bin", ""),
        ("GET /hello", ""),
        ("HEAD /hello", ""),
        ("GET /nothing", ""),
        ("HEAD /nothing", ""),
        ("POST /static/a.css", ""),
        ("GET /number/7", ""),
        ("GET /number/x", ""),
        ("GET /", ""),
    ] {
        let answer = client.with(line, headers, "");
        expected.push((answer.status, answer.body.len() as u64));
    }
    // One that is cut off counts what was sent of it.
    fate.fails_from.store(1_000_000, Ordering::Release);
    client.send("GET /static/big.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut bytes = Vec::new();
    let _ = client.stream.read_to_end(&mut bytes);
    stop(server);
    let mut found = logged(lines);
    let (status, sent) = found.pop().expect("a line");
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(
        status == 200 && (1..=1_000_000).contains(&sent),
        "{status} {sent}"
    );
}

#[test]
fn an_answer_that_ends_a_while_after_it_was_asked_for_is_logged_soon() {
    let fate = Arc::<Fate>::default();
    let format = |options: &mut ServerOptions| options.log_format = AccessLogFormat::Common;
    let log = Written::default();
    let mut files = all_streamed(&fate);
    files.extend(huge(&fate));
    let server = serve(files, NEVER, format, Some(log_to(log.clone())));
    let mut client = client(&server);
    let metrics = server.metrics().worker(0);
    // The end of the one is told by the thread of files, that of the other by the client's socket.
    for (path, length) in [("a.css", 21), ("huge", 64 << 20)] {
        // What was set going before is over.
        std::thread::sleep(Duration::from_millis(500));
        let answer = client.get(&format!("/static/{path}"));
        assert_eq!(answer.body.len(), length);
        let line = format!("GET /static/{path} HTTP/1.1\" 200 {length}\n");
        eventually("its line is written", || log.text().contains(&line));
        eventually("nothing is held", || metrics.held_bytes.get() == 0);
    }
    stop(server);
}

#[test]
fn a_client_that_leaves_takes_its_file_with_it() {
    let fate = Arc::<Fate>::default();
    let server = serve(all_streamed(&fate), NEVER, |_| {}, None);
    for _ in 0..20 {
        let mut leaving = client(&server);
        leaving.send("GET /static/big.bin HTTP/1.1\r\nHost: x\r\n\r\n");
        let _ = leaving.stream.read(&mut [0; 100]);
    }
    let is_open = |line: &str| line.contains("connections{worker") && !line.ends_with(" 0.0");
    eventually("their connections end", || {
        let text = server.metrics().encode().expect("text");
        !text.lines().any(is_open)
    });
    assert_eq!(client(&server).get("/static/big.bin").body.len(), 3_000_000);
    stop(server);
}
