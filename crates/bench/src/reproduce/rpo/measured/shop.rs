//! The paper's server: TPC-W in PHP on Apache, with a database beside it, all below one process.

use super::super::super::children::{Folder, Process, free_port, tail};
use super::super::super::error::ReproduceError;
use super::super::super::postgres::program_path;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whom PostgreSQL runs as where root starts it, as whom it does not.
const NOBODY: u32 = 65_534;
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";
/// Whom Debian's Apache serves as.
const APACHE: &str = "www-data";
const USER: &str = "rhythm";
/// It serves by then, or never.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Connections to the database beside those of Apache's processes.
const MORE_CONNECTIONS: usize = 20;
/// Where Debian's Apache has its modules.
const MODULES: &str = "/usr/lib/apache2/modules";

/// What the shop is made of.
pub(super) struct Parts<'a> {
    /// This program, which populates it.
    pub(super) program: &'a Path,
    /// The repository.
    pub(super) root: &'a Path,
    /// Processes of each Apache.
    pub(super) processes: usize,
}

/// A running one.
pub(super) struct Shop {
    /// Ends before its folder goes.
    pub(super) process: Process,
    check: PathBuf,
    postgres_port: u16,
    told_port: u16,
    untold_port: u16,
    folder: Folder,
}

/// What is missing for it, and the package that has it.
pub(super) fn lacking() -> Option<String> {
    let starts = |program: PathBuf, flag: &str| {
        let mut look = Command::new(program);
        let look = look.arg(flag).stdout(Stdio::null()).stderr(Stdio::null());
        look.stdin(Stdio::null()).status().is_ok()
    };
    let parts = [
        (starts("apache2".into(), "-v"), "apache2"),
        (starts("apxs".into(), "-q"), "apache2-dev"),
        (starts("make".into(), "-v"), "make"),
        (php().is_some(), "libapache2-mod-php"),
        (has_driver(), "php-pgsql"),
        (starts(program_path("postgres"), "-V"), "postgresql"),
    ];
    let packages: Vec<&str> = (parts.iter())
        .filter(|(is_there, _)| !is_there)
        .map(|(_, package)| *package)
        .collect();
    (!packages.is_empty()).then(|| packages.join(" "))
}

/// Whether Apache's PHP has PostgreSQL's driver.
fn has_driver() -> bool {
    let versions = fs::read_dir("/etc/php").into_iter().flatten().flatten();
    let mut drivers =
        versions.map(|version| version.path().join("apache2/conf.d/20-pdo_pgsql.ini"));
    drivers.any(|driver| driver.exists())
}

fn failed(server: &str, said: impl ToString) -> ReproduceError {
    ReproduceError::Server {
        server: server.to_owned(),
        said: said.to_string(),
    }
}

/// Apache's module of PHP, of the newest version that is installed.
fn php() -> Option<PathBuf> {
    let files = fs::read_dir(MODULES).ok()?.flatten();
    let is_php = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libphp") && name.ends_with(".so"))
    };
    files.map(|file| file.path()).filter(is_php).max()
}

/// What a program printed that ended well.
fn done(server: &str, output: io::Result<Output>) -> Result<Vec<u8>, ReproduceError> {
    let output = output.map_err(|why| failed(server, why))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failed(
            server,
            tail(&String::from_utf8_lossy(&output.stderr)),
        )),
    }
}

impl Shop {
    /// Starts it and fills its database.
    pub(super) fn start(parts: &Parts<'_>) -> Result<Shop, ReproduceError> {
        if let Some(packages) = lacking() {
            return Err(ReproduceError::Lacking(packages));
        }
        // Else what is asked for in it says less.
        let bookstore = parts.root.join("crates/bench/peers/php-bookstore");
        fs::metadata(&bookstore).map_err(ReproduceError::file(&bookstore))?;
        let folder = Folder::new()?;
        let run = folder.path();
        // Those whom its servers run as have folders in it.
        let mode = Permissions::from_mode(0o755);
        fs::set_permissions(run, mode).map_err(ReproduceError::file(run))?;
        for (name, who) in [
            ("postgres", "nobody"),
            ("told/sessions", APACHE),
            ("untold/sessions", APACHE),
        ] {
            let path = run.join(name);
            fs::create_dir_all(&path).map_err(ReproduceError::file(&path))?;
            if geteuid().is_root() {
                let id = user(who).unwrap_or(NOBODY);
                chown(&path, Some(id), Some(id)).map_err(ReproduceError::file(&path))?;
            }
        }
        make_database(&run.join("postgres/data"))?;
        let module = run.join("module");
        let mut make = Command::new("make");
        make.arg("-C")
            .arg(parts.root.join("crates/rpo/modules/apache"));
        done(
            "make",
            make.arg(format!("OUT={}", module.display())).output(),
        )?;
        let free = || free_port().map_err(|why| failed("a server", why));
        let [postgres_port, told_port, untold_port] = [free()?, free()?, free()?];
        let path = run.join("log");
        let log = File::create(&path).map_err(ReproduceError::file(&path))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", include_str!("shop.sh")])
            .current_dir("/");
        command.env("RUN", run);
        command.env("AS", if geteuid().is_root() { AS_NOBODY } else { "" });
        command.env("POSTGRES", program_path("postgres"));
        let connections = 2 * parts.processes + MORE_CONNECTIONS;
        for (name, number) in [
            ("POSTGRES_PORT", usize::from(postgres_port)),
            ("TOLD_PORT", usize::from(told_port)),
            ("UNTOLD_PORT", usize::from(untold_port)),
            ("CONNECTIONS", connections),
            ("BOOKSTORE_PROCESSES", parts.processes),
        ] {
            command.env(name, number.to_string());
        }
        let php = php().unwrap_or_default();
        for (name, path) in [
            ("BOOKSTORE", bookstore),
            (
                "BOOKSTORE_STATIC",
                parts.root.join("services/bookstore/static"),
            ),
            ("BOOKSTORE_PHP", php),
            ("BOOKSTORE_RPO", module.join("mod_rpo.so")),
        ] {
            command.env(name, path);
        }
        let database = format!("host=127.0.0.1;port={postgres_port};dbname={USER};user={USER}");
        command.env("BOOKSTORE_DSN", format!("pgsql:{database}"));
        let errors = log.try_clone().map_err(ReproduceError::file(&path))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = Process::start_shell(&mut command);
        let shop = Shop {
            process: process.map_err(|why| failed("the shop", why))?,
            check: parts.root.join("services/bookstore/check.sql"),
            postgres_port,
            told_port,
            untold_port,
            folder,
        };
        shop.until("PostgreSQL", || {
            shop.tell("postgres", b"select 1")
                .map_err(|why| why.to_string())
        })?;
        shop.tell("postgres", format!("create database {USER}").as_bytes())?;
        let mut populate = Command::new(parts.program);
        populate.args(["bookstore", "populate", "--print"]);
        shop.tell(USER, &done("rhythm bookstore populate", populate.output())?)?;
        for port in [told_port, untold_port] {
            shop.until("Apache", || shows(port))?;
        }
        Ok(shop)
    }

    /// Waits until it serves.
    fn until(
        &self,
        what: &str,
        does: impl Fn() -> Result<(), String>,
    ) -> Result<(), ReproduceError> {
        let until = Instant::now() + PATIENCE;
        while let Err(why) = does() {
            if Instant::now() > until {
                let logs = ["log", "told/error.log"].map(|name| self.folder.path().join(name));
                let said = logs
                    .map(|log| tail(&String::from_utf8_lossy(&fs::read(log).unwrap_or_default())));
                return Err(failed(what, format!("{why}; {}", said.join("; "))));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Carries statements out, and gives what they say.
    fn tell(&self, database: &str, statements: &[u8]) -> Result<(), ReproduceError> {
        let path = self.folder.path().join("statements.sql");
        fs::write(&path, statements).map_err(ReproduceError::file(&path))?;
        self.psql(database, &path).map(drop)
    }

    fn psql(&self, database: &str, file: &Path) -> Result<Vec<u8>, ReproduceError> {
        let mut psql = Command::new(program_path("psql"));
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
        ]);
        psql.args([
            "-p",
            &self.postgres_port.to_string(),
            "-U",
            USER,
            "-d",
            database,
            "-f",
        ]);
        done("psql", psql.arg(file).stdin(Stdio::null()).output())
    }

    /// What must never be and is, by services/bookstore/check.sql.
    pub(super) fn wrong(&self) -> Result<Vec<String>, ReproduceError> {
        let told = self.psql(USER, &self.check)?;
        let told = String::from_utf8_lossy(&told);
        let wrong = told.lines().filter(|line| !line.ends_with("|0"));
        Ok(wrong.map(|line| line.replace('|', ": ")).collect())
    }

    /// Where it is asked: of the Apache that tells of requests, or of the one that does not.
    pub(super) fn url(&self, is_told: bool) -> String {
        let port = if is_told {
            self.told_port
        } else {
            self.untold_port
        };
        format!("http://127.0.0.1:{port}")
    }

    /// The ring that tells of requests.
    pub(super) fn ring(&self) -> PathBuf {
        self.folder.path().join("told/rpo.ring")
    }

    /// For files of those beside it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Shop {
    /// Its servers need a moment to end, Apache's most.
    fn drop(&mut self) {
        let since = Instant::now();
        if kill_process(Pid::from_child(&self.process.0), Signal::TERM).is_ok() {
            while !self.process.has_ended() && since.elapsed() < PATIENCE {
                thread::sleep(LOOK);
            }
        }
    }
}

fn make_database(data: &Path) -> Result<(), ReproduceError> {
    let mut initdb = Command::new(program_path("initdb"));
    initdb.args([
        "--no-sync",
        "--no-locale",
        "--encoding=UTF8",
        "--auth=trust",
    ]);
    initdb.args(["--username", USER, "-D"]).arg(data);
    if geteuid().is_root() {
        initdb.uid(NOBODY).gid(NOBODY);
    }
    done(
        "initdb",
        initdb.current_dir("/").stdin(Stdio::null()).output(),
    )
    .map(drop)
}

/// The number of a user.
fn user(name: &str) -> Option<u32> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut user| (user.next()? == name).then(|| user.nth(1)?.parse().ok())?)
}

/// Whether a home page comes from there.
fn shows(port: u16) -> Result<(), String> {
    let ask = || -> io::Result<String> {
        let mut to = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        to.set_read_timeout(Some(PATIENCE))?;
        to.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        to.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|why| why.to_string())?;
    match answer.contains("data-page=\"HOME\"") {
        true => Ok(()),
        false => Err(answer.lines().next().unwrap_or_default().to_owned()),
    }
}
