//! A Redis of a test's own.

use super::super::NEVER;
use rhythm_etcd::testing::free_places;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The server's process; killed when dropped.
pub(crate) struct Keeper {
    folder: PathBuf,
    pub(crate) port: u16,
    flags: Vec<String>,
    password: Option<String>,
    child: Option<Child>,
}

impl Keeper {
    /// Makes one, with flags such as `--maxclients 5`, and starts it. What it has answered is on
    /// the disk.
    pub(crate) fn start(test: &str, flags: &[&str]) -> Keeper {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-keeper"));
        // What an earlier run has left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let port = free_places(1)[0].port();
        let flag = |name| flags.iter().skip_while(|flag| **flag != name).nth(1);
        let mut keeper = Keeper {
            folder,
            port,
            password: flag("--requirepass").map(ToString::to_string),
            flags: flags.iter().map(ToString::to_string).collect(),
            child: None,
        };
        keeper.start_again();
        keeper
    }

    /// The path of its socket: short, as the system wants it.
    fn socket(&self) -> PathBuf {
        std::env::temp_dir().join(format!("rhythm-redis-{}.sock", self.port))
    }

    /// Starts it again, after it was killed.
    pub(crate) fn start_again(&mut self) {
        self.kill();
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.arg("--unixsocket").arg(self.socket());
        command.arg("--dir").arg(&self.folder);
        command.args([
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
        ]);
        command.args(["--enable-debug-command", "yes"]);
        command.args(&self.flags);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("Redis is there"));
        let start = Instant::now();
        while self.ask(&["PING"]) != "PONG" {
            assert!(start.elapsed() < NEVER, "Redis does not start");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that has ended cannot be killed any more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn cli(&self, words: &[&str]) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string(), "--raw"]);
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        command.args(words).stderr(Stdio::null());
        command
    }

    /// What a command is answered, as `redis-cli` shows it.
    pub(crate) fn ask(&self, words: &[&str]) -> String {
        let output = self.cli(words).output().expect("redis-cli is there");
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// Has it do nothing for so many seconds.
    pub(crate) fn sleep(&self, seconds: &str) -> Sleeping {
        let mut command = self.cli(&["DEBUG", "SLEEP", seconds]);
        let child = command.stdout(Stdio::null()).spawn();
        Sleeping(child.expect("redis-cli is there"))
    }

    /// Where it is, at its port.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it is, at its socket.
    pub(crate) fn socket_url(&self) -> String {
        format!(
            "redis://{}",
            self.socket().to_string_lossy().replace('/', "%2F")
        )
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.socket());
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Who has a server sleep.
pub(crate) struct Sleeping(Child);

impl Drop for Sleeping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
