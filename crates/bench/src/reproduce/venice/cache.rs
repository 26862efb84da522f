//! Figure 14: redis in front of a database, with most of its memory at a donor, and what that costs
//! the donor.

use super::lab::{Lab, Memory};
use super::paper;
use super::postgres::{self, Postgres};
use super::redis::{self, Redis, value};
use super::unmade::Unmade;
use crate::load::Rng;
use crate::median::median;
use crate::programs::{Outcome, Program};
use crate::reproduce::processors::Processors;
use crate::reproduce::section::{Section, cell, column, ours};
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
    1 + 2 * STEPS as usize + 2 * lab.options.effort.rounds
}

/// The database, and what there is of redis.
struct Site<'a> {
    lab: &'a Lab<'a>,
    database: Postgres,
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

    /// Seconds that connected components take where the donor is, while redis is asked.
    fn donors_work(&mut self, redis: &mut Redis, processors: &Processors) -> Result<f64, Unmade> {
        // Larger than elsewhere: it is to take longer than it takes to begin.
        let scale = (self.lab.options.effort.scale + 2).to_string();
        let name = Program::Components.name();
        let command = self
            .lab
            .rhythm(&["bench", "program", name, "--scale", &scale]);
        processors.of_load();
        let work = self.lab.start("components", command);
        processors.of_server(0);
        let mut work = work?;
        let mut turn = 0;
        while !work.has_ended() {
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
pub(super) fn figure_14(lab: &Lab<'_>, tell: &mut dyn FnMut(&str)) -> Result<Vec<Section>, Unmade> {
    redis::is_there(&lab.options.redis)?;
    postgres::is_there()?;
    let processors = Processors::here();
    let (first, local) = sizes(lab);
    tell("the database");
    // What is borrowed, and the work of who lends it, are on one processor, the rest on another.
    processors.of_load();
    let (_donor, donor) = lab.donor(8 << 30)?;
    processors.of_server(0);
    let keys = STEPS * first * 100 / HELD / key_bytes(lab)?;
    let keys = u32::try_from(keys).unwrap_or(u32::MAX);
    let mut site = Site {
        lab,
        database: Postgres::start(lab, keys)?,
        keys,
        donor,
        local,
    };
    let mut measured = Vec::new();
    for step in 1..=STEPS {
        let both = [true, false].map(|is_remote| {
            let whose = if is_remote { "remote" } else { "local" };
            tell(&format!("{} MiB, {whose}", (step * first) >> 20));
            let mut redis = site.cache(step * first, is_remote)?;
            let queries = site.queries(&mut redis, lab.options.effort.queries, step)?;
            redis.end()?;
            Ok(queries)
        });
        let [remote, here] = both;
        measured.push((step * first, remote?, here?));
    }
    let mut sections = vec![section(lab, keys, &measured)];
    sections.push(donors(&mut site, &processors, tell)?);
    Ok(sections)
}

fn section(lab: &Lab<'_>, keys: u32, measured: &[(u64, Queries, Queries)]) -> Section {
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
    let last = measured.last();
    for (at, (bytes, remote, here)) in measured.iter().enumerate() {
        let papers = (at as u64 + 1) * most / STEPS;
        let is_last = at + 1 == measured.len();
        let paper = match at {
            0 => Some(paper_slow),
            _ => is_last.then_some(paper_fast),
        };
        let of_last = |of: fn(&(u64, Queries, Queries)) -> f64, seconds: f64| {
            last.map(|last| seconds / of(last))
        };
        section.row(
            format!("{} MiB, (paper: {papers})", bytes >> 20),
            vec![
                cell(
                    paper.map(|seconds| seconds / paper_fast),
                    of_last(|last| last.1.seconds, remote.seconds),
                ),
                ours(of_last(|last| last.2.seconds, here.seconds)),
                cell(paper, remote.seconds),
                ours(here.seconds),
                cell(is_last.then_some(paper::CACHE_MISSES), remote.missed),
                cell(
                    is_last.then_some(paper::CACHE_LOCAL_FASTER),
                    100.0 * (remote.seconds / here.seconds - 1.0),
                ),
            ],
        );
    }
    section.charts = vec!["figure-14.svg"];
    section.note(format!(
        "{} queries for keys at random, of {keys} that PostgreSQL has (an index, 512 bytes a \
         value, asked by psql); redis-server is asked first, full of what its \
         memory holds, {} MiB of it here. Every value was checked",
        lab.options.effort.queries,
        sizes(lab).1 >> 20,
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
    for _ in 0..site.lab.options.effort.rounds {
        for (is_remote, of) in [false, true].into_iter().zip(&mut seconds) {
            let whose = if is_remote { "remote" } else { "local" };
            tell(&format!("the donor's work, {whose}"));
            let mut redis = site.cache(bytes, is_remote)?;
            of.push(site.donors_work(&mut redis, processors)?);
            redis.end()?;
        }
    }
    let ratios = seconds[1].iter().zip(&seconds[0]);
    let ratio = median(ratios.map(|(lending, not)| lending / not));
    let [not, lending] = seconds.map(|of| median(of.into_iter()));
    section.row("nothing is lent", vec![ours(not), ours(1.0)]);
    section.row("redis's memory is lent", vec![ours(lending), ours(ratio)]);
    section.note(
        "The donor and its work share a processor, redis, what brings its pages, the database and \
         the client the others, as far as there are some. Paper: negligible; its work is CC, too",
    );
    Ok(section)
}
