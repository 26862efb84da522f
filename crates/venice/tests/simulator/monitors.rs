//! Monitors: one with a disk, or two that share their state in etcd.

use super::etcd::Client;
use super::events::Event;
use super::world::{Mode, World};
use rhythm_net::Time;
use rhythm_venice::monitor::etcd::{Election, Keeping, Place, Standing};
use rhythm_venice::monitor::keeper::{Keeper, State};
use rhythm_venice::monitor::policy::{ByDistance, ByDistanceAndLoad, Policy};
use rhythm_venice::monitor::{self, Effect, Monitor, Now, Spare};
use rhythm_venice::secret::Secret;
use rhythm_venice::wire::{Message, TurnedAway};
use std::sync::Arc;
use std::time::Duration;

/// Seconds that a lease lasts.
const LEASE: u64 = 3;

pub(crate) type Leader = Monitor<Box<dyn Keeper>>;

/// What a process is that runs.
pub(crate) enum Part {
    Leads(Box<Leader>),
    Waits(Spare),
}

/// A monitor's process.
#[derive(Default)]
pub(crate) struct Process {
    /// None: it does not run.
    pub(crate) part: Option<Part>,
    election: Option<Election<Client>>,
    /// Its term, and what it has read, once it has.
    begins: Option<Standing>,
    pub(crate) life: u64,
    pub(crate) is_stopped: bool,
    /// What comes while it is stopped.
    pub(crate) held: Vec<Event>,
    /// What it was about to do.
    about: Vec<Effect>,
}

impl Process {
    pub(crate) fn wake_at(&self) -> Option<Time> {
        match self.part.as_ref().filter(|_| !self.is_stopped)? {
            Part::Leads(monitor) => monitor.wake_at(),
            Part::Waits(spare) => spare.wake_at(),
        }
    }
}

/// Where a monitor is.
pub(crate) fn place(monitor: usize) -> Place {
    Place {
        agents: ([10, 1, 0, monitor as u8], 7200).into(),
        admin: None,
        trusted: None,
    }
}

impl World {
    /// The monitor that leads, if one does and is not stopped.
    pub(crate) fn leader(&self) -> Option<&Leader> {
        self.monitors
            .iter()
            .find_map(|process| match &process.part {
                Some(Part::Leads(monitor)) if !process.is_stopped => Some(&**monitor),
                _ => None,
            })
    }

    fn moment(&self) -> Now {
        Now {
            at: self.now,
            unix_seconds: self.now.as_nanos() / 1_000_000_000,
        }
    }

    fn lead(&mut self, keeper: Box<dyn Keeper>, state: &State) -> Part {
        let policy: Box<dyn Policy> = match self.random.bool() {
            true => Box::new(ByDistance),
            false => Box::new(ByDistanceAndLoad),
        };
        let settings = monitor::Settings::default();
        let secret = Secret::of(b"a secret of the test");
        let numbers = self.numbers();
        let monitor = Monitor::new(settings, secret, policy, (keeper, state), numbers, self.now);
        Part::Leads(Box::new(monitor))
    }

    pub(crate) fn begin_monitor(&mut self, monitor: usize) {
        let part = match self.mode {
            Mode::Folder => {
                let (disk, state) = self.disk();
                self.lead(Box::new(disk), &state)
            }
            Mode::Etcd | Mode::OnlyMonitors => {
                let client = Client(Arc::clone(&self.etcd));
                let process = &mut self.monitors[monitor];
                process.election = Some(Election::new(client, place(monitor), LEASE));
                let life = process.life;
                self.events.at(self.now, Event::Elect { monitor, life });
                Part::Waits(Spare::default())
            }
        };
        self.monitors[monitor].part = Some(part);
    }

    /// A monitor's other thread looks whether it leads.
    pub(crate) fn elect(&mut self, monitor: usize, life: u64) {
        let process = &mut self.monitors[monitor];
        if process.life != life {
            return;
        }
        let Some(election) = &mut process.election else {
            return;
        };
        let clock = Arc::clone(&self.etcd);
        let clock = move || clock.lock().expect("one thread").time();
        let standing = election.step(&clock);
        // What was asked may have taken a while.
        let now = clock();
        let millis = match standing {
            Ok(begins @ Standing::Begins(..)) => {
                process.begins = Some(begins);
                self.events.at(now, Event::Lead { monitor, life });
                0
            }
            Ok(Standing::Leads) => 1000,
            Ok(Standing::Follows(..)) => self.random.u64(1..700),
            Ok(Standing::Vacant) | Err(_) => 200,
        };
        let at = now + Duration::from_millis(millis);
        self.events.at(at, Event::Elect { monitor, life });
    }

    /// A monitor has read what is kept.
    pub(crate) fn begin_to_lead(&mut self, monitor: usize, life: u64) {
        let process = &mut self.monitors[monitor];
        if process.life != life {
            return;
        }
        if let Some(Standing::Begins(term, loaded)) = process.begins.take() {
            self.counts.elected += 1;
            let client = Client(Arc::clone(&self.etcd));
            let clock = Arc::clone(&self.etcd);
            let clock = move || clock.lock().expect("one thread").time();
            let state = loaded.0.clone();
            let keeper = Keeping::new(client, term, *loaded, Box::new(clock));
            self.end_all(monitor);
            let part = self.lead(Box::new(keeper), &state);
            self.monitors[monitor].part = Some(part);
        }
    }

    /// Something happens to a monitor, and what it does then; or it dies or is stopped before that.
    pub(crate) fn with_monitor(&mut self, index: usize, what: impl FnOnce(&mut Part, Now)) {
        let now = self.moment();
        let has_faults = self.has_faults;
        let may_die = has_faults && self.random.u16(..2000) == 0;
        let dies_before = may_die && self.random.bool();
        let process = &mut self.monitors[index];
        let Some(part) = &mut process.part else {
            return;
        };
        what(part, now);
        if dies_before {
            // Before anything is written.
            return self.kill_monitor(index);
        }
        let writes = self.writes();
        let flushed = match self.monitors[index].part.as_mut().expect("it runs") {
            Part::Leads(monitor) => monitor.flush(),
            Part::Waits(spare) => Ok(spare.flush()),
        };
        let Ok(effects) = flushed else {
            assert_ne!(self.mode, Mode::Folder, "the disk works");
            self.counts.deposed += 1;
            self.monitors[index].part = Some(Part::Waits(Spare::default()));
            return self.end_all(index);
        };
        self.check_leads(index);
        let has_written = self.writes() > writes;
        let dies_now = has_faults && has_written && self.random.u8(..100) == 0;
        if dies_now || may_die {
            self.counts.between += u64::from(has_written);
            return self.kill_monitor(index);
        }
        let is_stopped = has_faults && has_written && self.random.u8(..100) == 0;
        if is_stopped && self.mode != Mode::Folder {
            self.counts.stopped_between += 1;
            self.monitors[index].about = effects;
            return self.stop_monitor(index);
        }
        self.act(effects);
    }

    /// Who is connected to it is told that it leads no more.
    fn end_all(&mut self, index: usize) {
        let all = self.network.connections.iter();
        let all = all.filter(|(_, of)| of.monitor == index && of.monitor_has);
        let all: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in all {
            let away = Message::Away(TurnedAway::NotLeading);
            self.act(vec![Effect::Send(id, away), Effect::Close(id)]);
        }
    }

    pub(crate) fn stop_monitor(&mut self, monitor: usize) {
        let process = &mut self.monitors[monitor];
        if process.part.is_none() || std::mem::replace(&mut process.is_stopped, true) {
            return;
        }
        self.counts.stopped += 1;
        let life = process.life;
        let most = if self.random.bool() { 1500 } else { 12_000 };
        let at = self.soon(most);
        self.events.at(at, Event::Resume { monitor, life });
    }

    pub(crate) fn resume_monitor(&mut self, monitor: usize, life: u64) {
        let process = &mut self.monitors[monitor];
        if process.life != life {
            return;
        }
        process.is_stopped = false;
        let (about, held) = (
            std::mem::take(&mut process.about),
            std::mem::take(&mut process.held),
        );
        self.act(about);
        for event in held {
            self.events.at(self.now, event);
        }
    }

    pub(crate) fn kill_monitor(&mut self, monitor: usize) {
        let process = &mut self.monitors[monitor];
        if process.part.take().is_none() {
            return;
        }
        process.life += 1;
        process.is_stopped = false;
        process.about.clear();
        process.begins = None;
        for event in std::mem::take(&mut process.held) {
            if let Event::ToMonitor { connection, .. } = event
                && let Some(of) = self.network.connections.get_mut(&connection)
            {
                of.under_way -= 1;
            }
        }
        self.counts.monitor_deaths += 1;
        let connections = self.network.connections.iter();
        let connections = connections.filter(|(_, of)| of.monitor == monitor);
        let connections: Vec<u64> = connections.map(|(id, _)| *id).collect();
        for connection in connections {
            self.cut(connection, 10);
            let of = self.network.connections.get_mut(&connection);
            of.expect("it is known").monitor_has = false;
        }
        let at = self.soon(8000);
        self.events.at(at, Event::MonitorBegins { monitor });
    }
}
