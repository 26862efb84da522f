//! `rhythm rpo` beside the shop, and what it tells of itself.

use super::super::super::children::{Process, free_port};
use super::super::super::error::ReproduceError;
use super::super::super::figures::metrics;
use super::cpus::Cpus;
use super::plan::Way;
use super::shop::Shop;
use crate::memcached::cpu;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// It tells of itself by then, or never; and it ends by then.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// A running one; the shop has all its CPUs again when it is dropped.
pub(super) struct Controller {
    process: Process,
    admin: SocketAddr,
    since: Instant,
}

/// What it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Did {
    /// Switches a minute.
    pub(super) switches_per_minute: f64,
    /// What one took on average, if there was one.
    pub(super) switch_ms: Option<f64>,
    /// The share of the time with fewer CPUs, in percent.
    pub(super) fewer_percent: f64,
    /// Of a CPU, in percent.
    pub(super) cpu_percent: f64,
    /// Records that it had no time to read.
    pub(super) lost: f64,
}

fn failed(said: impl ToString) -> ReproduceError {
    ReproduceError::Server {
        server: "rhythm rpo".to_owned(),
        said: said.to_string(),
    }
}

impl Controller {
    /// Starts one, on the CPUs of this thread.
    pub(super) fn start(
        program: &Path,
        shop: &Shop,
        cpus: &Cpus,
        way: Way,
    ) -> Result<Controller, ReproduceError> {
        let port = free_port().map_err(failed)?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let path = shop.file("controller.log");
        let log = File::create(&path).map_err(ReproduceError::file(&path))?;
        let mut command = Command::new(program);
        command.args(["rpo", "--pid", &shop.process.0.id().to_string()]);
        command.args(["--all-cpus", &cpus.all.to_string()]);
        command.args(["--fewer-cpus", &cpus.fewer.to_string()]);
        command.args(["--policy", way.policy(), "--tpcw"]);
        command
            .args(["--admin", &admin.to_string(), "--ring"])
            .arg(shop.ring());
        command.arg("--state").arg(shop.file("controller.state"));
        if let Some(batch) = way.batch() {
            command.args(["--batch", &batch.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut process = Process::start(&mut command).map_err(failed)?;
        let since = Instant::now();
        while metrics(admin).is_err() {
            if process.has_ended() || since.elapsed() > PATIENCE {
                let said = fs::read_to_string(&path).unwrap_or_default();
                return Err(failed(said.trim()));
            }
            thread::sleep(LOOK);
        }
        Ok(Controller {
            process,
            admin,
            since: Instant::now(),
        })
    }

    /// What it has done.
    pub(super) fn did(&self) -> Result<Did, ReproduceError> {
        let text = metrics(self.admin).map_err(failed)?;
        let time = cpu::time(self.process.0.id()).unwrap_or_default();
        Ok(did(&text, time, self.since.elapsed()))
    }
}

impl Drop for Controller {
    /// In order, so that the shop has its CPUs before another begins.
    fn drop(&mut self) {
        let since = Instant::now();
        if kill_process(Pid::from_child(&self.process.0), Signal::TERM).is_ok() {
            while !self.process.has_ended() && since.elapsed() < PATIENCE {
                thread::sleep(LOOK);
            }
        }
    }
}

/// What figures say after so much time.
fn did(text: &str, cpu: Duration, time: Duration) -> Did {
    let figure = |name: &str| -> f64 {
        let values = text.lines().filter_map(|line| {
            let (found, value) = line.strip_prefix("rhythm_rpo_")?.rsplit_once(' ')?;
            // Of one without labels they are not written, or written empty.
            (found.trim_end_matches("{}") == name).then(|| value.parse::<f64>().ok())?
        });
        values.sum()
    };
    let of = |name: &str, setting: &str| figure(&format!("{name}{{setting=\"{setting}\"}}"));
    let both = |name: &str| of(name, "all_threads") + of(name, "one_per_core");
    let (seconds, switches) = (time.as_secs_f64(), both("switches_total"));
    let in_settings = both("setting_seconds_total").max(f64::MIN_POSITIVE);
    let has_switched = switches > 0.0;
    Did {
        switches_per_minute: switches * 60.0 / seconds,
        switch_ms: has_switched.then(|| figure("switching_seconds_total") * 1e3 / switches),
        fewer_percent: of("setting_seconds_total", "one_per_core") * 100.0 / in_settings,
        cpu_percent: cpu.as_secs_f64() * 100.0 / seconds,
        lost: figure("records_lost_total"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let text = "HTTP/1.1 200 OK\r\n\r\n\
                    rhythm_rpo_switches_total{setting=\"all_threads\"} 3\n\
                    rhythm_rpo_switches_total{setting=\"one_per_core\"} 1\n\
                    rhythm_rpo_setting_seconds_total{setting=\"all_threads\"} 6.0\n\
                    rhythm_rpo_setting_seconds_total{setting=\"one_per_core\"} 2.0\n\
                    rhythm_rpo_switching_seconds_total 0.008\nrhythm_rpo_records_lost_total 5\n";
        let told = did(text, Duration::from_millis(100), Duration::from_secs(10));
        let due = Did {
            switches_per_minute: 24.0,
            switch_ms: Some(2.0),
            fewer_percent: 25.0,
            cpu_percent: 1.0,
            lost: 5.0,
        };
        assert_eq!(told, due);
        let none = did("", Duration::ZERO, Duration::from_secs(1));
        assert_eq!((none.switch_ms, none.fewer_percent), (None, 0.0));
    }
}
