//! What is measured, and what alternates with what.

use super::watch::SIZES;
use crate::load::Mix;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The paper's batch.
pub(super) const BATCH: u32 = 20;
/// What the paper measures first, and its own mixes.
const STANDARD: [Mix; 2] = [Mix::Browsing, Mix::Ordering];
const CUSTOM: [Mix; 4] = [Mix::S(0), Mix::S(5), Mix::S(15), Mix::S(50)];
/// Users for each of the shop's CPUs, who keep two such CPUs half busy, and one almost wholly.
const USERS_PER_CPU: usize = 16;
const USERS_MAX: usize = 400;
/// Mean time between a user's pages: short, so that few users are a load.
pub(super) const THINK: Duration = Duration::from_millis(200);

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredEffort {
    /// How often each is measured, in alternation.
    pub rounds: usize,
    /// For how long, each time.
    pub duration: Duration,
    /// And for how long it is loaded before.
    pub warmup: Duration,
}

impl MeasuredEffort {
    /// For a first look: some minutes.
    pub const QUICK: MeasuredEffort = MeasuredEffort {
        rounds: 1,
        duration: Duration::from_secs(3),
        warmup: Duration::from_secs(1),
    };
    /// More than an hour.
    pub const FULL: MeasuredEffort = MeasuredEffort {
        rounds: 3,
        duration: Duration::from_secs(30),
        warmup: Duration::from_secs(5),
    };
}

/// Who decides on the shop's CPUs; or what of the machinery is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// All CPUs, always: the paper's HT.
    All,
    /// Fewer, always: NOHT.
    Fewer,
    /// The paper's rule, with batches of so many.
    Rpo(u32),
    Learned,
    /// No module, and no controller.
    Untold,
    /// The module, and no controller.
    Told,
    /// The paper's rule, with the controller on CPUs of the shop.
    Beside,
    /// The same, with the controller where the load is.
    Apart,
}

impl Way {
    /// Those of every workload.
    const ALL: [Way; 4] = [Way::All, Way::Fewer, Way::Rpo(BATCH), Way::Learned];

    /// Whether a controller is there.
    pub(super) fn is_controlled(self) -> bool {
        !matches!(self, Way::Untold | Way::Told)
    }

    /// The controller's policy.
    pub(super) fn policy(self) -> &'static str {
        match self {
            Way::All | Way::Untold | Way::Told => "all-threads",
            Way::Fewer => "one-per-core",
            Way::Rpo(_) | Way::Beside | Way::Apart => "paper",
            Way::Learned => "learned",
        }
    }

    /// The controller's batch.
    pub(super) fn batch(self) -> Option<u32> {
        match self {
            Way::Rpo(batch) => Some(batch),
            Way::Beside | Way::Apart => Some(BATCH),
            _ => None,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::All => f.write_str("all CPUs"),
            Way::Fewer => f.write_str("fewer CPUs"),
            Way::Rpo(BATCH) => f.write_str("RPO"),
            Way::Rpo(batch) => write!(f, "RPO, b = {batch}"),
            Way::Learned => f.write_str("learned"),
            Way::Untold => f.write_str("module off"),
            Way::Told => f.write_str("module on"),
            Way::Beside => f.write_str("controller on CPUs of the shop"),
            Way::Apart => f.write_str("controller on other CPUs"),
        }
    }
}

impl Serialize for Way {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What the shop is loaded with, and how it is run meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Case {
    #[serde(serialize_with = "named")]
    pub(super) mix: Mix,
    pub(super) way: Way,
    /// With half of the users.
    pub(super) is_light: bool,
}

fn named<S: serde::Serializer>(mix: &Mix, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&workload(*mix))
}

impl Case {
    fn of(mix: Mix, way: Way) -> Case {
        Case {
            mix,
            way,
            is_light: false,
        }
    }

    /// How many users there are.
    pub(super) fn users(&self, cpus: usize) -> usize {
        let all = users(cpus);
        if self.is_light { all / 2 } else { all }
    }
}

/// The most users that there are at a time.
pub(super) fn users(cpus: usize) -> usize {
    (cpus * USERS_PER_CPU).min(USERS_MAX)
}

/// As the paper names it.
pub(super) fn workload(mix: Mix) -> String {
    match mix {
        Mix::Browsing => "browsing".to_owned(),
        Mix::Shopping => "shopping".to_owned(),
        Mix::Ordering => "ordering".to_owned(),
        Mix::S(switching) => format!("S({switching})"),
    }
}

/// Groups of cases; those of a group take turns.
pub(super) fn groups() -> Vec<Vec<Case>> {
    let mut groups: Vec<Vec<Case>> = Vec::new();
    for mix in STANDARD.into_iter().chain(CUSTOM) {
        let mut ways = Way::ALL.to_vec();
        if mix == Mix::S(50) {
            ways.extend(
                SIZES
                    .into_iter()
                    .filter(|size| *size != BATCH)
                    .map(Way::Rpo),
            );
        }
        groups.push(ways.into_iter().map(|way| Case::of(mix, way)).collect());
    }
    for mix in STANDARD {
        groups.push(
            [Way::Untold, Way::Told]
                .map(|way| Case::of(mix, way))
                .into(),
        );
    }
    for (mix, is_light) in [
        (Mix::Browsing, false),
        (Mix::Browsing, true),
        (Mix::Ordering, true),
    ] {
        let case = |way| Case { mix, way, is_light };
        groups.push([Way::Beside, Way::Apart].map(case).into());
    }
    groups
}
