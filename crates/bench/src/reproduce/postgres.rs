//! A PostgreSQL of one's own in a temporary folder, with nothing kept, and statements for it by
//! psql: programs as they come.
//!
//! It is asked without a password: by its Unix socket, by whoever gets into its folder, which is
//! nobody else, and by TCP, where it listens at all, by any user of this machine, as long as it is
//! there. It has what is measured, and nothing else.

use super::{Folder, Process, output, tail};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whom it runs as where root starts it, as whom it does not run.
const NOBODY: u32 = 65_534;
/// It serves by then, or never.
const PATIENCE: Duration = Duration::from_secs(60);
/// A statement is over by then, the fill of a large database among them.
const FILL_PATIENCE: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_millis(50);
/// Its user, who may do anything.
const USER: &str = "rhythm";
/// The number in its socket's name where it does not listen by TCP.
const NO_PORT: u16 = 5432;
pub(crate) const INSTALL: &str = "Debian: apt-get install postgresql";
/// Debian's are not in the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// One that serves; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Postgres {
    /// Ends before its folder goes.
    pub(crate) process: Process,
    port: u16,
    folder: Folder,
}

/// The folder of the newest of these versions, which are numbers with dots.
fn newest(versions: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let numbers = |path: &PathBuf| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?;
        name.split('.').map(|part| part.parse().ok()).collect()
    };
    versions.max_by_key(numbers)
}

/// Where a program of PostgreSQL's is: of the newest version that is installed, or in the path.
pub(super) fn program_path(name: &str) -> PathBuf {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path());
    let of = |folder: &PathBuf| folder.join("bin").join(name);
    let newest = newest(folders.filter(|folder| of(folder).exists()));
    newest.map_or_else(|| name.into(), |folder| of(&folder))
}

fn program(name: &str) -> Command {
    let mut command = Command::new(program_path(name));
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Has a command run as who may.
fn ordinary(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Gives a file or folder to who it runs as.
fn give(path: &Path) -> io::Result<()> {
    match geteuid().is_root() {
        true => chown(path, Some(NOBODY), Some(NOBODY)),
        false => Ok(()),
    }
}

/// Which one would be started here; none where it is not installed.
pub(crate) fn version() -> Option<String> {
    let is_there = |name| program(name).arg("--version").output().is_ok();
    if !["initdb", "psql"].into_iter().all(is_there) {
        return None;
    }
    let told = program("postgres").arg("--version").output().ok()?;
    let told = String::from_utf8_lossy(&told.stdout);
    let told = told.trim().trim_start_matches("postgres (PostgreSQL) ");
    Some(told.to_owned())
}

impl Postgres {
    /// Makes and starts one, with these settings (`name=value`); with a port, it listens at that
    /// of the loopback device. It runs where this thread does.
    ///
    /// # Errors
    /// What it says.
    pub(crate) fn start(port: Option<u16>, settings: &[&str]) -> Result<Postgres, String> {
        let told = |error: io::Error| error.to_string();
        let folder = Folder::new().map_err(|why| why.to_string())?;
        let [data, log] = ["data", "log"].map(|name| folder.path().join(name));
        give(folder.path()).map_err(told)?;
        let mut initdb = program("initdb");
        initdb.args(["--no-sync", "--no-locale", "--encoding=UTF8"]);
        initdb
            .args(["--auth=trust", "--username", USER, "-D"])
            .arg(&data);
        let made = output(ordinary(&mut initdb), PATIENCE);
        let made = made.map_err(|why| format!("initdb: {why} ({INSTALL})"))?;
        if !made.status.success() {
            let said = tail(&String::from_utf8_lossy(&made.stderr));
            return Err(format!("initdb: {said}"));
        }
        let mut command = program("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        let address = if port.is_some() { "127.0.0.1" } else { "" };
        let port = port.unwrap_or(NO_PORT);
        command.args(["-h", address, "-p", &port.to_string()]);
        // What is measured is asked, not kept.
        for setting in ["fsync=off"].iter().chain(settings) {
            command.args(["-c", setting]);
        }
        let errors = File::create(&log).map_err(told)?;
        ordinary(&mut command).stdout(Stdio::null()).stderr(errors);
        // Gently, since the system keeps memory of its kind that is killed.
        let process = Process::start_gently(&mut command).map_err(told)?;
        let mut server = Postgres {
            process,
            port,
            folder,
        };
        server.wait(&log)?;
        Ok(server)
    }

    /// Waits until it serves.
    fn wait(&mut self, log: &Path) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while let Err(why) = self.tell("postgres", b"select 1") {
            let said = || tail(&fs::read_to_string(log).unwrap_or_default());
            if self.process.has_ended() {
                return Err(format!("it ended as it started: {}", said()));
            }
            if Instant::now() > until {
                return Err(format!("it does not serve: {why}; {}", said()));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Its database of this name, by TCP.
    pub(crate) fn url(&self, database: &str) -> String {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        format!("postgres://{USER}@{address}/{database}")
    }

    /// psql for a database. A statement that fails is the end of it.
    pub(crate) fn psql(&self, database: &str) -> Command {
        let mut psql = program("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        psql.args(["-p", &self.port.to_string(), "-U", USER, "-d", database]);
        psql.arg("-h").arg(self.folder.path());
        psql
    }

    /// Has it do these statements.
    ///
    /// # Errors
    /// What it says.
    pub(crate) fn tell(&self, database: &str, statements: &[u8]) -> Result<(), String> {
        let told = |error: io::Error| error.to_string();
        // A file, so that neither waits for the other.
        let folder = Folder::new().map_err(|why| why.to_string())?;
        let path = folder.path().join("statements.sql");
        fs::write(&path, statements).map_err(told)?;
        let mut psql = self.psql(database);
        psql.stdin(File::open(&path).map_err(told)?);
        let done = output(&mut psql, FILL_PATIENCE);
        let done = done.map_err(|why| format!("psql: {why} ({INSTALL})"))?;
        match done.status.success() {
            true => Ok(()),
            false => Err(tail(&String::from_utf8_lossy(&done.stderr))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_newest_version_is_the_largest_number() {
        let of = |names: &[&str]| newest(names.iter().map(|name| PathBuf::from(DEBIAN).join(name)));
        let told = |folder: Option<PathBuf>| folder.map(|folder| folder.display().to_string());
        for (names, expected) in [
            (&["9.6", "15", "9.4"][..], "15"),
            (&["9.4", "9.6", "x"], "9.6"),
            (&["17", "9", "16"], "17"),
        ] {
            assert_eq!(told(of(names)), Some(format!("{DEBIAN}/{expected}")));
        }
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn nobody_else_gets_into_its_folder_and_it_tells_why_it_does_not_start() {
        if version().is_none() {
            eprintln!("no PostgreSQL is here");
            return;
        }
        let start = Instant::now();
        let error = Postgres::start(None, &["shared_buffers=nonsense"]).expect_err("no number");
        assert!(error.contains("shared_buffers"), "{error}");
        assert!(start.elapsed() < PATIENCE, "it has ended long before");
        let server = Postgres::start(None, &[]).unwrap_or_else(|error| panic!("{error}"));
        let folder = fs::metadata(server.folder.path()).expect("it is there");
        assert_eq!(folder.permissions().mode() & 0o777, 0o700);
        let error = server.tell("postgres", b"select 1;\nselect nothing;\nselect 2;\n");
        assert!(error.is_err_and(|why| why.contains("nothing")));
        assert!(server.url("a").starts_with("postgres://rhythm@"));
    }
}
