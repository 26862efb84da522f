//! The loop that joins the parts: what collectors tell goes to the classifier and the policy, what
//! the policy decides goes to the switcher.
//!
//! ```text
//! at once     datagrams come                  ┐
//! 1 to 10 ms  look into rings, and counters   ├─▶ classifier ─▶ policy ─▶ switcher
//! 10 ms       how many tasks run              ┘
//! 100 ms      how busy the CPUs are; new threads after a switch
//! 1 s         is what the kernel has what it was given? new threads, rings, guardian; status
//! ```
//!
//! One thread does it all. What fails leads back to all CPUs, and is tried again each second. When
//! the loop ends, what was found is put back; when the process is killed, its guardian does that.

mod account;
mod chain;
mod feed;
mod guard;
mod hardware;
mod hold;
mod load;
mod lock;
mod pace;
mod panels;
mod parts;
mod rings;
mod state;
mod status;
mod telling;
#[cfg(test)]
mod tests;

pub use guard::guard;
pub use hardware::Hardware;
pub use load::sees_load;
pub use lock::{Lock, shared_folder};
pub use parts::{Choose, Claim, DaemonError, Parts};
pub use state::{PutBack, State, StateError};
pub use telling::Status;

use crate::collector::{Counters, Datagrams, Record};
use crate::cpus::CpuSet;
use crate::policy::{Decision, LOOK, Load};
use crate::setting::Setting;
use crate::switcher::Switcher;
use account::Account;
use chain::Chain;
use feed::Feed;
use guard::Guardian;
use load::Meter;
use pace::Pace;
use rhythm_observe::admin::{Admin, Names};
use rings::Rings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use status::Snapshot;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks into a ring in which something is written.
const RING_LOOK: Duration = Duration::from_millis(1);
/// Between two looks into one in which nothing was for a while.
const IDLE_LOOK: Duration = Duration::from_millis(10);
/// This while.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Between two looks at what servers count.
const COUNT: Duration = Duration::from_millis(10);
/// Between two looks at how busy the CPUs were, and after a switch at who is new.
const COUNT_CPUS: Duration = Duration::from_millis(100);
/// Between two looks at all that seldom changes.
const UPKEEP: Duration = Duration::from_secs(1);

/// Runs a controller until `is_ending`, and puts back what it found.
///
/// # Errors
/// When it cannot start, or what was found cannot be put back.
pub fn run(parts: Parts, is_ending: &AtomicBool) -> Result<String, DaemonError> {
    let mut daemon = Daemon::start(parts)?;
    while !is_ending.load(Ordering::Relaxed) {
        daemon.turn();
    }
    daemon.end()
}

struct Daemon {
    feed: Feed,
    switcher: Box<dyn Switcher>,
    fewer: CpuSet,
    choose: Option<Choose>,
    /// What the server could have at the last look.
    possible: CpuSet,
    setting: Setting,
    rings: Rings,
    counters: Vec<Counters>,
    next_count: Duration,
    hardware: Option<Hardware>,
    only_watches: bool,
    datagrams: Vec<Datagrams>,
    state: Option<State>,
    guardian: Option<Guardian>,
    claim: Option<Claim>,
    admin: Option<Admin>,
    told: Status,
    meter: Meter,
    load: Load,
    begin: Instant,
    last_record: Duration,
    last_turn: Duration,
    next_load: Duration,
    next_cpus: Duration,
    next_upkeep: Duration,
    /// It was switched since the last look at who is new.
    follow_due: bool,
    pace: Pace,
    /// Why the server has all its CPUs for now, whatever the policy says.
    trouble: Option<String>,
    /// Why the last switch that was tried failed, if it did.
    failed: Option<String>,
    /// The last look at who is new failed: what has to be put back may be more than is kept.
    is_lost: bool,
    account: Account,
    /// When the setting was set that is in force.
    since: Duration,
}

impl Daemon {
    fn start(parts: Parts) -> Result<Daemon, DaemonError> {
        let start = |what| move |source| DaemonError::Start { what, source };
        sees_load().map_err(start("the look at /proc/stat"))?;
        // Before there is anything to put back: that may lose the same as a switch.
        parts.switcher.check()?;
        let mut datagrams = Vec::new();
        for (path, mode, form) in &parts.datagrams {
            datagrams.push(Datagrams::bind(path, *mode, *form)?);
        }
        let told = parts.told;
        let admin = match parts.admin {
            Some((listener, names)) => {
                let names = Names {
                    names,
                    setting: "--admin-hosts",
                };
                let started = Admin::start(listener, names, told.clone());
                let failed = |error| io::Error::other(format!("{error:?}"));
                let started = started.map_err(failed);
                let started = started.map_err(start("the admin listener"))?;
                tracing::info!(admin = %started.address(), "it tells of itself");
                Some(started)
            }
            None => None,
        };
        let (mut state, mut guardian) = (None, None);
        if let Some((file, command)) = parts.state {
            guardian = Some(Guardian::start(command).map_err(start("the guardian"))?);
            // Before anything is changed: from here on whoever comes after knows what to put back.
            file.save(&parts.switcher.restores())?;
            state = Some(file);
        }
        let mut daemon = Daemon {
            feed: Feed::new(parts.classifier, parts.policy),
            possible: parts.switcher.possible(parts.switcher.full()),
            switcher: parts.switcher,
            fewer: parts.fewer,
            choose: parts.choose,
            setting: Setting::AllThreads,
            rings: Rings::new(parts.rings),
            counters: parts.counting.into_iter().map(Counters::new).collect(),
            next_count: Duration::ZERO,
            hardware: parts.hardware,
            only_watches: parts.only_watches,
            datagrams,
            state,
            guardian,
            claim: parts.claim,
            admin,
            told,
            meter: Meter::default(),
            load: Load {
                running: 0.0,
                cores: 0.0,
                utilization: 0.0,
            },
            begin: Instant::now(),
            last_record: Duration::ZERO,
            last_turn: Duration::ZERO,
            next_load: Duration::ZERO,
            next_cpus: Duration::ZERO,
            next_upkeep: Duration::ZERO,
            follow_due: false,
            pace: Pace::default(),
            trouble: None,
            failed: None,
            is_lost: false,
            account: Account::default(),
            since: Duration::ZERO,
        };
        if let Err(error) = daemon.make_ready() {
            // This is what it ends with, and what was changed on the way is put back.
            if let Err(error) = daemon.end() {
                tracing::error!("{:#}", Chain(&error));
            }
            return Err(error);
        }
        daemon.tell_policy(Duration::ZERO);
        Ok(daemon)
    }

    /// The last of what may fail, since it may change something.
    fn make_ready(&mut self) -> Result<(), DaemonError> {
        self.switcher.make_ready()?;
        if let Some(state) = &self.state {
            state.save(&self.switcher.restores())?;
        }
        Ok(())
    }

    /// Tells the policy what is in force.
    fn tell_policy(&mut self, took: Duration) {
        let setting = self.setting;
        let decision = self
            .feed
            .controller
            .switched(setting, took, self.begin.elapsed());
        self.feed.decide(decision);
    }

    fn turn(&mut self) {
        self.wait();
        let now = self.begin.elapsed();
        self.account.in_setting[self.setting.index()] += now.saturating_sub(self.last_turn);
        self.last_turn = now;
        let Daemon {
            feed,
            rings,
            datagrams,
            ..
        } = self;
        let mut given = 0;
        let mut take = |record: Record<'_>| {
            given += 1;
            feed.take(&record, now);
        };
        datagrams
            .iter_mut()
            .for_each(|socket| socket.look(&mut take));
        rings.look(now, &mut take);
        if given > 0 {
            self.last_record = now;
        }
        if now >= self.next_count {
            self.next_count = now + COUNT;
            let Daemon { feed, counters, .. } = self;
            for server in counters {
                server.look(|path, happened| feed.counted(path, happened, now));
            }
        }
        if now >= self.next_cpus {
            self.next_cpus = now + COUNT_CPUS;
            self.feed.under_way.forget(now);
            // To look takes milliseconds where there are many processes, so not at each switch.
            if std::mem::take(&mut self.follow_due) {
                let _ = self.follow();
            }
            self.meter.count(&self.measured().clone());
        }
        if now >= self.next_load {
            self.next_load = now + LOOK;
            let under_way = self.feed.under_way.count(now);
            let cpus = self.measured().clone();
            if let Some(load) = self.meter.look(&cpus, self.fewer.len(), under_way) {
                self.load = load;
                let decision = self.feed.controller.load(load, now);
                self.feed.decide(decision);
            }
        }
        if self.feed.controller.wake_at().is_some_and(|at| at <= now) {
            let decision = self.feed.controller.wake(now);
            self.feed.decide(decision);
        }
        // In trouble the server has all its CPUs, until upkeep finds that it can be switched.
        if self.trouble.is_none()
            && self.may_switch(now)
            && let Some(decision) = self.feed.decision.take()
        {
            self.obey(&decision, now);
        }
        if now >= self.next_upkeep {
            self.next_upkeep = now + UPKEEP;
            self.look_at_hardware(self.setting);
            self.upkeep();
            self.told.set(self.snapshot(now));
        }
    }

    /// Waits until there may be something to do.
    fn wait(&self) {
        let now = self.begin.elapsed();
        let mut until = self.next_load.min(self.next_cpus).min(self.next_upkeep);
        if let Some(at) = self.feed.controller.wake_at() {
            until = until.min(at);
        }
        if !self.counters.is_empty() {
            until = until.min(self.next_count);
        }
        if self.rings.are_read() {
            let is_idle = now.saturating_sub(self.last_record) > IDLE_AFTER;
            until = until.min(now + if is_idle { IDLE_LOOK } else { RING_LOOK });
        }
        if self.feed.decision.is_some() && self.trouble.is_none() {
            let at_once = self.may_switch(now);
            until = until.min(if at_once { now } else { self.pace.next() });
        }
        // A policy that wants to be woken at once shall not keep a CPU busy.
        let wait = until.saturating_sub(now).max(Duration::from_micros(100));
        let timeout = Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(1),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let handles = self.datagrams.iter().map(Datagrams::handle);
        let mut waited: Vec<PollFd<'_>> = handles
            .map(|handle| PollFd::from_borrowed_fd(handle, PollFlags::IN))
            .collect();
        // A signal has it return early, which does no harm.
        let _ = poll(&mut waited, Some(&timeout));
    }

    /// The CPUs of the setting in force.
    fn cpus(&self) -> &CpuSet {
        match self.setting {
            Setting::AllThreads => self.switcher.full(),
            Setting::OnePerCore => &self.fewer,
        }
    }

    /// The CPUs that the server runs on.
    fn measured(&self) -> &CpuSet {
        match self.only_watches {
            true => self.switcher.full(),
            false => self.cpus(),
        }
    }

    /// Whether the last decision may be obeyed: to all threads always, away not too often.
    fn may_switch(&self, now: Duration) -> bool {
        let decided = self.feed.decision.as_ref().map(|decision| decision.setting);
        let leaves_all = (self.setting, decided);
        leaves_all != (Setting::AllThreads, Some(Setting::OnePerCore)) || now >= self.pace.next()
    }

    fn obey(&mut self, decision: &Decision, now: Duration) {
        tracing::debug!("{decision}");
        let mut took = Duration::ZERO;
        // One that takes back another, which waited, changes nothing.
        if decision.setting != self.setting {
            self.account.decided(decision, now);
            let before = self.setting;
            self.setting = decision.setting;
            let cpus = self.cpus().clone();
            let begin = Instant::now();
            match self.switcher.set(&cpus) {
                Ok(()) => {
                    if self.failed.take().is_some() {
                        tracing::info!("the server can be switched again");
                    }
                    took = begin.elapsed();
                    self.has_switched(took);
                    self.is_in_force(before);
                    self.follow_due = true;
                }
                Err(error) => {
                    self.setting = before;
                    self.failed(&error);
                    return;
                }
            }
        }
        self.tell_policy(took);
    }

    /// Switching failed: the server gets all its CPUs, if that is possible.
    fn failed(&mut self, error: &dyn Error) {
        self.account.failures += 1;
        let why = format!("{:#}", Chain(error));
        if self.failed.as_ref() != Some(&why) {
            tracing::error!("{why}; the server is given all its CPUs, and it is tried again");
        }
        self.failed = Some(why.clone());
        self.trouble = Some(why);
        let full = self.switcher.full().clone();
        let before = std::mem::replace(&mut self.setting, Setting::AllThreads);
        let begin = Instant::now();
        // What it says is what was just said; upkeep gives them again where that failed.
        let given = self.switcher.set(&full);
        if before != self.setting {
            if given.is_ok() {
                self.has_switched(begin.elapsed());
            }
            self.is_in_force(before);
        }
        // What was decided before this is of another time; the policy decides anew.
        self.feed.decision = None;
        self.tell_policy(Duration::ZERO);
    }

    /// It was switched to this setting, which took so long.
    fn has_switched(&mut self, took: Duration) {
        self.account.switched(self.setting, took);
        self.pace.switched(self.begin.elapsed(), took);
    }

    /// A setting is in force after this one: what was measured is of that.
    fn is_in_force(&mut self, before: Setting) {
        self.since = self.begin.elapsed();
        self.meter.begin_anew(&self.measured().clone());
        self.look_at_hardware(before);
    }

    /// What the CPUs counted since the last look came of this setting.
    fn look_at_hardware(&mut self, setting: Setting) {
        if let Some(hardware) = &mut self.hardware {
            hardware.look(setting, self.feed.answers);
        }
    }

    /// Looks who is new; says whether that went well. Where it did not, the server has all its CPUs
    /// until it does.
    #[must_use]
    fn follow(&mut self) -> bool {
        match self.try_follow() {
            Ok(()) => {
                if std::mem::take(&mut self.is_lost) {
                    self.failed = None;
                    tracing::info!("who is new is seen again");
                }
                true
            }
            Err(error) => {
                self.is_lost = true;
                self.failed(&error);
                false
            }
        }
    }

    fn try_follow(&mut self) -> Result<(), DaemonError> {
        // Who is new may be another controller's, and is left as it is then.
        if (self.switcher.look()? || self.is_lost)
            && let Some(claim) = &mut self.claim
        {
            claim().map_err(DaemonError::Claim)?;
        }
        let followed = self.switcher.follow()?;
        if followed.was_changed {
            self.account.disagreements += 1;
            tracing::warn!("somebody changed threads' sets: they have their own again");
        }
        if (followed.is_other || self.is_lost)
            && let Some(state) = &self.state
        {
            state.save(&self.switcher.restores())?;
        }
        // Nobody is confined before the file says so.
        if followed.is_replaced {
            self.switcher.set(&self.cpus().clone())?;
        }
        Ok(())
    }

    /// Where CPUs went offline or came back, others may be one a core; what is in force is then put
    /// right by the look at what the kernel has.
    fn choose_again(&mut self) {
        let possible = self.switcher.possible(self.switcher.full());
        if possible == self.possible {
            return;
        }
        tracing::info!(before = %self.possible, now = %possible, "the server has other CPUs");
        let chosen = self.choose.as_ref().and_then(|choose| choose(&possible));
        self.possible = possible;
        if let Some(fewer) = chosen.filter(|fewer| *fewer != self.fewer) {
            tracing::info!(before = %self.fewer, now = %fewer, "others are one a core");
            self.fewer = fewer;
        }
    }

    /// What is done each second.
    fn upkeep(&mut self) {
        self.choose_again();
        if self.follow() {
            self.look_at_kernel();
        }
        match self.guardian.as_mut().map(Guardian::look) {
            Some(Ok(true)) => tracing::warn!("the guardian had ended, and is started again"),
            Some(Err(error)) => tracing::error!("no guardian: {error}"),
            _ => {}
        }
        self.rings.upkeep(self.begin.elapsed());
    }

    /// Looks whether the kernel has what it was given.
    fn look_at_kernel(&mut self) {
        let wanted = self.switcher.possible(self.cpus());
        match self.switcher.current() {
            Ok(current) if current == wanted => {
                // Whether it can be switched is seen when it is tried.
                self.trouble = None;
            }
            Ok(current) => {
                self.account.disagreements += 1;
                tracing::warn!(
                    "the kernel has {current} and not {wanted}: it is given these again"
                );
                match self.switcher.set(&self.cpus().clone()) {
                    Ok(()) => (self.trouble, self.failed) = (None, None),
                    Err(error) => self.failed(&error),
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    fn snapshot(&self, now: Duration) -> Snapshot {
        let mut counts = self.rings.counts();
        let sockets = self.datagrams.iter().map(Datagrams::counts);
        sockets.for_each(|more| counts.add(more));
        let counters = self.counters.iter().map(Counters::counts);
        counters.for_each(|more| counts.add(more));
        let mut classes = self.feed.classes();
        if self.only_watches {
            // What is advised was not in force: all of them were answered by all threads.
            for (_, [all, one_per_core]) in &mut classes {
                let advised = std::mem::take(one_per_core);
                all.answers += advised.answers;
                all.took = all.took.saturating_add(advised.took);
            }
        }
        Snapshot {
            ran_for: now,
            in_force: now.saturating_sub(self.since),
            switcher: self.switcher.name(),
            sets: [self.switcher.full().to_string(), self.fewer.to_string()],
            setting: Some(self.setting),
            advises: self.only_watches,
            trouble: (self.trouble.clone())
                .or_else(|| self.failed.clone())
                .or_else(|| self.rings.missing()),
            explanation: self.feed.controller.explain(),
            outlook: self.feed.controller.outlook(),
            account: self.account.clone(),
            counted: self.hardware.as_ref().map(Hardware::counted),
            counts,
            ring_errors: self.rings.errors(),
            under_way: self.feed.under_way.count(now),
            running: self.load.running,
            utilization: self.load.utilization,
            classes,
        }
    }

    /// Puts back what was found; gives the last status.
    fn end(mut self) -> Result<String, DaemonError> {
        let text = self.snapshot(self.begin.elapsed()).text();
        if self.state.is_none() {
            // What ends with this process may go on for a while.
            let full = self.switcher.full().clone();
            if let Err(error) = self.switcher.set(&full) {
                tracing::warn!("{}", Chain(&error));
            }
        }
        let result = self.state.as_ref().map(State::put_back).transpose();
        // The guardian takes what is left where that failed.
        drop(self.state);
        if let Some(guardian) = self.guardian {
            guardian.end();
        }
        if let Some(admin) = self.admin {
            admin.stop();
        }
        for left_out in result?.unwrap_or_default().left_out {
            tracing::warn!("{left_out}");
        }
        Ok(text)
    }
}
