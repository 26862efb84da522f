//! The PostgreSQL of a case: one of its own, with nothing kept, beside the servers.

use super::case::{Fill, Filled};
use super::error::CompareError;
use super::names::Names;
use super::servers::{free_port, tail};
use crate::reproduce::{Folder, Process, Processors};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whom it runs as where root starts it, as whom it does not run.
const NOBODY: u32 = 65_534;
/// It serves by then, or never.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
const USER: &str = "rhythm";
const INSTALL: &str = "Debian: apt-get install postgresql";

/// A running one.
pub(super) struct Database {
    /// Ends before its folder goes.
    pub(super) process: Process,
    port: u16,
    _folder: Folder,
}

/// A program of PostgreSQL's, of the newest version that is installed, or of the path.
fn program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let folders = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let version =
        |folder: &PathBuf| -> Option<u32> { folder.parent()?.file_name()?.to_str()?.parse().ok() };
    let newest = folders
        .filter(|folder| folder.join(name).exists())
        .max_by_key(version);
    Command::new(newest.map_or_else(|| name.into(), |folder| folder.join(name)))
}

/// Has a command run as who may.
fn ordinary(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/").stdin(Stdio::null())
}

fn failed(why: impl ToString) -> CompareError {
    CompareError::Database(why.to_string())
}

/// Which it is.
pub(super) fn version() -> Option<String> {
    let told = program("postgres").arg("--version").output().ok()?;
    let told = String::from_utf8_lossy(&told.stdout);
    Some(
        told.trim()
            .trim_start_matches("postgres (PostgreSQL) ")
            .to_owned(),
    )
}

impl Database {
    /// Makes one, starts it and fills it.
    pub(super) fn start(
        filled: &Filled,
        names: &Names,
        processors: &Processors,
    ) -> Result<Database, CompareError> {
        if version().is_none() {
            return Err(failed(format!("it is not here ({INSTALL})")));
        }
        let folder = Folder::new()?;
        let data = folder.path().join("data");
        if geteuid().is_root() {
            let path = folder.path();
            chown(path, Some(NOBODY), Some(NOBODY)).map_err(CompareError::file(path))?;
        }
        let mut initdb = program("initdb");
        initdb.args([
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
        ]);
        initdb.args(["--username", USER, "-D"]).arg(&data);
        let made = ordinary(&mut initdb).output().map_err(failed)?;
        if !made.status.success() {
            return Err(failed(tail(&String::from_utf8_lossy(&made.stderr))));
        }
        let port = free_port().map_err(failed)?;
        let path = folder.path().join("log");
        let log = File::create(&path).map_err(CompareError::file(&path))?;
        let mut command = program("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        // What is measured is asked, not kept.
        command.args(["-c", "shared_buffers=256MB", "-c", "fsync=off"]);
        ordinary(&mut command).stdout(Stdio::null()).stderr(log);
        processors.of_server(0);
        let started = Process::start_gently(&mut command);
        processors.of_load();
        let database = Database {
            process: started.map_err(failed)?,
            port,
            _folder: folder,
        };
        let until = Instant::now() + PATIENCE;
        while let Err(why) = database.tell("postgres", "select 1") {
            if Instant::now() > until {
                let log = fs::read_to_string(&path).unwrap_or_default();
                return Err(failed(format!("it does not serve: {why} {}", tail(&log))));
            }
            thread::sleep(LOOK);
        }
        database.fill(filled, names).map_err(failed)?;
        Ok(database)
    }

    fn fill(&self, filled: &Filled, names: &Names) -> Result<(), String> {
        self.tell("postgres", &format!("create database {USER}"))?;
        for fill in &filled.fill {
            let statements = match fill {
                Fill::File { file } => {
                    let path = names.put(file)?;
                    fs::read(&path).map_err(|why| format!("{path}: {why} (see --root)"))?
                }
                Fill::Command { command } => {
                    let words: Result<Vec<String>, String> =
                        command.iter().map(|word| names.put(word)).collect();
                    let words = words?;
                    let [program, arguments @ ..] = &words[..] else {
                        return Err("a command to fill it has a program".to_owned());
                    };
                    let output = Command::new(program).args(arguments).output();
                    let output = output.map_err(|why| format!("{program}: {why}"))?;
                    if !output.status.success() {
                        let said = String::from_utf8_lossy(&output.stderr);
                        return Err(format!("{}: {}", words.join(" "), tail(&said)));
                    }
                    output.stdout
                }
            };
            self.psql(USER, &statements)?;
        }
        self.tell(USER, "vacuum analyze")
    }

    /// Where its pages come from.
    pub(super) fn url(&self) -> String {
        format!("postgres://{USER}@{}/{USER}", self.address())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn tell(&self, database: &str, statement: &str) -> Result<(), String> {
        self.psql(database, statement.as_bytes())
    }

    fn psql(&self, database: &str, statements: &[u8]) -> Result<(), String> {
        // A file, so that neither waits for the other.
        let folder = Folder::new().map_err(|why| why.to_string())?;
        let path = folder.path().join("statements.sql");
        fs::write(&path, statements).map_err(|why| why.to_string())?;
        let input = File::open(&path).map_err(|why| why.to_string())?;
        let mut psql = program("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]);
        psql.args(["-p", &self.port.to_string(), "-U", USER, database]);
        let output = psql.stdin(input).output();
        let output = output.map_err(|why| format!("psql: {why} ({INSTALL})"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(tail(&String::from_utf8_lossy(&output.stderr))),
        }
    }
}
