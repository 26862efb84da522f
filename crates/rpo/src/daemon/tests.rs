//! What becomes of records.

use super::*;
use crate::classifier::{ClassId, Classifier};
use crate::collector::What;
use crate::policy::{Fixed, Policy, Watching, Why};
use crate::switcher::{Dry, Restore};
use std::sync::Arc;

/// For what takes as long as the machine has it take.
const PATIENCE: Duration = Duration::from_secs(60);

fn feed() -> Feed {
    let policy = Box::new(Fixed::new(Setting::AllThreads));
    Feed::new(Classifier::default(), policy)
}

#[test]
fn what_strangers_ask_for_makes_no_classes() {
    let mut feed = feed();
    let mut take = |path: &str, status| {
        let took = Duration::from_millis(1);
        let completed = What::Completed { took, status };
        let took = Some(took);
        for what in [What::Arrived, completed, What::Whole { took, status }] {
            let (method, token) = ("GET", 7);
            let record = Record {
                method,
                path,
                what,
                token,
            };
            feed.take(&record, Duration::ZERO);
        }
        feed.classifier.table().count()
    };
    for (number, status) in (0..1000).zip([400, 404, 405, 503].into_iter().cycle()) {
        assert_eq!(take(&format!("/made-up-{number}"), status), 1);
    }
    assert_eq!(take("/item/7", 200), 2);
    assert_eq!(take("/item/8", 404), 2);
    assert_eq!(take("/cart", 303), 3);
    assert_ne!(feed.classifier.classify("GET", "/item/9"), ClassId::OTHER);
}

fn full() -> CpuSet {
    "0-1".parse().expect("CPUs")
}

/// Has the CPUs that it is given, but cannot say so while this is true.
struct Silent(CpuSet, Arc<AtomicBool>);

impl Switcher for Silent {
    fn name(&self) -> String {
        "silent".to_owned()
    }

    fn full(&self) -> &CpuSet {
        &self.0
    }

    fn set(&mut self, _: &CpuSet) -> Result<(), SwitchError> {
        Ok(())
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(SwitchError::Unfit("it says nothing".to_owned())),
            false => Ok(self.0.clone()),
        }
    }

    fn restores(&self) -> Vec<Restore> {
        Vec::new()
    }
}

/// A controller of such a server, which decides nothing by itself unless it is told to.
fn daemon(policy: impl Policy + Send + 'static, switcher: impl Switcher + 'static) -> Daemon {
    Daemon::start(parts(policy, switcher)).expect("it needs nothing")
}

fn parts(policy: impl Policy + Send + 'static, switcher: impl Switcher + 'static) -> Parts {
    Parts {
        switcher: Box::new(switcher),
        fewer: "0".parse().expect("a CPU"),
        choose: None,
        classifier: Classifier::default(),
        policy: Box::new(policy),
        rings: Vec::new(),
        datagrams: Vec::new(),
        counting: Vec::new(),
        hardware: None,
        only_watches: false,
        told: Status::default(),
        state: None,
        admin: None,
    }
}

fn to(setting: Setting) -> Option<Decision> {
    let why = Why::Fixed;
    Some(Decision { setting, why })
}

/// A server that would lose something by being switched.
struct Loses;

impl Switcher for Loses {
    fn name(&self) -> String {
        "loses".to_owned()
    }

    fn full(&self) -> &CpuSet {
        unreachable!("it is not switched")
    }

    fn check(&self) -> Result<(), SwitchError> {
        Err(SwitchError::Unfit("it would be lost".to_owned()))
    }

    fn set(&mut self, _: &CpuSet) -> Result<(), SwitchError> {
        unreachable!("it is not switched")
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        unreachable!("it is not switched")
    }

    fn restores(&self) -> Vec<Restore> {
        unreachable!("nothing is put back: that would lose it, too")
    }
}

#[test]
fn a_server_that_would_lose_something_is_left_as_it_is() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let state = State::take(&dir.path().join("state")).expect("nobody has it");
    let guardian = std::process::Command::new("true");
    let started = Daemon::start(Parts {
        state: Some((state, guardian)),
        ..parts(Watching::new(None), Loses)
    });
    let error = started.err().expect("it is refused").to_string();
    assert!(error.contains("it would be lost"), "{error}");
    assert!(!dir.path().join("state").exists());
}

#[test]
fn what_was_decided_in_trouble_is_dropped_with_it() {
    let is_silent = Arc::new(AtomicBool::new(true));
    let mut daemon = daemon(Watching::new(None), Silent(full(), is_silent.clone()));
    daemon.upkeep();
    assert!(daemon.trouble.is_some());
    daemon.feed.decision = to(Setting::OnePerCore);
    daemon.turn();
    assert_eq!(
        daemon.setting,
        Setting::AllThreads,
        "not while there is trouble"
    );
    daemon.upkeep();
    is_silent.store(false, Ordering::Relaxed);
    daemon.upkeep();
    assert_eq!(daemon.trouble, None);
    daemon.turn();
    assert_eq!(daemon.setting, Setting::AllThreads, "nor when it is over");
    daemon.feed.decision = to(Setting::OnePerCore);
    daemon.turn();
    assert_eq!(daemon.setting, Setting::OnePerCore);
}

#[test]
fn whoever_has_it_switched_to_and_fro_does_so_no_more_than_that() {
    let mut daemon = daemon(Watching::new(None), Dry::new(full()));
    let begin = Instant::now();
    // How long that takes is the machine's: the rest is longer where a switch was slow by chance.
    while daemon.account.switches[Setting::OnePerCore.index()] < 3 {
        assert!(begin.elapsed() < PATIENCE, "it is switched");
        daemon.feed.decision = to(daemon.setting.other());
        daemon.turn();
    }
    let [to_all, to_one] = daemon.account.switches;
    // The first is free, and then one each 50 ms; back it goes at once.
    let most = 1 + begin.elapsed().as_millis() as u64 / 50;
    assert!((3..=most).contains(&to_one), "{to_one} of {most}");
    assert!(to_all + 1 >= to_one, "{to_all} {to_one}");
}

#[test]
fn a_setting_is_as_old_as_the_switch_to_it_however_that_came() {
    let is_silent = Arc::new(AtomicBool::new(true));
    let policy = Fixed::new(Setting::OnePerCore);
    let mut daemon = daemon(policy, Silent(full(), is_silent));
    let pause = Duration::from_millis(20);
    let age = |daemon: &Daemon| {
        let now = daemon.begin.elapsed();
        let told = daemon.snapshot(now);
        (told.setting, now.saturating_sub(told.in_force))
    };
    std::thread::sleep(pause);
    let decision = daemon.feed.decision.take().expect("it wants another");
    daemon.obey(&decision, daemon.begin.elapsed());
    let (setting, switched) = age(&daemon);
    assert_eq!(setting, Some(Setting::OnePerCore));
    assert!(switched >= pause, "{switched:?}");
    std::thread::sleep(pause);
    // It cannot say what it has: it gets all again.
    daemon.upkeep();
    let (setting, failed) = age(&daemon);
    assert_eq!(setting, Some(Setting::AllThreads));
    assert!(failed >= switched + pause, "{failed:?}");
}

/// A server that can have fewer CPUs than it had, when one goes offline.
struct Unplugged {
    full: CpuSet,
    given: CpuSet,
    gone: Arc<AtomicBool>,
}

impl Switcher for Unplugged {
    fn name(&self) -> String {
        "unplugged".to_owned()
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        self.given = cpus.clone();
        Ok(())
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        Ok(self.possible(&self.given))
    }

    fn possible(&self, cpus: &CpuSet) -> CpuSet {
        let is_there = |&cpu: &usize| cpu != 0 || !self.gone.load(Ordering::Relaxed);
        cpus.iter().filter(is_there).collect()
    }

    fn restores(&self) -> Vec<Restore> {
        Vec::new()
    }
}

#[test]
fn a_core_whose_cpu_went_offline_runs_on_its_other_one() {
    let gone = Arc::new(AtomicBool::new(false));
    let full: CpuSet = "0-3".parse().expect("CPUs");
    let given = full.clone();
    let switcher = Unplugged {
        gone: gone.clone(),
        full,
        given,
    };
    let mut daemon = daemon(Fixed::new(Setting::OnePerCore), switcher);
    // Cores are 0 with 2, and 1 with 3.
    daemon.choose = Some(Box::new(|possible| {
        let first = if possible.contains(0) { 0 } else { 2 };
        Some([first, 1].into_iter().collect())
    }));
    daemon.fewer = "0-1".parse().expect("CPUs");
    let mut current = |gone_now| {
        gone.store(gone_now, Ordering::Relaxed);
        daemon.upkeep();
        daemon.turn();
        daemon.switcher.current().expect("it says").to_string()
    };
    assert_eq!(current(false), "0-1");
    assert_eq!(current(true), "1-2");
    assert_eq!(current(false), "0-1");
}
