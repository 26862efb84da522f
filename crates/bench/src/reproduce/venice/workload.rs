//! Programs that are run here and with most of their memory elsewhere, and compared.

use super::lab::{Lab, Memory};
use super::redis::{self, Popularity, Redis};
use super::unmade::Unmade;
use crate::median::median;
use crate::programs::{Outcome, Program};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// BerkeleyDB's program.
const BERKELEY: &str = include_str!("berkeley.pl");
/// Requests of a client of redis that are under way at a time.
const DEPTH: u32 = 16;

/// A program, with its data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Workload {
    /// A redis-server, asked by one client.
    Redis(Popularity),
    /// BerkeleyDB, by perl.
    BerkeleyDb,
    /// One of ours.
    Program(Program),
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) outcome: Outcome,
    /// Page faults that were answered from elsewhere.
    pub(super) faults: u64,
}

/// What several ways of one program came to, one after the other in each round.
pub(super) struct Contest {
    /// By way, then by round.
    runs: Vec<Vec<Run>>,
    /// What the data have where all of them are here.
    pub(super) bytes: u64,
}

impl Workload {
    pub(super) const ALL: [Workload; 7] = [
        Workload::Redis(Popularity::Uniform),
        Workload::Redis(Popularity::Zipf),
        Workload::BerkeleyDb,
        Workload::Program(Program::Ranks),
        Workload::Program(Program::Components),
        Workload::Program(Program::Search),
        Workload::Program(Program::Grep),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::Redis(Popularity::Uniform) => "Redis",
            Workload::Redis(Popularity::Zipf) => "Redis, Zipf",
            Workload::BerkeleyDb => "BerkeleyDB",
            Workload::Program(Program::Ranks) => "PageRank",
            Workload::Program(Program::Components) => "CC",
            Workload::Program(Program::Search) => "Graph500",
            Workload::Program(Program::Grep) => "Grep",
        }
    }

    /// Whether this machine has it.
    pub(super) fn is_there(self, lab: &Lab<'_>) -> Result<(), Unmade> {
        match self {
            Workload::Redis(_) => redis::is_there(&lab.options.redis),
            Workload::BerkeleyDb => has_berkeley(&lab.options.perl),
            Workload::Program(_) => Ok(()),
        }
    }

    /// Runs it once.
    pub(super) fn once(self, lab: &Lab<'_>, memory: Memory) -> Result<Run, Unmade> {
        match self {
            Workload::Redis(popularity) => of_redis(lab, memory, popularity),
            Workload::BerkeleyDb => {
                let effort = &lab.options.effort;
                let file = lab.file("berkeley.db");
                let numbers = [effort.keys, effort.requests / 5].map(|n| n.to_string());
                let mut words: Vec<OsString> = vec!["-e".into(), BERKELEY.into()];
                words.push(file.clone().into());
                words.extend(numbers.map(OsString::from));
                let run = of_program(lab, self.name(), memory, &lab.options.perl, &words);
                // It is large, and nobody wants it.
                let _ = std::fs::remove_file(file);
                run
            }
            Workload::Program(program) => {
                let scale = lab.options.effort.scale.to_string();
                let words = ["bench", "program", program.name(), "--scale", &scale];
                let words = words.map(OsString::from);
                of_program(lab, self.name(), memory, &lab.options.program, &words)
            }
        }
    }

    /// Runs it in each of the ways that `ways` makes of the bytes of its data, in turn, the order
    /// turned in every other round. What comes out is the same in each, or the contest has failed.
    pub(super) fn contest(
        self,
        lab: &Lab<'_>,
        ways: impl FnOnce(u64) -> Vec<Memory>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Contest, Unmade> {
        tell(&format!("{}, all local", self.name()));
        let first = self.once(lab, Memory::Here)?;
        let bytes = first.outcome.bytes;
        let ways = ways(bytes);
        let mut runs = vec![Vec::new(); ways.len()];
        for round in 0..lab.options.effort.rounds {
            for turn in 0..ways.len() {
                let way = match round % 2 {
                    0 => turn,
                    _ => ways.len() - 1 - turn,
                };
                tell(&format!("{}, round {}", self.name(), round + 1));
                let run = self.once(lab, ways[way])?;
                if run.outcome.result != first.outcome.result {
                    return Err(Unmade::Failed(format!(
                        "{} found {} where all of its memory is local, and {} with {:?}",
                        self.name(),
                        first.outcome.result,
                        run.outcome.result,
                        ways[way],
                    )));
                }
                runs[way].push(run);
            }
        }
        Ok(Contest { runs, bytes })
    }
}

impl Contest {
    /// Seconds of a way: the median of the rounds.
    pub(super) fn seconds(&self, way: usize) -> Option<f64> {
        median(self.runs[way].iter().map(|run| run.outcome.seconds))
    }

    /// How many times as long as the first way this one takes, in each round.
    pub(super) fn ratios(&self, way: usize) -> Vec<f64> {
        let rounds = self.runs[way].iter().zip(&self.runs[0]);
        let ratio = |(run, first): (&Run, &Run)| run.outcome.seconds / first.outcome.seconds;
        rounds.map(ratio).collect()
    }

    /// Page faults of a way that were answered from elsewhere.
    pub(super) fn faults(&self, way: usize) -> Option<f64> {
        median(self.runs[way].iter().map(|run| run.faults as f64))
    }
}

fn of_redis(lab: &Lab<'_>, memory: Memory, popularity: Popularity) -> Result<Run, Unmade> {
    let effort = &lab.options.effort;
    let mut redis = Redis::start(lab, memory, &[])?;
    redis
        .fill(effort.keys)
        .map_err(Unmade::of("redis-server"))?;
    let bytes = redis.data_bytes();
    let start = Instant::now();
    let result = redis.mix((effort.keys, popularity), effort.requests, DEPTH);
    let seconds = start.elapsed().as_secs_f64();
    let result = result.map_err(Unmade::of("redis-server"))?;
    let faults = redis.end()?;
    Ok(Run {
        outcome: Outcome {
            seconds,
            result: format!("{result:016x}"),
            bytes,
        },
        faults,
    })
}

fn of_program(
    lab: &Lab<'_>,
    name: &str,
    memory: Memory,
    program: &Path,
    words: &[OsString],
) -> Result<Run, Unmade> {
    let ended = lab.run(name, lab.with(memory, program, words))?;
    let outcome = serde_json::from_str(&ended.output);
    Ok(Run {
        outcome: outcome.map_err(|error| Unmade::Failed(format!("{name}: {error}")))?,
        faults: ended.faults(memory)?,
    })
}

fn has_berkeley(perl: &Path) -> Result<(), Unmade> {
    let look = Command::new(perl).args(["-MDB_File", "-e", "1"]).output();
    match look {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err(Unmade::Lacking(format!(
            "{} has no DB_File, which is BerkeleyDB: install the package perl",
            perl.display()
        ))),
        Err(error) => Err(Unmade::Lacking(format!(
            "{} cannot be started: {error}: install perl, or name it with --perl PROGRAM",
            perl.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::children::Folder;
    use crate::reproduce::venice::options::VeniceOptions;
    use std::fs::{self, Permissions};
    use std::net::SocketAddr;
    use std::os::unix::fs::PermissionsExt;

    /// What a contest comes to where programs find this with remote memory, and "a" without.
    fn contest(found: &str) -> Result<Contest, Unmade> {
        let folder = Folder::new().expect("a folder");
        let program = folder.path().join("rhythm");
        let text = format!(
            "#!/bin/sh\nfound=a; seconds=2\n\
             if [ $1 = venice ]; then\n  found={found}; seconds=5\n  \
             echo 'rhythm venice: 77 faults (1 first touches, 70 of the donor, 0 % of x)' >&2\nfi\n\
             echo '{{\"seconds\":'$seconds',\"result\":\"'$found'\",\"bytes\":8388608}}'\n"
        );
        fs::write(&program, text).expect("it is written");
        fs::set_permissions(&program, Permissions::from_mode(0o700)).expect("it is ours");
        let options = VeniceOptions::made_up(folder.path());
        let lab = Lab::new(&options, folder);
        let donor = SocketAddr::from(([127, 0, 0, 1], 1));
        let ways = |bytes| vec![Memory::Here, Memory::remote(donor, bytes, 75)];
        Workload::Program(Program::Grep).contest(&lab, ways, &mut |_| ())
    }

    #[test]
    fn a_result_that_is_another_with_remote_memory_fails() {
        let right = contest("a").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((right.bytes, right.ratios(1)), (8 << 20, vec![2.5; 3]));
        assert_eq!((right.faults(0), right.faults(1)), (Some(0.0), Some(77.0)));
        match contest("b").err() {
            Some(Unmade::Failed(why)) => assert!(why.contains("found a") && why.contains("and b")),
            other => panic!("{other:?}"),
        }
    }
}
