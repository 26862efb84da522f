//! A PostgreSQL of a test's own.

use super::super::NEVER;
use rhythm_etcd::testing::free_places;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The user that owns the databases, and its password, which is to be encoded in no URL.
pub(crate) const USER: &str = "shop owner";
pub(crate) const PASSWORD: &str = "it's a % riddle: \u{e9}";

/// Whom it runs as where the test is root's, as whom it does not run.
const NOBODY: u32 = 65_534;

/// The server's process; killed when dropped.
pub(crate) struct Database {
    folder: PathBuf,
    pub(crate) port: u16,
    flags: Vec<String>,
    child: Option<Child>,
}

/// A program of PostgreSQL's, of the newest version that is installed.
fn program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    Command::new(found.pop().unwrap_or_else(|| name.into()))
}

/// The processes that a process has begun, and that are there.
fn children(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |process: fs::DirEntry| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        // Behind its name, which may have anything in it, stand its state and its parent.
        let (_, rest) = stat.rsplit_once(')')?;
        let of: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
        Pid::from_raw(pid).filter(|_| of == parent)
    };
    processes.filter_map(child).collect()
}

/// Has a command run as an ordinary user.
fn ordinary(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/")
}

impl Database {
    /// Makes one, with settings such as `max_connections=5`, and starts it.
    pub(crate) fn start(test: &str, settings: &[&str]) -> Database {
        // Not in the folder of the build: who runs it may not read that.
        let name = format!("rhythm-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // What an earlier run has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        fs::write(folder.join("password"), PASSWORD).expect("a file can be written");
        if geteuid().is_root() {
            let own = |path: PathBuf| chown(path, Some(NOBODY), Some(NOBODY));
            own(folder.clone()).expect("root may");
            own(folder.join("password")).expect("root may");
        }
        let mut initdb = program("initdb");
        initdb.args([
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "--username",
            USER,
        ]);
        initdb.arg("--auth=scram-sha-256");
        initdb.arg("--pwfile").arg(folder.join("password"));
        initdb
            .arg("-D")
            .arg(folder.join("data"))
            .stdout(Stdio::null());
        let made = ordinary(&mut initdb).status().expect("PostgreSQL is there");
        assert!(made.success());
        let port = free_places(1)[0].port();
        let mut database = Database {
            folder,
            port,
            flags: settings.iter().map(ToString::to_string).collect(),
            child: None,
        };
        database.start_again();
        database
    }

    /// Starts it again, after it was killed.
    pub(crate) fn start_again(&mut self) {
        let start = Instant::now();
        loop {
            self.reap();
            let mut command = program("postgres");
            command.arg("-D").arg(self.folder.join("data"));
            command.arg("-k").arg(&self.folder);
            command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
            for flag in &self.flags {
                command.args(["-c", flag]);
            }
            // It dies with what is asked of it, not with the power.
            command.args(["-c", "fsync=off"]).stderr(Stdio::null());
            self.child = Some(ordinary(&mut command).spawn().expect("it is there"));
            // Its children outlive a killed server for a moment, and keep the next from starting.
            while self.is_running() {
                if self.ask("select 1").is_some() {
                    return;
                }
                assert!(start.elapsed() < NEVER, "PostgreSQL does not start");
                thread::sleep(Duration::from_millis(20));
            }
            assert!(start.elapsed() < NEVER, "PostgreSQL does not start");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_running(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills it, and all that it does.
    pub(crate) fn kill(&mut self) {
        self.reap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).expect("it runs");
        }
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            let others = children(child.id());
            // One that has ended cannot be killed any more.
            let _ = child.kill();
            let _ = child.wait();
            // They end by themselves, but for one that waits for a lock which another had: that one
            // would keep the next server from starting for ever.
            for other in others {
                let _ = kill_process(other, Signal::KILL);
            }
        }
    }

    fn psql(&self) -> Command {
        let mut psql = program("psql");
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", USER]);
        psql.args([
            "-d",
            "postgres",
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        psql.env("PGPASSWORD", PASSWORD);
        psql
    }

    /// What a statement answers; `None` where it fails.
    pub(crate) fn ask(&self, statement: &str) -> Option<String> {
        let mut psql = self.psql();
        let output = psql
            .args(["-c", statement])
            .output()
            .expect("psql is there");
        let text = String::from_utf8(output.stdout).expect("text");
        output.status.success().then(|| text.trim_end().to_owned())
    }

    /// Carries out a file of statements.
    pub(crate) fn carry_out(&self, statements: &str) {
        assert!(self.ask(statements).is_some(), "{statements}");
    }

    /// Has another program hold what this statement locks, until it is dropped.
    pub(crate) fn hold(&self, statement: &str) -> Held {
        let mut psql = self.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = psql.spawn().expect("psql is there");
        let mut input = child.stdin.take().expect("it is piped");
        writeln!(input, "begin; {statement}; select 'held';").expect("it reads");
        let output = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "held"));
        Held {
            child,
            _input: input,
        }
    }

    /// Where it is, at its port.
    pub(crate) fn url(&self) -> String {
        format!("postgres://shop%20owner@127.0.0.1:{}/postgres", self.port)
    }

    /// Where it is, at its socket.
    pub(crate) fn socket_url(&self) -> String {
        let folder = self.folder.to_string_lossy().replace('/', "%2F");
        format!("postgres://shop%20owner@{folder}:{}/postgres", self.port)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Its children are told, too.
        self.signal(Signal::QUIT);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Who holds something; killed when dropped, so that it is undone.
pub(crate) struct Held {
    child: Child,
    /// It would end with its input.
    _input: ChildStdin,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
