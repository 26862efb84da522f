//! What describes a server and its workloads: a TOML file (params/paper.toml is the paper's).

use super::ModelError;
use crate::classifier::{ClassTable, Friendly};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parameters that reproduce the paper.
const PAPER: &str = include_str!("../../params/paper.toml");

/// A server, the requests it is asked, and who asks.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// The machine and what runs on it.
    pub server: ServerParams,
    /// The two kinds of work.
    pub kinds: Kinds,
    /// How sessions go on.
    pub sessions: Sessions,
    /// Which pages there are.
    pub pages: Pages,
    /// The mixes of pages, by name.
    pub mixes: BTreeMap<String, Mix>,
    /// The workloads S(p) of section IV-B.
    pub custom: Custom,
    /// What the machine takes, where that is known.
    #[serde(default)]
    pub power: Option<PowerParams>,
}

/// The machine's power: a formula that is fitted, not simulated. Watts are the idle ones, plus the
/// cube of the frequency (GHz) times what belongs to it, plus how busy the processors are.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PowerParams {
    /// With nothing to do.
    pub idle_w: f64,
    /// Times the cube of the frequency.
    pub cubic_w: f64,
    /// Times the cube of the frequency, with one thread a core more.
    pub one_per_core_w: f64,
    /// Times the utilization of the setting's processors.
    pub busy_w: f64,
}

/// The machine and what runs on it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerParams {
    /// Cores, each of two hardware threads.
    pub cores: u32,
    /// Of the running requests, the share that meets another on its core before all cores are used.
    pub pairing: f64,
    /// How much each waiter slows the lock's holder: all threads, one a core.
    pub lock_slowing: [f64; 2],
    /// How long nothing runs after a switch.
    pub switch_ms: f64,
    /// The part of a response time that is neither processor nor lock.
    pub fixed_ms: f64,
    /// Requests that the server takes at once.
    pub clients: usize,
}

/// The two kinds of work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    /// Reads.
    pub light: Kind,
    /// Writes: more work, part of it under a lock.
    pub heavy: Kind,
}

/// One kind of work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Mean demand at 1 GHz.
    pub demand_ms: f64,
    /// How regular demands are: 1 is exponential, more is the Erlang distribution of so many.
    #[serde(default = "one")]
    pub regularity: u32,
    /// Speed with all threads, alone on a core, against one a core.
    pub alone: f64,
    /// Speed of two together on a core.
    pub pair: f64,
    /// Share of the demand under the lock.
    pub locked: f64,
}

/// How sessions go on: open arrivals, each a number of requests with pauses between.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Mean number of requests (geometric).
    pub requests: f64,
    /// Mean pause between two of them (exponential).
    pub think_s: f64,
}

/// Which pages there are.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// Those that the paper calls HT-friendly (Table V).
    pub friendly: Vec<String>,
    /// The others, the heaviest first.
    pub heaviest: Vec<String>,
}

/// A mix of pages.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Share of the requests that are heavy.
    pub heavy: f64,
    /// Share of the HT-friendly pages, where it differs from that of `shares`.
    #[serde(default)]
    pub friendly: Option<f64>,
    /// Mean number of requests of its sessions, where it differs from the others'.
    #[serde(default)]
    pub requests: Option<f64>,
    /// Share of the heavy work under the lock, where it differs from the kind's.
    #[serde(default)]
    pub locked: Option<f64>,
    /// Weights of the pages.
    pub shares: BTreeMap<String, f64>,
}

/// The workloads S(p).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Custom {
    /// Sessions of each sort in the list.
    pub sessions: u32,
}

fn one() -> u32 {
    1
}

impl Params {
    /// The paper's.
    ///
    /// # Errors
    ///
    /// Never, unless the file in the sources was broken.
    pub fn paper() -> Result<Params, ModelError> {
        Params::parse(PAPER)
    }

    /// From a file's text.
    ///
    /// # Errors
    ///
    /// Where the text is no such file, or a value makes no sense.
    pub fn parse(text: &str) -> Result<Params, ModelError> {
        let params: Params = toml::from_str(text)?;
        params.check()?;
        Ok(params)
    }

    /// All pages, in the order of their numbers.
    pub(crate) fn page_names(&self) -> impl Iterator<Item = &str> {
        self.pages
            .friendly
            .iter()
            .chain(&self.pages.heaviest)
            .map(String::as_str)
    }

    /// All pages as classes, as Table V has them.
    #[must_use]
    pub fn classes(&self) -> ClassTable {
        let mut table = ClassTable::default();
        for (index, page) in self.page_names().enumerate() {
            let friendly = match index < self.pages.friendly.len() {
                true => Friendly::AllThreads,
                false => Friendly::OnePerCore,
            };
            table.add(page, Some(friendly));
        }
        table
    }

    /// The mix of this name.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn mix(&self, name: &str) -> Result<&Mix, ModelError> {
        self.mixes
            .get(name)
            .ok_or_else(|| ModelError::NoMix(name.to_owned()))
    }

    fn check(&self) -> Result<(), ModelError> {
        let server = &self.server;
        positive("server.cores", f64::from(server.cores))?;
        positive("server.clients", server.clients as f64)?;
        share("server.pairing", server.pairing)?;
        not_negative("server.lock_slowing", server.lock_slowing[0])?;
        not_negative("server.lock_slowing", server.lock_slowing[1])?;
        not_negative("server.switch_ms", server.switch_ms)?;
        not_negative("server.fixed_ms", server.fixed_ms)?;
        for (name, kind) in [("light", &self.kinds.light), ("heavy", &self.kinds.heavy)] {
            positive(&format!("kinds.{name}.demand_ms"), kind.demand_ms)?;
            positive(&format!("kinds.{name}.alone"), kind.alone)?;
            positive(&format!("kinds.{name}.pair"), kind.pair)?;
            share(&format!("kinds.{name}.locked"), kind.locked)?;
            let regular = f64::from(kind.regularity);
            demand(
                &format!("kinds.{name}.regularity"),
                regular,
                (1.0..=64.0).contains(&regular),
            )?;
        }
        positive("custom.sessions", f64::from(self.custom.sessions))?;
        positive("sessions.think_s", self.sessions.think_s)?;
        if !(self.sessions.requests >= 1.0 && self.sessions.requests.is_finite()) {
            return Err(ModelError::Value(
                "sessions.requests".into(),
                self.sessions.requests,
            ));
        }
        if let Some(power) = &self.power {
            not_negative("power.idle_w", power.idle_w)?;
            not_negative("power.cubic_w", power.cubic_w)?;
            not_negative("power.one_per_core_w", power.one_per_core_w)?;
            not_negative("power.busy_w", power.busy_w)?;
        }
        for (name, mix) in &self.mixes {
            share(&format!("mixes.{name}.heavy"), mix.heavy)?;
            if let Some(friendly) = mix.friendly {
                share(&format!("mixes.{name}.friendly"), friendly)?;
            }
            if let Some(requests) = mix.requests {
                demand(&format!("mixes.{name}.requests"), requests, requests >= 1.0)?;
            }
            if let Some(locked) = mix.locked {
                share(&format!("mixes.{name}.locked"), locked)?;
            }
            for (page, weight) in &mix.shares {
                not_negative(&format!("mixes.{name}.shares.{page}"), *weight)?;
                if !self.page_names().any(|known| known == page) {
                    return Err(ModelError::NoPage(name.clone(), page.clone()));
                }
            }
            positive(&format!("mixes.{name}.shares"), mix.shares.values().sum())?;
        }
        Ok(())
    }
}

fn positive(name: &str, value: f64) -> Result<(), ModelError> {
    demand(name, value, value > 0.0)
}

fn not_negative(name: &str, value: f64) -> Result<(), ModelError> {
    demand(name, value, value >= 0.0)
}

fn share(name: &str, value: f64) -> Result<(), ModelError> {
    demand(name, value, (0.0..=1.0).contains(&value))
}

fn demand(name: &str, value: f64, holds: bool) -> Result<(), ModelError> {
    if holds && value.is_finite() {
        Ok(())
    } else {
        Err(ModelError::Value(name.to_owned(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_parameters_are_read() {
        let params = Params::paper().expect("params/paper.toml");
        assert_eq!(params.page_names().count(), 14);
        assert!(params.mix("browsing").is_ok());
        assert!(matches!(params.mix("shopping"), Err(ModelError::NoMix(_))));
    }

    #[test]
    fn a_value_without_sense_is_named() {
        let text = PAPER.replace("\ncores = 4", "\ncores = 0");
        let error = Params::parse(&text).expect_err("a machine without cores");
        assert_eq!(error.to_string(), "server.cores cannot be 0");
    }
}
