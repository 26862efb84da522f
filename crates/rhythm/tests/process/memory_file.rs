//! `rhythm kv -e`: items that are there again after a restart, and never wrong ones. What a client
//! sees is compared with Debian's memcached, which needs to be there.

use super::server::NEVER;
use rhythm_etcd::testing::free_places;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server on a memory file of its own; killed when dropped.
struct Cache {
    is_memcached: bool,
    file: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Cache {
    fn new(name: &str, is_memcached: bool) -> Cache {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // What an earlier run left is no part of this one.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let port = free_places(1)[0].port();
        Cache {
            is_memcached,
            file: folder.join("items"),
            port,
            child: None,
        }
    }

    fn command(&self, flags: &[&str]) -> Command {
        self.command_on(&self.port.to_string(), flags)
    }

    fn command_on(&self, port: &str, flags: &[&str]) -> Command {
        let mut command = match self.is_memcached {
            false => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_rhythm"));
                command.arg("kv");
                command
            }
            true => Command::new("memcached"),
        };
        if self.is_memcached && geteuid().is_root() {
            command.args(["-u", "root"]);
        }
        command.args(["-l", "127.0.0.1", "-p", port, "-t", "2", "-A", "-e"]);
        command.arg(&self.file).args(flags);
        command
    }

    fn start(&mut self, flags: &[&str]) {
        let mut command = self.command(flags);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        self.child = Some(command.spawn().expect("it is there"));
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(start.elapsed() < NEVER, "it does not start");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// All that is answered to commands; the last of them is `mn`.
    fn ask(&self, commands: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it serves");
        stream.set_read_timeout(Some(NEVER)).expect("a duration");
        let all = format!("{commands}mn\r\nquit\r\n");
        stream.write_all(all.as_bytes()).expect("it reads");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("an answer");
        answers
    }

    /// Waits for its end; what it said.
    fn end(&mut self) -> String {
        let child = self.child.take().expect("it runs");
        let Output { stderr, .. } = child.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&stderr).into_owned()
    }

    /// Has it end by a command, which is not answered.
    fn shut_down(&mut self) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it serves");
        stream
            .write_all(b"shutdown graceful\r\n")
            .expect("it reads");
        self.end();
    }

    fn signal(&mut self, signal: Signal) -> String {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it is there");
        self.end()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended cannot be killed any more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const LONG: usize = 400_000;

fn fill(cache: &Cache) {
    let long = "l".repeat(LONG);
    let stored = cache.ask(&format!(
        "set a 5 0 3\r\nabc\r\nset soon 0 2 1\r\nx\r\nset b 0 1000 3\r\nold\r\n\
         set b 0 1000 3\r\nnew\r\nset gone 0 0 1\r\nx\r\ndelete gone\r\n\
         set n 0 0 1\r\n7\r\nincr n 1\r\n\
         ms s 2 T1000\r\nhi\r\nmd s I T500\r\nmg s v\r\nset long 1 0 {LONG}\r\n{long}\r\n"
    ));
    assert_eq!(stored.matches("STORED\r\n").count(), 7, "{stored:.200}");
    assert!(stored.contains("VA 2 X W\r\nhi\r\n"), "{stored:.300}");
}

/// What is asked of both, after the restart; not new CAS ids, of which memcached passes over one.
const ASKED: &str = "gets a b soon gone n\r\nmg a s v f c h\r\nmg s v c s\r\n\
                     mg long s f h\r\nget long\r\nset after 0 0 1\r\ny\r\nget after\r\n\
                     incr n 5\r\n";

#[test]
fn after_an_end_in_order_a_client_sees_what_memcached_shows() {
    let mut answers = Vec::new();
    for is_memcached in [true, false] {
        let mut cache = Cache::new(&format!("memory-file-{is_memcached}"), is_memcached);
        cache.start(&[]);
        fill(&cache);
        // Its clock is a second's, and so is the other's.
        thread::sleep(Duration::from_millis(1100));
        let said = cache.signal(Signal::USR1);
        thread::sleep(Duration::from_millis(2100));
        cache.start(&[]);
        let settings = cache.ask("stats settings\r\n");
        let told = format!("STAT memory_file {}\r\n", cache.file.display());
        assert!(settings.contains(&told), "{settings}");
        let stats = cache.ask("get soon\r\nstats\r\n");
        assert!(stats.contains("STAT curr_items 5\r\n"), "{stats}{said}");
        // What passed meanwhile counts.
        let left = cache.ask("mg s t\r\n");
        let left = left
            .strip_prefix("HD t")
            .and_then(|left| left.split(' ').next());
        let left = left.and_then(|left| left.trim_end().parse::<u32>().ok());
        assert!(
            left.is_some_and(|left| (400..=497).contains(&left)),
            "{left:?}"
        );
        answers.push(cache.ask(ASKED));
        // Once more, by command.
        cache.shut_down();
        // memcached finds nothing in the second in which it ended.
        thread::sleep(Duration::from_millis(2100));
        cache.start(&[]);
        answers.push(cache.ask("gets a b soon gone\r\nget n after\r\nmg long s f\r\n"));
    }
    let short = |answer: &String| answer.replace(&"l".repeat(LONG), "(long)");
    let answers: Vec<_> = answers.iter().map(short).collect();
    assert_eq!(answers[0], answers[2]);
    assert_eq!(answers[1], answers[3]);
    assert!(
        answers[0].contains("VALUE b 0 3 4\r\nnew\r\n"),
        "{:.300}",
        answers[0]
    );
}

#[test]
fn after_a_crash_or_with_other_options_it_begins_without_items_and_says_why() {
    let mut cache = Cache::new("memory-file-crash", false);
    cache.start(&[]);
    fill(&cache);
    // Memory is not ours alone to wait for: what is killed has said nothing of it.
    cache.signal(Signal::KILL);
    cache.start(&[]);
    assert_eq!(cache.ask("get a b long\r\n"), "END\r\nMN\r\n");
    fill(&cache);
    let said = cache.signal(Signal::TERM);
    assert!(said.contains("did not end in order"), "{said}");
    assert!(said.contains("the items are kept"), "{said}");
    // SIGTERM is an end in order.
    cache.start(&[]);
    assert!(cache.ask("get a\r\n").starts_with("VALUE a 5 3\r\nabc\r\n"));
    // Another server on the same file does not start, and leaves it alone.
    let other = cache.command_on("-1", &[]).output().expect("it starts");
    assert_eq!(other.status.code(), Some(1));
    let why = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        why.starts_with("rhythm: -e: another server has the memory"),
        "{why}"
    );
    cache.signal(Signal::INT);
    cache.start(&["-I", "2m"]);
    assert_eq!(cache.ask("get a\r\n"), "END\r\nMN\r\n");
    let said = cache.signal(Signal::USR1);
    assert!(
        said.contains("-I was 1048576, and is 2097152 now"),
        "{said}"
    );
    // A byte of it changes while nobody has it.
    cache.start(&["-I", "2m"]);
    fill(&cache);
    cache.signal(Signal::USR1);
    let mut bytes = fs::read(&cache.file).expect("it is there");
    let at = bytes.windows(3).position(|three| three == b"abc");
    bytes[at.expect("a value")] = b'z';
    fs::write(&cache.file, bytes).expect("it can be written");
    cache.start(&["-I", "2m"]);
    assert_eq!(cache.ask("get a b\r\n"), "END\r\nMN\r\n");
    let said = cache.signal(Signal::USR1);
    assert!(said.contains("it is damaged: its items"), "{said}");
}

#[test]
fn a_start_that_fails_leaves_the_items_to_the_next() {
    let mut cache = Cache::new("memory-file-fails", false);
    cache.start(&[]);
    fill(&cache);
    cache.signal(Signal::TERM);
    let nowhere = cache.file.with_file_name("none/pid");
    let nowhere = nowhere.to_str().expect("a path");
    let mut command = cache.command(&["-d", "-P", nowhere]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains(&format!("cannot write {nowhere}")), "{why}");
    cache.start(&[]);
    assert!(cache.ask("get a\r\n").starts_with("VALUE a 5 3\r\nabc\r\n"));
}

#[test]
fn what_is_no_memory_file_or_has_no_room_is_refused_in_a_sentence() {
    let cache = Cache::new("memory-file-refused", false);
    let said = |flags: &[&str]| {
        let output = cache.command(flags).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::write(&cache.file, "a letter").expect("it can be written");
    let why = said(&[]);
    assert!(why.contains("is no memory file of rhythm kv"), "{why}");
    let left = fs::read_to_string(&cache.file).expect("it is there");
    assert_eq!(left, "a letter");
    fs::remove_file(&cache.file).expect("it is there");
    // More than any disk has.
    let why = said(&["-m", "1000000000"]);
    assert!(
        why.contains("there is no room for 1048576000000000 bytes"),
        "{why}"
    );
    assert!(!cache.file.exists(), "what it made is gone");
    fs::create_dir(&cache.file).expect("it can be made");
    let why = said(&[]);
    assert!(why.contains("cannot use"), "{why}");
}
