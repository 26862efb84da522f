//! Figure 14: redis in front of a database, with most of its memory at a donor, and what that costs
//! the donor.

use super::benched::ratios;
use super::database::{self, Database};
use super::lab::{Lab, Memory};
use super::paper;
use super::redis::{self, Redis, value};
use super::unmade::Unmade;
use crate::load::Rng;
use crate::median::median;
use crate::programs::{Outcome, Program};
use crate::reproduce::processors::Processors;
use crate::reproduce::section::{Section, cell, column, of_turns, ours};
use rhythm_rpo::report::Kind;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// Steps of redis's memory, each so many times the first.
const STEPS: u64 = 5;
/// The part of all entries that the most memory is to hold, in percent, as the paper has it.
const HELD: u64 = 95;
/// Keys by which it is found out what one takes.
const TRIED: u32 = 20_000;
/// Where memory is, as figures are numbered.
const REMOTE: usize = 0;
const LOCAL: usize = 1;
const WHOSE: [&str; 2] = ["remote", "local"];
/// The donor's own work is on a graph of 2^this vertices at least.
const WORK_SCALE_MIN: u32 = 20;
/// Queries of a turn while the donor has work of its own.
const TURN: u32 = 500;

/// Memory of the first step, and what of it redis has here, as the paper's 70 and 50 MB; a fifth
/// of that for a first look.
fn sizes(lab: &Lab<'_>) -> (u64, u64) {
    match lab.options.effort.queries {
        10_000.. => (70 << 20, 50 << 20),
        _ => (14 << 20, 10 << 20),
    }
}

pub(super) fn steps(lab: &Lab<'_>) -> usize {
    1 + 2 * (STEPS as usize + 1) * lab.options.effort.rounds
}

/// The database, and what there is of redis.
struct Site<'a> {
    lab: &'a Lab<'a>,
    database: Database,
    keys: u32,
    donor: SocketAddr,
    local: u64,
}

/// What queries came to.
#[derive(Clone, Copy)]
struct Queries {
    seconds: f64,
    missed: f64,
}

/// What they came to with so much memory.
struct Step {
    bytes: u64,
    /// By rounds: remote, and local.
    rounds: Vec<[Queries; 2]>,
}

impl Step {
    fn median(&self, of: impl Fn(&[Queries; 2]) -> f64) -> Option<f64> {
        median(self.rounds.iter().map(of))
    }

    fn seconds(&self, at: usize) -> Option<f64> {
        self.median(|round| round[at].seconds)
    }
}

/// Remote and local, as they are in a round: who begins changes.
fn turns(round: usize) -> [usize; 2] {
    match round % 2 {
        0 => [REMOTE, LOCAL],
        _ => [LOCAL, REMOTE],
    }
}

impl Site<'_> {
    /// A redis with at most so many bytes, full.
    fn cache(&self, bytes: u64, is_remote: bool) -> Result<Redis, Unmade> {
        let memory = match is_remote {
            true => Memory::Remote {
                donor: self.donor,
                local: self.local,
                // Beside its entries it has buffers and tables that grow.
                remote: 2 * bytes + (64 << 20),
            },
            false => Memory::Here,
        };
        let most = bytes.to_string();
        let settings = ["--maxmemory", &most, "--maxmemory-policy", "allkeys-lru"];
        let mut redis = Redis::start(self.lab, memory, &settings)?;
        redis.fill(self.keys).map_err(Unmade::of("redis-server"))?;
        Ok(redis)
    }

    /// Queries for keys at random: of redis, and of the database what that has not.
    fn queries(&mut self, redis: &mut Redis, count: u32, seed: u64) -> Result<Queries, Unmade> {
        let mut rng = Rng::new(seed);
        let mut missed = 0;
        let start = Instant::now();
        for _ in 0..count {
            let key = rng.below(self.keys);
            let met = redis.get(key).map_err(Unmade::of("redis-server"))?;
            let found = match met {
                Some(found) => found,
                None => {
                    missed += 1;
                    let found = self.database.get(key).map_err(Unmade::of("PostgreSQL"))?;
                    redis.set(key, &found).map_err(Unmade::of("redis-server"))?;
                    found
                }
            };
            if found != value(key, 0) {
                return Err(Unmade::Failed(format!("key {key} has another value")));
            }
        }
        Ok(Queries {
            seconds: start.elapsed().as_secs_f64(),
            missed: 100.0 * f64::from(missed) / f64::from(count),
        })
    }

    /// Queries of each step, remote and local in turn; what is measured stays if one fails.
    fn measure(
        &mut self,
        first: u64,
        tell: &mut dyn FnMut(&str),
        measured: &mut Vec<Step>,
    ) -> Result<(), Unmade> {
        let count = self.lab.options.effort.queries;
        // Who is asked first would find the database, and the machine, as nobody does later.
        let mut redis = self.cache(first, false)?;
        self.queries(&mut redis, count, 0)?;
        redis.end()?;
        for step in 1..=STEPS {
            let bytes = step * first;
            let mut rounds = Vec::new();
            for round in 0..self.lab.options.effort.rounds {
                let mut both = [None; 2];
                for at in turns(round) {
                    tell(&format!("{} MiB, {}", bytes >> 20, WHOSE[at]));
                    let mut redis = self.cache(bytes, at == REMOTE)?;
                    let seed = round as u64 * STEPS + step;
                    both[at] = Some(self.queries(&mut redis, count, seed)?);
                    redis.end()?;
                }
                if let [Some(remote), Some(local)] = both {
                    rounds.push([remote, local]);
                }
            }
            measured.push(Step { bytes, rounds });
        }
        Ok(())
    }

    /// Seconds that connected components take where the donor is, while redis is asked.
    fn donors_work(&mut self, redis: &mut Redis, processors: &Processors) -> Result<f64, Unmade> {
        // Larger than elsewhere: it is to take longer than it takes to begin.
        let scale = (self.lab.options.effort.scale + 2).max(WORK_SCALE_MIN);
        let scale = scale.to_string();
        let name = Program::Components.name();
        let command = self
            .lab
            .rhythm(&["bench", "program", name, "--scale", &scale]);
        processors.of_load();
        let work = self.lab.start("components", command);
        processors.of_servers();
        let mut work = work?;
        let mut turn = 0;
        while !work.has_ended()? {
            self.queries(redis, TURN, 1000 + turn)?;
            turn += 1;
        }
        let said = work.ended()?.output;
        let outcome = serde_json::from_str::<Outcome>(&said);
        let outcome = outcome.map_err(|error| Unmade::Failed(format!("components: {error}")))?;
        Ok(outcome.seconds)
    }
}

/// What a key takes in redis, in bytes.
fn key_bytes(lab: &Lab<'_>) -> Result<u64, Unmade> {
    let mut redis = Redis::start(lab, Memory::Here, &[])?;
    let used = |redis: &mut Redis| -> io::Result<u64> {
        let told = redis.info("memory", "used_memory")?;
        let told = told.and_then(|bytes| bytes.parse().ok());
        told.ok_or_else(|| io::Error::other("it does not tell its memory"))
    };
    let mut measure = || {
        let empty = used(&mut redis)?;
        redis.fill(TRIED)?;
        Ok((used(&mut redis)? - empty) / u64::from(TRIED))
    };
    let bytes = measure().map_err(Unmade::of("redis-server"))?;
    redis.end()?;
    Ok(bytes.max(1))
}

/// Redis of several sizes, its memory remote and local; and the donor's own work meanwhile.
pub(super) fn figure_14(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    redis::is_there(&lab.options.redis)?;
    database::is_there()?;
    let processors = Processors::here();
    let (first, local) = sizes(lab);
    tell("the database");
    // What is borrowed, and the work of who lends it, are on one processor, the rest on the others.
    processors.of_load();
    let (_donor, donor) = lab.donor(8 << 30)?;
    processors.of_servers();
    let keys = STEPS * first * 100 / HELD / key_bytes(lab)?;
    let keys = u32::try_from(keys).unwrap_or(u32::MAX);
    let mut site = Site {
        lab,
        database: Database::start(keys)?,
        keys,
        donor,
        local,
    };
    let mut measured = Vec::new();
    let ended = site.measure(first, tell, &mut measured);
    if !measured.is_empty() {
        made.push(section(lab, keys, &measured));
    }
    ended?;
    made.push(donors(&mut site, &processors, tell)?);
    Ok(())
}

fn section(lab: &Lab<'_>, keys: u32, measured: &[Step]) -> Section {
    let columns = [
        column("remote", Kind::Measured),
        column("local", Kind::Measured),
        column("remote, s", Kind::Measured),
        column("local, s", Kind::Measured),
        column("missed, %", Kind::Measured),
        column("local is faster, %", Kind::Measured),
    ];
    let title = "queries to redis and a database, in times of the most memory";
    let mut section = Section::new("Figure 14", title, &columns);
    let [(_, paper_slow), (most, paper_fast)] = paper::CACHE_SECONDS;
    let last = measured.get(STEPS as usize - 1);
    for (step, of_step) in (1..).zip(measured) {
        let is_last = step == STEPS;
        let paper = match step {
            1 => Some(paper_slow),
            _ => is_last.then_some(paper_fast),
        };
        let of_last = |at: usize| -> Vec<f64> {
            let rounds = of_step.rounds.iter();
            let rounds = rounds.zip(last.iter().flat_map(|last| &last.rounds));
            rounds
                .map(|(round, last)| round[at].seconds / last[at].seconds)
                .collect()
        };
        let faster =
            |round: &[Queries; 2]| 100.0 * (round[REMOTE].seconds / round[LOCAL].seconds - 1.0);
        let faster: Vec<f64> = of_step.rounds.iter().map(faster).collect();
        section.row(
            format!(
                "{} MiB, (paper: {})",
                of_step.bytes >> 20,
                step * most / STEPS
            ),
            vec![
                of_turns(paper.map(|seconds| seconds / paper_fast), &of_last(REMOTE)),
                of_turns(None, &of_last(LOCAL)),
                cell(paper, of_step.seconds(REMOTE)),
                ours(of_step.seconds(LOCAL)),
                cell(
                    is_last.then_some(paper::CACHE_MISSES),
                    of_step.median(|round| round[REMOTE].missed),
                ),
                of_turns(is_last.then_some(paper::CACHE_LOCAL_FASTER), &faster),
            ],
        );
    }
    section.charts = vec!["figure-14.svg"];
    section.note(format!(
        "{} queries for keys at random, of {keys} that PostgreSQL has (an index, 512 bytes a \
         value, asked by psql); redis-server is asked first, full of what its memory holds, {} MiB \
         of it here. Remote and local in turn, rounds: {}; medians, and of the ratio that of each \
         turn's. Every value was checked",
        lab.options.effort.queries,
        sizes(lab).1 >> 20,
        lab.options.effort.rounds,
    ));
    section.note(
        "Paper: MySQL with 400 million entries, 10,000 queries, 50 MB of redis here; bars between \
         the first and the last are drawn and not told. Its misses take more than a second each, \
         as its seconds say; ours are answered from memory, so that fewer of them gain less",
    );
    section
}

/// What lending costs the donor's own work.
fn donors(
    site: &mut Site<'_>,
    processors: &Processors,
    tell: &mut dyn FnMut(&str),
) -> Result<Section, Unmade> {
    let columns = [
        column("s", Kind::Measured),
        column("times as long", Kind::Measured),
    ];
    let title = "connected components at the donor while redis is asked";
    let mut section = Section::new("Figure 14, donor", title, &columns);
    let bytes = STEPS * sizes(site.lab).0;
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..site.lab.options.effort.rounds {
        for at in turns(round) {
            tell(&format!("the donor's work, {}", WHOSE[at]));
            let mut redis = site.cache(bytes, at == REMOTE)?;
            seconds[at].push(site.donors_work(&mut redis, processors)?);
            redis.end()?;
        }
    }
    let ratio = of_turns(None, &ratios(&seconds[REMOTE], &seconds[LOCAL]));
    let [lending, not] = seconds.map(|of| median(of.into_iter()));
    section.row("nothing is lent", vec![ours(not), ours(1.0)]);
    section.row("redis's memory is lent", vec![ours(lending), ratio]);
    section.note(
        "The donor and its work share a processor, redis, what brings its pages, the database and \
         the client the others, as far as there are some. Paper: negligible; its work is CC, too",
    );
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::value;

    #[test]
    fn ratios_are_of_rounds_and_what_is_missing_has_none() {
        let queries = |seconds| Queries {
            seconds,
            missed: 5.0,
        };
        let rounds = vec![
            [queries(2.0), queries(1.0)],
            [queries(30.0), queries(10.0)],
            [queries(4.0), queries(1.0)],
        ];
        let step = Step { bytes: 1, rounds };
        assert_eq!(
            (step.seconds(REMOTE), step.seconds(LOCAL)),
            (Some(4.0), Some(1.0))
        );
        let ratio = step.median(|round| round[REMOTE].seconds / round[LOCAL].seconds);
        assert_eq!(ratio, Some(3.0));
        assert_ne!(turns(0), turns(1));
        let cells = {
            let folder = crate::reproduce::Folder::new().expect("a folder");
            let options = super::super::options::VeniceOptions::made_up(folder.path());
            let lab = Lab::new(&options, folder);
            section(&lab, 7, &[step]).table.rows.remove(0).cells
        };
        assert_eq!([value(&cells[0]), value(&cells[2])], [None, Some(4.0)]);
        assert!(value(&cells[5]).is_some_and(|faster| (faster - 200.0).abs() < 1e-9));
    }
}
