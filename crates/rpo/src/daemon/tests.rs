//! What becomes of records.

use super::*;
use crate::policy::Fixed;
use crate::switcher::Restore;

fn feed() -> Feed {
    let policy = Box::new(Fixed::new(Setting::AllThreads));
    Feed {
        classifier: Classifier::default(),
        controller: Controller::new(policy, Setting::AllThreads),
        under_way: InFlight::default(),
        answers: 0,
        decision: None,
    }
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

/// Has the CPUs that it is given, but cannot say so.
struct Silent(CpuSet);

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
        Err(SwitchError::Unfit("it says nothing".to_owned()))
    }

    fn restores(&self) -> Vec<Restore> {
        Vec::new()
    }
}

#[test]
fn a_setting_is_as_old_as_the_switch_to_it_however_that_came() {
    let parts = Parts {
        switcher: Box::new(Silent("0-1".parse().expect("CPUs"))),
        fewer: "0".parse().expect("a CPU"),
        classifier: Classifier::default(),
        policy: Box::new(Fixed::new(Setting::OnePerCore)),
        rings: Vec::new(),
        datagrams: Vec::new(),
        counting: Vec::new(),
        hardware: None,
        only_watches: false,
        state: None,
        admin: None,
    };
    let mut daemon = Daemon::start(parts).expect("it needs nothing");
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
