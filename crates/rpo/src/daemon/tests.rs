//! What becomes of records.

use super::*;
use crate::classifier::{ClassId, Classifier};
use crate::collector::What;
use crate::policy::{Fixed, Policy, Watching, Why};
use crate::switcher::{Affinity, Dry, Followed, Pidfile, Restore, SwitchError};
use std::fs;
use std::process::{Child, Command};
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

#[test]
fn a_class_that_nobody_asks_for_gives_way_to_a_page_that_is() {
    let mut feed = feed();
    let ask = |feed: &mut Feed, path: &str| {
        let (took, status) = (Duration::from_millis(1), 200);
        let record = Record {
            method: "GET",
            path,
            what: What::Whole {
                took: Some(took),
                status,
            },
            token: 0,
        };
        feed.take(&record, Duration::ZERO);
        let classes = feed.classes();
        let answers = |(name, seen): &(String, [feed::Seen; 2])| (name.clone(), seen[0].answers);
        classes.iter().map(answers).collect::<Vec<_>>()
    };
    // A scanner, of a server that answers whatever is asked for.
    for number in 0..400 {
        let path = format!("/made-up-{number}");
        (0..2).for_each(|_| drop(ask(&mut feed, &path)));
    }
    let answers = |told: &[(String, u64)], name: &str| {
        let own = told.iter().find(|(known, _)| known == name);
        own.map(|(_, answers)| *answers)
    };
    let told = ask(&mut feed, "/item/1");
    assert_eq!(answers(&told, "GET /item"), None);
    let told = ask(&mut feed, "/made-up-0");
    assert_eq!(answers(&told, "GET /made-up-0"), Some(2));
    for _ in 0..200_000 {
        feed.classifier.classify("GET", "/made-up-1");
    }
    let told = ask(&mut feed, "/item/2");
    assert_eq!(answers(&told, "GET /item"), Some(0), "none of another's");
    let told = ask(&mut feed, "/item/3");
    assert_eq!(answers(&told, "GET /item"), Some(1));
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
        claim: None,
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
    let guardian = Command::new("true");
    let started = Daemon::start(Parts {
        state: Some((state, guardian)),
        ..parts(Watching::new(None), Loses)
    });
    let error = started.err().expect("it is refused").to_string();
    assert!(error.contains("it would be lost"), "{error}");
    assert!(!dir.path().join("state").exists());
}

#[test]
fn who_finds_no_guardian_leaves_nothing_to_put_back() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let state = State::take(&dir.path().join("state")).expect("nobody has it");
    let started = Daemon::start(Parts {
        state: Some((state, Command::new("/nowhere/guardian"))),
        ..parts(Watching::new(None), Dry::new(full()))
    });
    let error = started.err().expect("there is no such program").to_string();
    assert!(error.contains("the guardian"), "{error}");
    assert!(!dir.path().join("state").exists());
}

/// Has the CPUs that it is given, but who is new is not seen while this is true.
struct Unseen {
    full: CpuSet,
    given: CpuSet,
    is_unseen: Arc<AtomicBool>,
}

impl Switcher for Unseen {
    fn name(&self) -> String {
        "unseen".to_owned()
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

    fn follow(&mut self) -> Result<Followed, SwitchError> {
        match self.is_unseen.load(Ordering::Relaxed) {
            true => Err(SwitchError::Unfit("it has other CPUs".to_owned())),
            false => Ok(Followed::default()),
        }
    }

    fn restores(&self) -> Vec<Restore> {
        Vec::new()
    }
}

#[test]
fn a_server_that_cannot_be_followed_has_all_its_cpus_until_it_can() {
    let is_unseen = Arc::new(AtomicBool::new(true));
    let switcher = Unseen {
        full: full(),
        given: full(),
        is_unseen: is_unseen.clone(),
    };
    let mut daemon = daemon(Watching::new(None), switcher);
    for _ in 0..3 {
        daemon.upkeep();
        assert!(daemon.trouble.is_some(), "that it has them is not enough");
        daemon.feed.decision = to(Setting::OnePerCore);
        daemon.turn();
        assert_eq!(daemon.setting, Setting::AllThreads);
    }
    is_unseen.store(false, Ordering::Relaxed);
    daemon.upkeep();
    assert_eq!((&daemon.trouble, &daemon.failed), (&None, &None));
    daemon.feed.decision = to(Setting::OnePerCore);
    daemon.turn();
    assert_eq!(daemon.setting, Setting::OnePerCore);
    assert_eq!(daemon.account.switches, [0, 1]);
    is_unseen.store(true, Ordering::Relaxed);
    daemon.upkeep();
    assert_eq!(daemon.setting, Setting::AllThreads);
    assert_eq!(daemon.account.switches, [1, 1], "that is a switch, too");
}

/// A process that does nothing; killed when dropped.
struct Idle(Child);

impl Idle {
    fn start() -> Idle {
        let started = Command::new("sleep").arg("60").spawn();
        Idle(started.expect("a process"))
    }

    fn cpus(&self) -> CpuSet {
        let opened = Affinity::open(self.0.id()).expect("it runs");
        opened.full().clone()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_starts_again_is_confined_only_once_it_is_kept_what_it_had() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let [file, state] = ["pid", "state"].map(|name| dir.path().join(name));
    let (first, second) = (Idle::start(), Idle::start());
    fs::write(&file, first.0.id().to_string()).expect("a file");
    let switcher = Pidfile::open(&file).expect("it runs");
    let full = switcher.full().clone();
    let one: CpuSet = full.iter().take(1).collect();
    if one == full {
        eprintln!("not tried: one CPU");
        return;
    }
    let held = State::take(&state).expect("nobody has it");
    let mut daemon = Daemon::start(Parts {
        fewer: one.clone(),
        state: Some((held, Command::new("cat"))),
        ..parts(Fixed::new(Setting::OnePerCore), switcher)
    })
    .expect("it starts");
    let until_has_one = |daemon: &mut Daemon, server: &Idle| {
        let begin = Instant::now();
        while server.cpus() != one {
            assert!(begin.elapsed() < PATIENCE, "it is confined");
            daemon.turn();
        }
    };
    until_has_one(&mut daemon, &first);
    fs::write(&file, second.0.id().to_string()).expect("a file");
    // The file cannot be written: in the place of the next one is a folder.
    let next = dir.path().join("state.new");
    fs::create_dir(&next).expect("a folder");
    for _ in 0..2 {
        daemon.upkeep();
        assert!(daemon.trouble.is_some());
        daemon.turn();
        assert_eq!((first.cpus(), second.cpus()), (full.clone(), full.clone()));
    }
    fs::remove_dir(&next).expect("it is empty");
    until_has_one(&mut daemon, &second);
    let kept = fs::read_to_string(&state).expect("a file");
    assert!(kept.contains(&format!("{}:", second.0.id())), "{kept}");
    daemon.end().expect("it is put back");
    assert_eq!(second.cpus(), full);
}

#[test]
fn a_server_that_starts_again_as_another_controllers_is_not_touched() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let [file, state] = ["pid", "state"].map(|name| dir.path().join(name));
    let (first, second) = (Idle::start(), Idle::start());
    fs::write(&file, first.0.id().to_string()).expect("a file");
    let switcher = Pidfile::open(&file).expect("it runs");
    let full = switcher.full().clone();
    let one: CpuSet = full.iter().take(1).collect();
    if one == full {
        eprintln!("not tried: one CPU");
        return;
    }
    let held = State::take(&state).expect("nobody has it");
    let is_anothers = Arc::new(AtomicBool::new(true));
    let refuses = is_anothers.clone();
    let mut daemon = Daemon::start(Parts {
        fewer: one.clone(),
        state: Some((held, Command::new("cat"))),
        claim: Some(Box::new(move || match refuses.load(Ordering::Relaxed) {
            true => Err("another controller switches it".into()),
            false => Ok(()),
        })),
        ..parts(Fixed::new(Setting::OnePerCore), switcher)
    })
    .expect("it starts");
    // That other controller has it at one CPU.
    let mut other = Affinity::open(second.0.id()).expect("it runs");
    other.follow().expect("/proc");
    other.set(&one).expect("this user's own");
    daemon.switcher.set(&one).expect("it runs");
    fs::write(&file, second.0.id().to_string()).expect("a file");
    daemon.upkeep();
    let trouble = daemon.trouble.clone().unwrap_or_default();
    assert!(trouble.contains("another controller"), "{trouble}");
    for _ in 0..2 {
        assert_eq!((first.cpus(), second.cpus()), (full.clone(), one.clone()));
        daemon.upkeep();
        assert!(daemon.trouble.is_some());
    }
    // It has ended.
    other.set(&full).expect("this user's own");
    is_anothers.store(false, Ordering::Relaxed);
    daemon.upkeep();
    let kept = fs::read_to_string(&state).expect("a file");
    assert!(kept.contains(&format!("{}:", second.0.id())), "{kept}");
    daemon.end().expect("it is put back");
    assert_eq!(second.cpus(), full);
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
