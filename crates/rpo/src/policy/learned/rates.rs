//! How fast requests are answered in each setting, by how many run: estimated from completions.
//!
//! A request of class c in flight is answered at the rate `size_c * speed[setting][level]`, where
//! the level says how many requests run for each core. Of every cell the completions and the time
//! spent in flight are summed up, older ones counting less and less; the two factors are then
//! fitted to them in turns (the likeliest fit of a Poisson model in two factors). What the mix is,
//! is thus no matter: a class is only ever compared with itself.
//!
//! Time in flight is counted while it passes, so that a setting in which nothing is answered any
//! more is noticed. What a completion says to have taken beyond that is added when it comes: of a
//! request that is told of only when it is answered that is all of it. An arrival whose completion
//! does not come (lost on the way, a child that was killed) is forgotten, and its time with it.

use crate::classifier::MAX_CLASSES;
use crate::{ClassId, Setting};
use std::collections::VecDeque;

/// Upper bounds of the levels, as running requests for each core; the last has none.
const BOUNDS: [f64; 7] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0];
/// How many levels there are.
pub(super) const LEVELS: usize = BOUNDS.len() + 1;
/// Where in its level a level is taken to be.
const MIDDLES: [f64; LEVELS] = [0.2, 0.4, 0.65, 0.9, 1.25, 1.75, 2.5, 4.0];
const FITS: usize = 4;
/// An arrival is forgotten when it is so many times as old as completions were on average, but not
/// before the one and at the latest after the other, in seconds.
const LOST_AFTER: f64 = 20.0;
const LOST_MIN: f64 = 0.2;
const LOST_MAX: f64 = 60.0;
/// Arrivals of a class that are known at a time.
const KNOWN_MAX: usize = 4096;
/// Completions that what is believed without any is worth: that both settings are the same.
const BELIEF: f64 = 20.0;

/// The level of so many running requests for each core.
pub(super) fn level(load: f64) -> usize {
    BOUNDS
        .iter()
        .position(|bound| load < *bound)
        .unwrap_or(BOUNDS.len())
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    completed: f64,
    in_flight: f64,
}

type Cells = [[Cell; LEVELS]; 2];

#[derive(Clone, Debug)]
struct Class {
    cells: Cells,
    /// When the requests in flight arrived, the earliest first, and since when that is not yet in
    /// the cells.
    arrived: VecDeque<f64>,
    since: f64,
    /// What completions took of late.
    mean: f64,
    /// Completions of a request's second in flight, at speed 1.
    size: f64,
}

impl Class {
    fn new(now: f64) -> Class {
        Class {
            cells: Cells::default(),
            arrived: VecDeque::new(),
            since: now,
            mean: 0.0,
            size: 0.0,
        }
    }

    /// Takes the one that arrived then, as far as that is known: the nearest.
    fn take(&mut self, arrived: f64) -> Option<f64> {
        let at = self.arrived.partition_point(|at| *at < arrived);
        let nearest = [at.checked_sub(1), Some(at)]
            .into_iter()
            .flatten()
            .filter_map(|index| Some((index, (self.arrived.get(index)? - arrived).abs())))
            .min_by(|one, other| one.1.total_cmp(&other.1));
        nearest.and_then(|(index, _)| self.arrived.remove(index))
    }
}

/// The estimates.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    classes: Vec<Class>,
    setting: Setting,
    level: usize,
    in_flight: u32,
    running: f64,
    /// Speeds against one running alone, and the completions that they rest on.
    speed: [[f64; LEVELS]; 2],
    weight: [[f64; LEVELS]; 2],
    sums: Sums,
}

impl Rates {
    pub(super) fn new() -> Rates {
        let shared = MIDDLES.map(|load| (1.0 / load).min(1.0));
        Rates {
            classes: Vec::new(),
            setting: Setting::AllThreads,
            level: 0,
            in_flight: 0,
            running: 0.0,
            speed: [shared; 2],
            weight: [[0.0; LEVELS]; 2],
            sums: Sums::default(),
        }
    }

    pub(super) fn arrived(&mut self, class: ClassId, now: f64) {
        let class = self.catch_up(class, now);
        class.arrived.push_back(now);
        if class.arrived.len() > KNOWN_MAX {
            class.arrived.pop_front();
        } else {
            self.in_flight += 1;
        }
    }

    /// A request is answered that took so long, in seconds; one of whose arrival nothing was told,
    /// or no more is known, counts for what it took.
    pub(super) fn completed(&mut self, class: ClassId, took: f64, now: f64) {
        let (setting, level) = (self.setting.index(), self.level);
        let took = took.min(LOST_MAX);
        let class = self.catch_up(class, now);
        class.mean += (took - class.mean) * 0.02;
        let arrived = class.take(now - took);
        let seen = arrived.map_or(0.0, |at| now - at);
        let unseen = (took - seen).max(0.0);
        class.cells[setting][level].completed += 1.0;
        class.cells[setting][level].in_flight += unseen;
        let work = unseen * class.size;
        // What did no work, as far as anybody knows, is expected of no setting.
        let counts = class.size > 0.0;
        self.in_flight -= u32::from(arrived.is_some());
        self.sums.completed += f64::from(u8::from(counts));
        self.sums.work[level] += work;
    }

    /// A request failed after so long, in seconds: it is not under way any more, and neither that
    /// it ended nor the time that it was in flight says how fast others are.
    pub(super) fn failed(&mut self, class: ClassId, took: f64, now: f64) {
        let took = took.min(LOST_MAX);
        let number = usize::from(class.0).min(MAX_CLASSES - 1);
        if let Some(at) = self.catch_up(class, now).take(now - took) {
            self.forget_one(number, now - at);
        }
    }

    /// The number of a class is another one's, of which nothing is known.
    pub(super) fn replace(&mut self, class: ClassId, now: f64) {
        let number = usize::from(class.0).min(MAX_CLASSES - 1);
        self.catch_up(class, now);
        while let Some(at) = self.classes[number].arrived.pop_front() {
            self.forget_one(number, now - at);
        }
        self.classes[number] = Class::new(now);
    }

    /// Takes back that one of a class, which is not among the arrived ones any more, was in flight.
    fn forget_one(&mut self, class: usize, age: f64) {
        let (setting, level) = (self.setting.index(), self.level);
        let class = &mut self.classes[class];
        // No more of them were counted than can have been at work.
        let counted = ((self.running + 1.0) / (class.arrived.len() + 1) as f64).min(1.0);
        let cell = &mut class.cells[setting][level];
        cell.in_flight = (cell.in_flight - age * counted).max(0.0);
        self.sums.work[level] -= age * counted * class.size;
        self.in_flight -= 1;
    }

    /// Forgets arrivals whose completion did not come, and the time that they were in flight.
    fn forget_lost(&mut self, now: f64) {
        for number in 0..self.classes.len() {
            let class = &self.classes[number];
            let oldest = (LOST_AFTER * class.mean).clamp(LOST_MIN, LOST_MAX);
            while let Some(&at) = self.classes[number].arrived.front()
                && now - at > oldest
            {
                self.classes[number].arrived.pop_front();
                self.forget_one(number, now - at);
            }
        }
    }

    /// From now on it is this setting, and so many run on so many cores.
    pub(super) fn change(&mut self, setting: Setting, running: f64, cores: f64, now: f64) {
        let level = level(running / cores);
        if (setting, level) != (self.setting, self.level) {
            self.catch_up_all(now);
            (self.setting, self.level) = (setting, level);
        }
        self.running = running;
    }

    /// Lets what was seen up to now count so much less.
    pub(super) fn forget(&mut self, keep: f64) {
        for class in &mut self.classes {
            for cell in class.cells.iter_mut().flatten() {
                cell.completed *= keep;
                cell.in_flight *= keep;
            }
        }
    }

    /// Time that is counted for nobody, as while a switch stops everything.
    pub(super) fn skip(&mut self, now: f64) {
        for class in &mut self.classes {
            class.since = now;
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What has been seen up to now, never forgotten.
    pub(super) fn sums(&mut self, now: f64) -> Sums {
        self.catch_up_all(now);
        self.sums
    }

    /// The speeds of a setting by level.
    pub(super) fn speeds(&self, setting: Setting) -> [f64; LEVELS] {
        self.speed[setting.index()]
    }

    /// Speed in a setting, of each of `running` on `cores`: between the levels' middles, and as
    /// cores are shared above the last one.
    pub(super) fn speed(&self, setting: Setting, running: f64, cores: f64) -> f64 {
        let load = running / cores;
        let speeds = &self.speed[setting.index()];
        let Some(above) = MIDDLES.iter().position(|middle| load < *middle) else {
            return speeds[LEVELS - 1] * MIDDLES[LEVELS - 1] / load;
        };
        if above == 0 {
            return speeds[0];
        }
        let (low, high) = (MIDDLES[above - 1], MIDDLES[above]);
        let part = (load - low) / (high - low);
        speeds[above - 1] * (1.0 - part) + speeds[above] * part
    }

    /// Completions that the speed in a setting near this load rests on.
    pub(super) fn weight(&self, setting: Setting, load: f64) -> f64 {
        let level = level(load);
        let weights = &self.weight[setting.index()];
        let near = level.saturating_sub(1)..(level + 2).min(LEVELS);
        weights[near].iter().sum()
    }

    /// Fits sizes and speeds to the cells.
    pub(super) fn fit(&mut self, now: f64) {
        self.forget_lost(now);
        let shared = MIDDLES.map(|load| (1.0 / load).min(1.0));
        for _ in 0..FITS {
            for class in &mut self.classes {
                let (mut completed, mut work) = (0.0, 0.0);
                for (levels, speeds) in class.cells.iter().zip(&self.speed) {
                    for (cell, speed) in levels.iter().zip(speeds) {
                        completed += cell.completed;
                        work += cell.in_flight * speed;
                    }
                }
                class.size = if work > 0.0 { completed / work } else { 0.0 };
            }
            let mut completed = [[0.0; LEVELS]; 2];
            let mut work = [[0.0; LEVELS]; 2];
            // A class of which all answers are told to have taken no time has nothing to compare:
            // its answers would speak for the setting that was longer in force.
            for class in self.classes.iter().filter(|class| class.size > 0.0) {
                for setting in 0..2 {
                    for level in 0..LEVELS {
                        let cell = class.cells[setting][level];
                        completed[setting][level] += cell.completed;
                        work[setting][level] += cell.in_flight * class.size;
                    }
                }
            }
            self.weight = completed;
            for level in 0..LEVELS {
                // What both together show is believed of each until it shows otherwise.
                let both = (completed[0][level] + completed[1][level] + BELIEF * shared[level])
                    / (work[0][level] + work[1][level] + BELIEF);
                for setting in 0..2 {
                    self.speed[setting][level] = (completed[setting][level] + BELIEF * both)
                        / (work[setting][level] + BELIEF);
                }
            }
            self.fill();
            self.scale();
        }
    }

    /// Levels of which one setting has seen nothing take its advantage from the nearest level.
    fn fill(&mut self) {
        let known = |weights: &[[f64; LEVELS]; 2], level: usize| {
            weights[0][level].min(weights[1][level]) >= BELIEF
        };
        let before = self.speed;
        for level in 0..LEVELS {
            if known(&self.weight, level) {
                continue;
            }
            let nearest = (0..LEVELS)
                .filter(|other| known(&self.weight, *other))
                .min_by_key(|other| other.abs_diff(level));
            let Some(nearest) = nearest else { continue };
            let advantage = before[1][nearest] / before[0][nearest];
            // At more than a core each, an advantage of few says nothing of many.
            if (nearest < 4) == (level < 4) {
                let (seen, other) = if self.weight[0][level] >= self.weight[1][level] {
                    (0, 1)
                } else {
                    (1, 0)
                };
                let factor = if other == 1 {
                    advantage
                } else {
                    1.0 / advantage
                };
                self.speed[other][level] = self.speed[seen][level] * factor;
            }
        }
    }

    /// Speed 1 is that of few with one a core.
    fn scale(&mut self) {
        let weights = &self.weight[Setting::OnePerCore.index()][..4];
        let sum: f64 = weights.iter().sum::<f64>() + 1e-9;
        let speeds = &self.speed[Setting::OnePerCore.index()][..4];
        let one = weights
            .iter()
            .zip(speeds)
            .map(|(weight, speed)| weight * speed)
            .sum::<f64>()
            + 1e-9;
        let one = one / sum;
        for speed in self.speed.iter_mut().flatten() {
            *speed /= one;
        }
    }

    fn catch_up(&mut self, id: ClassId, now: f64) -> &mut Class {
        let index = usize::from(id.0).min(MAX_CLASSES - 1);
        if index >= self.classes.len() {
            self.classes.resize(index + 1, Class::new(now));
        }
        let class = &mut self.classes[index];
        // Those that wait for a lock or another server make no progress: no more are at work
        // than run.
        let at_work = (class.arrived.len() as f64).min(self.running + 1.0);
        let in_flight = at_work * (now - class.since).max(0.0);
        class.cells[self.setting.index()][self.level].in_flight += in_flight;
        self.sums.work[self.level] += in_flight * class.size;
        class.since = now;
        class
    }

    fn catch_up_all(&mut self, now: f64) {
        for index in 0..self.classes.len() {
            self.catch_up(ClassId(index as u16), now);
        }
    }
}

/// Completions up to a moment, and the time in flight by level, in completions at speed 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    completed: f64,
    work: [f64; LEVELS],
}

impl Sums {
    pub(super) fn completions_since(&self, from: &Sums) -> u64 {
        (self.completed - from.completed).max(0.0) as u64
    }

    /// Completions since `from`, and those that these speeds would have made.
    pub(super) fn since(&self, from: &Sums, speeds: &[f64; LEVELS]) -> [f64; 2] {
        let work = self
            .work
            .iter()
            .zip(&from.work)
            .map(|(now, then)| now - then);
        let expected = work.zip(speeds).map(|(work, speed)| work * speed).sum();
        [self.completed - from.completed, expected]
    }
}
