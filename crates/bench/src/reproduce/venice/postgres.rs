//! A PostgreSQL of one's own in a temporary folder, asked by psql: programs as they come.

use super::lab::Lab;
use super::redis::value;
use super::unmade::Unmade;
use crate::reproduce::children::Process;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Who does not serve by then never will; nor does one end later.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// As whom it runs where this is root's, as whom it does not.
const NOBODY: u32 = 65_534;
const NOBODY_TEXT: &str = "65534";
/// Debian's are not in the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// A server with a table of values by key, and who asks it; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Postgres {
    server: Process,
    /// Ends before the server, which waits for nobody then.
    _psql: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// A program of PostgreSQL's, of the newest version that is there.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let paths = versions.map(|version| version.path().join("bin").join(name));
    let newest = paths.filter(|path| path.exists()).max();
    newest.unwrap_or_else(|| name.into())
}

/// It as an ordinary user.
fn ordinary(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/").stdin(Stdio::null())
}

/// Who asks the server of a folder.
fn psql(folder: &Path) -> Command {
    let mut psql = Command::new(program("psql"));
    psql.args([
        "-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h",
    ]);
    psql.arg(folder).stdin(Stdio::null());
    psql
}

/// Whether there is one.
pub(super) fn is_there() -> Result<(), Unmade> {
    let look = |name: &str| {
        Command::new(program(name))
            .arg("--version")
            .output()
            .is_ok()
    };
    match ["initdb", "postgres", "psql"]
        .into_iter()
        .find(|name| !look(name))
    {
        None => Ok(()),
        Some(name) => Err(Unmade::Lacking(format!(
            "{name} cannot be started: install postgresql"
        ))),
    }
}

impl Postgres {
    /// Starts one whose table has the first value of so many keys.
    pub(super) fn start(lab: &Lab<'_>, keys: u32) -> Result<Postgres, Unmade> {
        let folder = lab.file("postgres");
        let data = folder.join("data");
        let of = |what: &'static str| Unmade::of(what);
        fs::create_dir(&folder).map_err(of("a folder for PostgreSQL"))?;
        if geteuid().is_root() {
            let owned = chown(&folder, Some(NOBODY), Some(NOBODY));
            owned.map_err(of("a folder for PostgreSQL"))?;
        }
        let mut initdb = Command::new(program("initdb"));
        initdb.args([
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
        ]);
        initdb.args(["--username", "postgres", "-D"]).arg(&data);
        let made = ordinary(&mut initdb).output().map_err(of("initdb"))?;
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(Unmade::Failed(format!("initdb: {why}")));
        }
        let mut command = match geteuid().is_root() {
            true => {
                // With its memory of System V's kind, which is the system's until it is removed:
                // a server that is killed does not.
                let mut command = Command::new("unshare");
                command.args([
                    "--ipc",
                    "--setgid",
                    NOBODY_TEXT,
                    "--setuid",
                    NOBODY_TEXT,
                    "--",
                ]);
                command.arg(program("postgres"));
                command
            }
            false => Command::new(program("postgres")),
        };
        command.arg("-D").arg(&data).arg("-k").arg(&folder);
        // Its files end with it.
        for setting in [
            "listen_addresses=",
            "fsync=off",
            "autovacuum=off",
            "max_wal_size=4GB",
        ] {
            command.args(["-c", setting]);
        }
        command.current_dir("/").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Process::start(&mut command).map_err(of("postgres"))?;
        let start = Instant::now();
        loop {
            let tried = psql(&folder).args(["-c", "select 1"]).output();
            let tried = tried.map_err(of("psql"))?;
            if tried.status.success() {
                break;
            }
            if start.elapsed() > PATIENCE {
                let why = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
                return Err(Unmade::Failed(format!("postgres does not serve: {why}")));
            }
            thread::sleep(LOOK);
        }
        let mut asked = Postgres::ask(&folder, server)?;
        asked.fill(keys).map_err(of("psql"))?;
        Ok(asked)
    }

    fn ask(folder: &Path, server: Process) -> Result<Postgres, Unmade> {
        let mut psql = psql(folder);
        psql.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut psql = Process::start(&mut psql).map_err(Unmade::of("psql"))?;
        let (input, output) = (psql.0.stdin.take(), psql.0.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(Unmade::Failed("psql has no input and output".to_owned()));
        };
        Ok(Postgres {
            server,
            _psql: psql,
            input,
            output: BufReader::new(output),
        })
    }

    fn fill(&mut self, keys: u32) -> io::Result<()> {
        let text =
            "create unlogged table entries (key int, value text);\ncopy entries from stdin;\n";
        self.input.write_all(text.as_bytes())?;
        for key in 0..keys {
            let mut line = format!("{key}\t").into_bytes();
            line.extend(value(key, 0));
            line.push(b'\n');
            self.input.write_all(&line)?;
        }
        let index = "\\.\nalter table entries add primary key (key);\nanalyze entries;\n\
                     prepare asked(int) as select value from entries where key = $1;\n";
        self.input.write_all(index.as_bytes())?;
        // It is done when it answers.
        self.get(0).map(|_| ())
    }

    /// The value of a key.
    pub(super) fn get(&mut self, key: u32) -> io::Result<Vec<u8>> {
        writeln!(self.input, "execute asked({key});")?;
        let mut line = Vec::new();
        self.output.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::Error::other("psql has ended"));
        }
        Ok(line)
    }
}

impl Drop for Postgres {
    /// In order, so that nothing of it is left in the system; what does not end is killed.
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.server.0);
        let start = Instant::now();
        // Fast: it closes the connections that there are.
        if kill_process(pid, Signal::INT).is_ok() {
            while matches!(self.server.0.try_wait(), Ok(None)) && start.elapsed() < PATIENCE {
                thread::sleep(LOOK);
            }
        }
    }
}
