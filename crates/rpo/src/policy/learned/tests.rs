//! The learned policy against a server that answers as fast as it is told to.

use super::*;
use crate::ClassId;

/// A server with so many requests in flight, each answered at the speed of its setting.
struct Server {
    policy: Learned,
    now: f64,
    setting: Setting,
    running: usize,
    utilization: f64,
    /// Answers a second of one request, by setting.
    rate: [f64; 2],
    due: f64,
    switches: Vec<(f64, Why)>,
    /// Requests are told of only when they are answered.
    tells_late: bool,
    /// One completion in so many is lost, if any is.
    loses: usize,
    /// The setting in which it refuses as many as it answers.
    refuses: Option<Setting>,
    answered: usize,
}

const STEP: f64 = 0.01;
const CLASS: ClassId = ClassId(1);

impl Server {
    fn new(settings: LearnedSettings, rate: [f64; 2]) -> Server {
        let mut server = Server {
            policy: Learned::new(settings),
            now: 0.0,
            setting: Setting::AllThreads,
            running: 2,
            utilization: 0.5,
            rate,
            due: 0.0,
            switches: Vec::new(),
            tells_late: false,
            loses: usize::MAX,
            refuses: None,
            answered: 0,
        };
        for _ in 0..server.running {
            server.tell(&Event::Arrived(CLASS));
        }
        server
    }

    fn tell(&mut self, event: &Event) {
        let now = Duration::from_secs_f64(self.now);
        if let Some(decision) = self.policy.on(event, now) {
            self.switches.push((self.now, decision.why));
            self.setting = decision.setting;
            self.now += 0.001;
            let event = Event::Switched {
                setting: decision.setting,
                took: Duration::from_millis(1),
            };
            let again = self.policy.on(&event, Duration::from_secs_f64(self.now));
            assert_eq!(again, None);
        }
    }

    fn run(&mut self, seconds: f64) {
        let until = self.now + seconds;
        while self.now < until {
            self.now += STEP;
            self.due += STEP * self.running as f64 * self.rate[self.setting.index()];
            while self.due >= 1.0 {
                self.due -= 1.0;
                let took = Duration::from_secs_f64(1.0 / self.rate[self.setting.index()]);
                if self.tells_late {
                    self.tell(&Event::Arrived(CLASS));
                }
                self.answered += 1;
                if !self.answered.is_multiple_of(self.loses) {
                    self.tell(&Event::Completed {
                        class: CLASS,
                        took,
                        ok: true,
                    });
                }
                if self.refuses == Some(self.setting) {
                    self.refuse();
                }
                if !self.tells_late {
                    self.tell(&Event::Arrived(CLASS));
                }
            }
            let load = Load {
                running: self.running as f64,
                cores: 4.0,
                utilization: self.utilization,
            };
            self.tell(&Event::Load(load));
        }
    }

    /// As many again are refused at once as are answered.
    fn refuse(&mut self) {
        self.tell(&Event::Arrived(CLASS));
        self.tell(&Event::Completed {
            class: CLASS,
            took: Duration::from_micros(10),
            ok: false,
        });
    }

    /// Share of the next seconds that it is in a setting.
    fn share(&mut self, setting: Setting, seconds: f64) -> f64 {
        let steps = (seconds / 0.1) as u32;
        let inside = (0..steps).filter(|_| {
            self.run(0.1);
            self.setting == setting
        });
        f64::from(inside.count() as u32) / f64::from(steps)
    }
}

#[test]
fn what_refuses_is_not_taken_for_fast() {
    for refuses in Setting::ALL {
        // The other one is better by a quarter, and refuses nothing.
        let mut rate = [80.0; 2];
        rate[refuses.other().index()] = 100.0;
        let mut server = Server::new(LearnedSettings::default(), rate);
        server.refuses = Some(refuses);
        server.run(120.0);
        let share = server.share(refuses.other(), 300.0);
        assert!(share > 0.9, "{refuses}: {share}");
    }
}

#[test]
fn what_is_better_is_found_and_kept() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    server.run(120.0);
    let share = server.share(Setting::OnePerCore, 600.0);
    assert!(
        share > 0.95,
        "{share} {} {:?}",
        server.policy.explain(),
        server.switches
    );
    let learning = server.policy.learning();
    assert!(
        learning.explorations >= 1 && learning.reverts == 0,
        "{learning:?}"
    );
    let mut server = Server::new(LearnedSettings::default(), [100.0, 80.0]);
    server.run(120.0);
    assert!(server.share(Setting::AllThreads, 600.0) > 0.95);
}

#[test]
fn where_nothing_is_to_be_gained_it_hardly_switches() {
    let mut server = Server::new(LearnedSettings::default(), [100.0, 100.0]);
    server.run(120.0);
    server.switches.clear();
    assert!(server.share(Setting::AllThreads, 1200.0) > 0.95);
    assert!(server.switches.len() < 24, "{:?}", server.switches);
}

#[test]
fn nothing_is_tried_above_the_bound_or_when_the_objective_is_missed() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    server.utilization = 0.95;
    server.run(600.0);
    assert_eq!(server.switches, []);
    let objective = Some(Duration::from_millis(10));
    let mut server = Server::new(
        LearnedSettings {
            objective,
            ..Default::default()
        },
        [80.0, 99.0],
    );
    server.run(600.0);
    assert_eq!(
        server.policy.learning().explorations,
        0,
        "requests take 12.5 ms"
    );
    let objective = Some(Duration::from_millis(20));
    let mut server = Server::new(
        LearnedSettings {
            objective,
            ..Default::default()
        },
        [80.0, 99.0],
    );
    server.run(600.0);
    assert!(server.policy.learning().explorations > 0);
}

#[test]
fn what_is_told_of_when_it_is_answered_is_learned_from() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    server.tells_late = true;
    server.run(120.0);
    let share = server.share(Setting::OnePerCore, 600.0);
    assert!(share > 0.95, "{share} {}", server.policy.explain());
    // What it believes of the load is about what there is: two requests, on four cores.
    let offered = server.policy.offered;
    assert!((0.5..4.0).contains(&offered), "{offered}");
}

#[test]
fn completions_that_are_lost_change_little() {
    for (loses, share_min, changes_max) in [(1000, 0.95, 1), (100, 0.8, 90)] {
        let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
        server.loses = loses;
        server.run(120.0);
        let share = server.share(Setting::OnePerCore, 1800.0);
        let learning = server.policy.learning();
        assert!(share > share_min, "{loses}: {share} {learning:?}");
        assert!(learning.changes <= changes_max, "{loses}: {learning:?}");
    }
}

#[test]
fn a_try_ends_at_once_when_many_run() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    while server.setting == Setting::AllThreads {
        server.run(STEP);
    }
    for _ in 2..20 {
        server.tell(&Event::Arrived(CLASS));
    }
    server.running = 20;
    server.run(0.2);
    assert_eq!(server.setting, Setting::AllThreads);
    assert!(matches!(
        server.switches.last(),
        Some((_, Why::Explored { .. }))
    ));
}

/// As of Vowpal Wabbit's simulator: the rewards are swapped.
#[test]
fn a_world_that_turns_round_is_followed() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    server.run(600.0);
    server.rate = [100.0, 80.0];
    server.run(300.0);
    assert!(
        server.policy.learning().changes >= 1,
        "{:?}",
        server.policy.learning()
    );
    assert!(server.share(Setting::AllThreads, 600.0) > 0.95);
    server.rate = [80.0, 100.0];
    server.run(300.0);
    assert!(server.share(Setting::OnePerCore, 600.0) > 0.95);
}

#[test]
fn a_decision_that_makes_it_worse_is_taken_back_within_seconds() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    // As if the tries had lied.
    while !matches!(server.switches.last(), Some((_, Why::Gain { .. }))) {
        if server.setting == Setting::OnePerCore {
            server.run(STEP);
            if server.policy.explorer.exploring() {
                continue;
            }
            // It stayed after a try: back by hand, so that the next switch is for a gain.
            server.policy.switching = None;
            server.setting = Setting::AllThreads;
            let took = Duration::from_millis(1);
            server.tell(&Event::Switched {
                setting: Setting::AllThreads,
                took,
            });
        }
        server.run(STEP);
        assert!(server.now < 600.0, "{}", server.policy.explain());
    }
    let at = server.now;
    server.rate[1] = 30.0;
    server.run(5.0);
    let (when, why) = server.switches.last().expect("it was taken back");
    assert!(matches!(why, Why::Reverted { .. }), "{why} {when} {at}");
    assert!(when - at < 3.0, "{} s", when - at);
    assert_eq!(server.policy.learning().reverts, 1);
    assert_eq!(server.setting, Setting::AllThreads);
    let share = server.share(Setting::AllThreads, 20.0);
    assert!(
        share > 0.99,
        "it is held for a while: {share} {:?}",
        server.switches
    );
}

#[test]
fn every_decision_says_why() {
    let mut server = Server::new(LearnedSettings::default(), [80.0, 100.0]);
    server.run(300.0);
    assert!(!server.switches.is_empty());
    for (_, why) in &server.switches {
        assert!(!why.to_string().is_empty());
    }
    assert!(
        server.policy.explain().contains("one a core"),
        "{}",
        server.policy.explain()
    );
    // What is tried now and then is worse.
    while server.setting == Setting::AllThreads {
        server.run(STEP);
    }
    let gain = server.policy.gain();
    assert!(gain > 0.1, "{gain}: {}", server.policy.explain());
}

#[test]
fn answers_that_took_no_time_speak_for_no_setting() {
    let mut rates = Rates::new();
    let (page, file) = (ClassId(1), ClassId(2));
    // All threads are long in force, one a core for a try, in which a page takes a fifth less.
    for (setting, took, count) in [
        (Setting::AllThreads, 0.010, 10_000),
        (Setting::OnePerCore, 0.008, 500),
    ] {
        rates.change(setting, 1.0, 4.0, 1.0);
        for _ in 0..count {
            rates.completed(page, took, 1.0);
            (0..20).for_each(|_| rates.completed(file, 0.0, 1.0));
        }
        rates.fit(1.0);
    }
    let [all, one] = Setting::ALL.map(|setting| rates.speed(setting, 1.0, 4.0));
    assert!((1.15..1.3).contains(&(one / all)), "{all} {one}");
    let weight = rates.weight(Setting::OnePerCore, 0.25);
    assert!((499.0..501.0).contains(&weight), "{weight}");
}

#[test]
fn of_a_class_whose_number_is_anothers_nothing_is_known() {
    let mut rates = Rates::new();
    let (page, file) = (ClassId(1), ClassId(2));
    let fit = |rates: &mut Rates, setting, took, count| {
        rates.change(setting, 1.0, 4.0, 1.0);
        for _ in 0..count {
            rates.completed(page, took, 1.0);
            rates.completed(file, 0.001, 1.0);
        }
        rates.fit(1.0);
    };
    fit(&mut rates, Setting::AllThreads, 0.010, 1000);
    rates.arrived(page, 1.0);
    rates.replace(page, 1.5);
    assert_eq!(rates.in_flight(), 0);
    // What has the number now takes ten times as long, in the other setting.
    fit(&mut rates, Setting::OnePerCore, 0.100, 1000);
    let [all, one] = Setting::ALL.map(|setting| rates.speed(setting, 1.0, 4.0));
    assert!((0.9..1.1).contains(&(one / all)), "{all} {one}");
}

#[test]
fn a_switch_to_one_a_core_that_it_did_not_decide_ends_as_a_try_does() {
    let mut server = Server::new(LearnedSettings::default(), [100.0, 100.0]);
    server.run(5.0);
    assert_eq!(server.switches, []);
    server.setting = Setting::OnePerCore;
    server.tell(&Event::Switched {
        setting: Setting::OnePerCore,
        took: Duration::from_millis(1),
    });
    server.run(3.0);
    assert_eq!(server.setting, Setting::AllThreads, "{:?}", server.switches);
}

#[test]
fn without_a_word_on_the_load_it_goes_by_what_is_in_flight() {
    let mut policy = Learned::new(LearnedSettings::default());
    policy.on(&Event::Arrived(CLASS), Duration::ZERO);
    let at = policy.wake_at().expect("it always wants to");
    policy.on(&Event::Woke, at);
    assert!(policy.running > 0.9, "{}", policy.running);
}
