//! What `rhythm rpo` is told, by flags or by a file: the same names in both, and flags win.

use crate::exits::wrong;
use anyhow::{Context, Result, bail, ensure};
use rhythm_rpo::classifier::{Classifier, Friendly};
use rhythm_rpo::collector::Form;
use rhythm_rpo::cpus::CpuSet;
use rhythm_rpo::daemon;
use rhythm_rpo::policy::{Fixed, Learned, LearnedSettings, Majority, Policy, Watching};
use rhythm_rpo::setting::Setting;
use rhythm_rpo::switcher::{
    Affinity, Cgroup, Dry, Pidfile, Process, SmtControl, Switcher, Unit, unit_folder,
};
use rhythm_rpo::topology::{SYSFS, Topology};
use serde::Deserialize;
use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is asked where a unit's control group is.
const SYSTEMCTL: &str = "systemctl";

/// How it chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PolicyName {
    /// Learns what each setting does to which requests
    Learned,
    /// The paper's rule: the majority of a batch, by a table of classes
    Paper,
    /// All hardware threads, always
    AllThreads,
    /// One a core, always
    OnePerCore,
}

/// Flags, and keys of the file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct Options {
    /// Read what is not said by flags from this file; see docs/rpo.md
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(super) config: Option<PathBuf>,

    /// The server: a unit of systemd, such as apache2.service
    #[arg(long, value_name = "NAME", group = "server")]
    unit: Option<String>,

    /// The server: a control group, by its folder
    #[arg(long, value_name = "DIR", group = "server")]
    cgroup: Option<PathBuf>,

    /// The server: a process, with all that descend from it
    #[arg(long, value_name = "PID", group = "server")]
    pid: Option<u32>,

    /// The server: the process whose number is in this file, which is read again as it starts again
    #[arg(long, value_name = "FILE", group = "server")]
    pidfile: Option<PathBuf>,

    /// The whole machine, by /sys/devices/system/cpu/smt/control
    #[arg(long, group = "server")]
    smt_control: bool,

    /// Switch nothing; do all else
    #[arg(long)]
    dry_run: bool,

    /// All CPUs, by hand, such as 0-7 [default: those that the server has]
    #[arg(long, value_name = "LIST", requires = "fewer_cpus")]
    all_cpus: Option<String>,

    /// The CPUs in place of one thread a core, by hand [default: from the machine's topology]
    #[arg(long, value_name = "LIST")]
    fewer_cpus: Option<String>,

    /// Rings that the modules for Apache and nginx write
    #[arg(long, value_name = "FILE")]
    ring: Vec<PathBuf>,

    /// Listen there for datagrams of the documented protocol
    #[arg(long, value_name = "PATH")]
    datagrams: Vec<PathBuf>,

    /// Listen there for access logs by syslog (nginx, HAProxy)
    #[arg(long, value_name = "PATH")]
    access_log: Vec<PathBuf>,

    /// Permissions of these sockets, in octal [default: 660]
    #[arg(long, value_name = "MASK")]
    socket_mode: Option<String>,

    /// How it chooses [default: learned]
    #[arg(long, value_name = "NAME")]
    policy: Option<PolicyName>,

    /// Requests of a batch, of --policy paper [default: 20]
    #[arg(long, value_name = "NUM")]
    batch: Option<u32>,

    /// The latency objective, of --policy learned: nothing is tried while answers take longer than
    /// this in the mean, in milliseconds [default: none]
    #[arg(long, value_name = "MS")]
    objective: Option<NonZeroU32>,

    /// Classes are those of TPC-W, as in the paper's Table V
    #[arg(long)]
    tpcw: bool,

    // Classes: the tables of this name.
    #[arg(skip)]
    class: Vec<Class>,

    /// Where it keeps what has to be put back [default: rpo.state in $RUNTIME_DIRECTORY, or in
    /// /run/rhythm-rpo]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Tell status and figures over HTTP at this address (/healthz, /status, /metrics)
    /// [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) admin: Option<SocketAddr>,

    /// More names by which the admin listener may be asked, with commas between them
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) admin_hosts: Vec<String>,
}

/// A class of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Class {
    name: String,
    patterns: Vec<String>,
    friendly: Option<Friendly>,
}

impl Options {
    /// With what the file says where flags say nothing.
    pub(super) fn read(mut self) -> Result<Options> {
        let Some(path) = self.config.take() else {
            return Ok(self);
        };
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let file: Options = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
        Ok(self.over(file))
    }

    fn over(self, file: Options) -> Options {
        let list = |own: Vec<_>, file| if own.is_empty() { file } else { own };
        // A server that flags name takes the place of the file's, however that is named.
        let server = if self.names_server() { &self } else { &file }.clone();
        Options {
            config: None,
            unit: server.unit,
            cgroup: server.cgroup,
            pid: server.pid,
            pidfile: server.pidfile,
            smt_control: server.smt_control,
            dry_run: self.dry_run || file.dry_run,
            all_cpus: self.all_cpus.or(file.all_cpus),
            fewer_cpus: self.fewer_cpus.or(file.fewer_cpus),
            ring: list(self.ring, file.ring),
            datagrams: list(self.datagrams, file.datagrams),
            access_log: list(self.access_log, file.access_log),
            socket_mode: self.socket_mode.or(file.socket_mode),
            policy: self.policy.or(file.policy),
            batch: self.batch.or(file.batch),
            objective: self.objective.or(file.objective),
            tpcw: self.tpcw || file.tpcw,
            class: file.class,
            state: self.state.or(file.state),
            admin: self.admin.or(file.admin),
            admin_hosts: if self.admin_hosts.is_empty() {
                file.admin_hosts
            } else {
                self.admin_hosts
            },
        }
    }

    fn names_server(&self) -> bool {
        let by_name = self.unit.is_some() || self.cgroup.is_some();
        by_name || self.pid.is_some() || self.pidfile.is_some() || self.smt_control
    }

    /// What is switched, by names that any other controller of the same has for it, too.
    pub(super) fn server(&self) -> Result<Vec<String>> {
        let path = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let group = |folder: &Path| format!("cgroup {}", path(folder).display());
        let process = |process: Process| format!("process {}:{}", process.pid, process.start);
        let mut names = Vec::new();
        if let Some(unit) = &self.unit {
            names.push(group(&unit_folder(Path::new(SYSTEMCTL), unit)?));
        }
        names.extend(self.cgroup.as_deref().map(group));
        names.extend(self.pid.and_then(Process::of).map(process));
        if let Some(file) = &self.pidfile {
            // The process is another one when the server starts again, and this is the same.
            names.push(format!("pidfile {}", path(file).display()));
            names.extend(Pidfile::named(file).map(process));
        }
        if self.smt_control {
            names.push("smt/control".to_owned());
        }
        Ok(names)
    }

    /// Opens what is switched; nothing is changed by that.
    pub(super) fn switcher(&self, dry: bool) -> Result<Box<dyn Switcher>> {
        let named = [
            self.unit.is_some(),
            self.cgroup.is_some(),
            self.pid.is_some(),
            self.pidfile.is_some(),
            self.smt_control,
        ];
        ensure!(
            named.iter().filter(|&&is| is).count() <= 1,
            "the server is named in several ways: one of unit, cgroup, pid, pidfile, smt-control"
        );
        let systemctl = Path::new(SYSTEMCTL);
        let opened: Box<dyn Switcher> = if let Some(unit) = &self.unit {
            Box::new(Unit::open(systemctl, unit)?)
        } else if let Some(folder) = &self.cgroup {
            Box::new(Cgroup::open(folder)?)
        } else if let Some(pid) = self.pid {
            Box::new(Affinity::open(pid)?)
        } else if let Some(file) = &self.pidfile {
            Box::new(Pidfile::open(file)?)
        } else if self.smt_control {
            Box::new(SmtControl::open(Path::new(SYSFS))?)
        } else if dry {
            Box::new(Dry::new(Topology::read(Path::new(SYSFS))?.all_threads()))
        } else {
            bail!(wrong(
                "which server? name it by --unit, --cgroup, --pid or --pidfile"
            ));
        };
        if dry {
            return Ok(Box::new(Dry::new(opened.full().clone())));
        }
        Ok(opened)
    }

    /// One CPU a core of those that the server has; none, and why, where there is nothing to gain.
    pub(super) fn fewer(&self, full: &CpuSet) -> Result<Result<CpuSet, String>> {
        if let Some(list) = &self.all_cpus {
            let all: CpuSet = list.parse().context("--all-cpus")?;
            ensure!(
                all == *full,
                "--all-cpus {all}: the server has the CPUs {full}"
            );
        }
        if let Some(list) = &self.fewer_cpus {
            ensure!(
                !self.smt_control,
                wrong(format_args!(
                    "--fewer-cpus {list}: with --smt-control, which CPUs stay is the kernel's \
                     choice"
                ))
            );
            let fewer: CpuSet = list.parse().context("--fewer-cpus")?;
            ensure!(
                !fewer.is_empty() && fewer.is_subset(full) && fewer != *full,
                "--fewer-cpus {fewer}: the server has the CPUs {full}; name some of them, not all"
            );
            return Ok(Ok(fewer));
        }
        let topology = Topology::read(Path::new(SYSFS))?;
        Ok(match topology.nothing_to_choose(full) {
            Some(why) => Err(why),
            None => Ok(topology.one_per_core(full)),
        })
    }

    /// Whether these are named by hand.
    pub(super) fn names_fewer(&self) -> bool {
        self.fewer_cpus.is_some()
    }

    /// The sockets to listen at.
    pub(super) fn sockets(&self) -> Result<Vec<(PathBuf, u32, Form)>> {
        let mode = self.socket_mode.as_deref().unwrap_or("660");
        let mode = u32::from_str_radix(mode, 8)
            .ok()
            .filter(|&mode| mode <= 0o777);
        let mode = mode.context("--socket-mode: permissions in octal, such as 660")?;
        let lines = self
            .datagrams
            .iter()
            .map(|path| (path.clone(), mode, Form::Lines));
        let logs = self
            .access_log
            .iter()
            .map(|path| (path.clone(), mode, Form::AccessLog));
        Ok(lines.chain(logs).collect())
    }

    /// The rings to read.
    pub(super) fn rings(&self) -> &[PathBuf] {
        &self.ring
    }

    /// Sees that it is told of requests, and has what its policy needs, before anything is done.
    pub(super) fn check(&self, only_watches: bool) -> Result<()> {
        ensure!(
            !(self.ring.is_empty() && self.datagrams.is_empty() && self.access_log.is_empty()),
            wrong("who tells of requests? name --ring, --datagrams or --access-log")
        );
        self.policy(&self.classifier()?, only_watches).map(drop)
    }

    /// The classes.
    pub(super) fn classifier(&self) -> Result<Classifier> {
        if self.tpcw {
            ensure!(
                self.class.is_empty(),
                wrong("classes are those of TPC-W, or [[class]], not both")
            );
            return Ok(Classifier::tpcw());
        }
        if self.class.is_empty() {
            return Ok(Classifier::default());
        }
        let mut classifier = Classifier::closed();
        for class in &self.class {
            for pattern in &class.patterns {
                classifier.rule(pattern, &class.name, class.friendly)?;
            }
        }
        Ok(classifier)
    }

    /// How it chooses, with these classes; where nothing is switched, never by trying.
    pub(super) fn policy(
        &self,
        classifier: &Classifier,
        only_watches: bool,
    ) -> Result<Box<dyn Policy + Send>> {
        let knows = || {
            classifier
                .table()
                .classes()
                .any(|class| class.friendly.is_some())
        };
        let name = self.policy.unwrap_or(PolicyName::Learned);
        ensure!(
            self.objective.is_none() || name == PolicyName::Learned,
            wrong("--objective is of --policy learned: the others try nothing")
        );
        let rule: Box<dyn Policy + Send> = match name {
            PolicyName::Learned if only_watches => return Ok(Box::new(Watching::new(None))),
            PolicyName::Learned => Box::new(Learned::new(learning(self.objective))),
            PolicyName::Paper => {
                ensure!(
                    knows(),
                    wrong(
                        "--policy paper needs to know which classes are friendly to what: --tpcw, \
                         or [[class]] of --config; `rhythm rpo classify` makes them of two logs"
                    )
                );
                let batch = self.batch.unwrap_or(20);
                Box::new(Majority::with_batch(classifier.table(), batch))
            }
            PolicyName::AllThreads => Box::new(Fixed::new(Setting::AllThreads)),
            PolicyName::OnePerCore => Box::new(Fixed::new(Setting::OnePerCore)),
        };
        Ok(match only_watches {
            true => Box::new(Watching::new(Some(rule))),
            false => rule,
        })
    }

    /// Where what has to be put back is kept.
    pub(super) fn state(&self) -> Result<PathBuf> {
        if let Some(path) = &self.state {
            return Ok(path.clone());
        }
        let of_unit = std::env::var("RUNTIME_DIRECTORY").ok();
        // A unit with several has colons between them.
        let of_unit = of_unit.and_then(|all| all.split(':').next().map(PathBuf::from));
        let folder = of_unit.filter(|folder| folder.is_absolute());
        let folder = folder.or_else(daemon::shared_folder).context(
            "where shall what has to be put back be kept? name a file by --state, or set \
             XDG_RUNTIME_DIR",
        )?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder.join("rpo.state"))
    }

    /// Whether nothing is switched.
    pub(super) fn is_dry(&self) -> bool {
        self.dry_run
    }
}

/// How it is learned, with an objective in milliseconds if there is one.
pub(super) fn learning(objective: Option<NonZeroU32>) -> LearnedSettings {
    LearnedSettings {
        objective: objective.map(|millis| Duration::from_millis(millis.get().into())),
        ..LearnedSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file() {
        let file: Options = toml::from_str(
            "unit = 'apache2.service'\nring = ['/run/a', '/run/b']\npolicy = 'paper'\nbatch = 10\n\
             admin = '127.0.0.1:8090'\n[[class]]\nname = 'cart'\npatterns = ['POST /cart/**']\n\
             friendly = 'one-per-core'\n",
        )
        .expect("a file");
        let flags = Options {
            pid: Some(7),
            ring: vec!["/run/c".into()],
            batch: Some(5),
            ..Options::default()
        };
        let both = flags.over(file);
        assert_eq!(
            (both.pid, &both.unit, both.batch),
            (Some(7), &None, Some(5))
        );
        assert_eq!(both.rings(), [PathBuf::from("/run/c")]);
        assert_eq!(both.policy, Some(PolicyName::Paper));
        let classifier = both.classifier().expect("classes");
        assert_eq!(classifier.table().count(), 2);
        assert!(both.policy(&classifier, false).is_ok());
        assert!(Options::default().switcher(false).is_err());
        let twice: Options = toml::from_str("pid = 1\npidfile = '/run/x'").expect("a file");
        let error = twice.switcher(true).err().expect("which of the two?");
        assert!(error.to_string().contains("several ways"), "{error}");
        let unknown = toml::from_str::<Options>("units = 'x'").expect_err("no key");
        assert!(unknown.to_string().contains("units"));
    }

    #[test]
    fn an_objective_is_of_what_is_learned() {
        let text = |policy: &str| format!("policy = '{policy}'\nobjective = 250");
        let read = |policy: &str| toml::from_str::<Options>(&text(policy)).expect("a file");
        let classifier = Classifier::tpcw();
        let learned = read("learned");
        assert!(learned.policy(&classifier, false).is_ok());
        let objective = learning(learned.objective).objective;
        assert_eq!(objective, Some(Duration::from_millis(250)));
        let flags = Options {
            objective: NonZeroU32::new(80),
            ..Options::default()
        };
        assert_eq!(flags.over(learned).objective, NonZeroU32::new(80));
        let error = read("paper").policy(&classifier, false).err();
        let error = error.expect("it tries nothing").to_string();
        assert!(error.contains("--objective"), "{error}");
        assert!(toml::from_str::<Options>("objective = 0").is_err());
    }

    #[test]
    fn which_cpus_smt_control_leaves_is_not_said_by_hand() {
        let full: CpuSet = "0-3".parse().expect("a list");
        let both: Options =
            toml::from_str("smt-control = true\nfewer-cpus = '0,2'\n").expect("one");
        let error = both.fewer(&full).expect_err("it is refused").to_string();
        assert!(error.contains("the kernel's choice"), "{error}");
    }

    #[test]
    fn the_file_of_the_document_is_understood() {
        let document = include_str!("../../../../docs/rpo.md");
        let (_, file) = document
            .split_once("    # /etc/rhythm/rpo.toml")
            .expect("it is there");
        let lines = file.lines().skip(1);
        let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
        let file: Options = toml::from_str(&lines.collect::<Vec<_>>().join("\n")).expect("a file");
        assert_eq!(file.unit.as_deref(), Some("apache2.service"));
        let classifier = file.classifier().expect("classes");
        assert!(file.policy(&classifier, false).is_ok());
    }

    #[test]
    fn sets_by_hand_are_some_of_the_servers() {
        let full: CpuSet = "0-1".parse().expect("a list");
        let by_hand = |all: &str, fewer: &str| Options {
            all_cpus: Some(all.to_owned()),
            fewer_cpus: Some(fewer.to_owned()),
            ..Options::default()
        };
        let fewer = by_hand("0-1", "0")
            .fewer(&full)
            .expect("sound")
            .expect("a set");
        assert_eq!(fewer.to_string(), "0");
        for (all, fewer) in [
            ("0-3", "0"),
            ("0-1", "0-1"),
            ("0-1", ""),
            ("0-1", "2"),
            ("x", "0"),
        ] {
            assert!(by_hand(all, fewer).fewer(&full).is_err(), "{all} {fewer}");
        }
    }
}
