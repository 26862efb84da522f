//! Accelerators of a donor beside those of this process: jobs by size, over each way to a mailbox,
//! and several accelerators at once, as the paper's Figure 16a compares them.

use super::options::{Error, Options};
use super::peers::{Peer, TRANSPORTS};
use super::report::{Against, Contender, Report, Row};
use crate::accelerator::borrower::{Accelerator, Cipher, Job, Sharing};
use crate::accelerator::request::Kind;
use std::cell::RefCell;
use std::thread;
use std::time::Instant;

/// Bytes of inputs: a transform has an eighth as many numbers.
const INPUTS: [usize; 5] = [512, 4 << 10, 32 << 10, 256 << 10, 2 << 20];
/// A turn has inputs of so many bytes, or so many jobs if that is less.
const TURN_BYTES: usize = 4 << 20;
const TURN_MAX: usize = 100;
/// The job that several accelerators do: a transform of 32768 numbers.
const COMPARED: usize = 256 << 10;
/// Jobs that they share in a turn.
const COMPARED_JOBS: usize = 48;
/// Accelerators of the donor and of this process that work at once. The paper's figure says of
/// them, in its text: almost as many times as fast.
const AT_ONCE: [(usize, usize); 5] = [(1, 0), (0, 1), (1, 1), (0, 2), (1, 3)];

fn job(kind: Kind, input: &[u8]) -> Job<'_> {
    match kind {
        Kind::Fft => Job::Transform {
            inverse: false,
            points: input,
        },
        Kind::Aes => Job::Seal(Cipher {
            key: &[1; 32],
            // It is sealed to be measured, and thrown away.
            nonce: &[2; 12],
            associated: &[],
            text: input,
        }),
    }
}

/// Jobs by size, one after the other.
pub(super) fn jobs(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    for kind in Kind::ALL {
        for transport in TRANSPORTS {
            let most = INPUTS[INPUTS.len() - 1];
            let own = RefCell::new(Accelerator::local(kind, most)?);
            let connect = |sharing| peer.accelerator(transport, kind, sharing, most);
            let shared = RefCell::new(connect(Sharing::Shared)?);
            let exclusive = RefCell::new(connect(Sharing::Exclusive)?);
            for bytes in INPUTS {
                let input = vec![0; bytes];
                let count = (TURN_BYTES / bytes).clamp(2, TURN_MAX);
                let by = |accelerator| turn(accelerator, kind, &input, count);
                let contenders: Vec<Contender<'_>> = vec![
                    ("local".into(), Box::new(by(&own))),
                    ("remote, shared".into(), Box::new(by(&shared))),
                    ("remote, exclusive".into(), Box::new(by(&exclusive))),
                ];
                let part = format!("accelerator {kind}");
                let what = (part.as_str(), transport, Some(bytes), "us");
                let rounds = (options.rounds, Against::First);
                report.compare(what, rounds, contenders, told)?;
            }
        }
    }
    Ok(())
}

/// The mean time of a job, in microseconds.
fn turn<'a>(
    accelerator: &'a RefCell<Accelerator>,
    kind: Kind,
    input: &'a [u8],
    count: usize,
) -> impl FnMut() -> Result<f64, Error> + 'a {
    move || {
        let start = Instant::now();
        for _ in 0..count {
            std::hint::black_box(accelerator.borrow_mut().run(&job(kind, input))?);
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
    }
}

/// Several accelerators at once, each with a thread of this process that gives it jobs.
pub(super) fn at_once(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    for transport in TRANSPORTS {
        let mut contenders: Vec<Contender<'_>> = Vec::new();
        for (own, remote) in AT_ONCE {
            let mut all = Vec::new();
            for _ in 0..own {
                all.push(Accelerator::local(Kind::Fft, COMPARED)?);
            }
            for _ in 0..remote {
                let sharing = Sharing::Exclusive;
                all.push(peer.accelerator(transport, Kind::Fft, sharing, COMPARED)?);
            }
            let named = [(own, "local"), (remote, "remote")];
            let named = named.iter().filter(|(count, _)| *count > 0);
            let named: Vec<_> = named.map(|(n, which)| format!("{n} {which}")).collect();
            let paper = match own + remote {
                1 => String::new(),
                many => format!(" (paper: almost {many} x)"),
            };
            let what = named.join(" + ") + &paper;
            contenders.push((what, Box::new(move || together(&mut all))));
        }
        let what = ("fft (Figure 16a)", transport, Some(COMPARED), "job/s");
        let rounds = (options.rounds, Against::First);
        report.compare(what, rounds, contenders, told)?;
    }
    Ok(())
}

/// Jobs a second of all together.
fn together(all: &mut [Accelerator]) -> Result<f64, Error> {
    let each = COMPARED_JOBS / all.len();
    let input = vec![0; COMPARED];
    let start = Instant::now();
    let jobs = each * all.len();
    let done = thread::scope(|scope| {
        let threads: Vec<_> = all
            .iter_mut()
            .map(|accelerator| {
                let input = &input;
                scope.spawn(move || {
                    (0..each).try_for_each(|_| {
                        accelerator.run(&job(Kind::Fft, input)).map(|output| {
                            std::hint::black_box(output);
                        })
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(done) => Ok(done?),
                Err(_) => Err(Error::Program("a thread of the benchmark failed".into())),
            })
    });
    done.map(|()| jobs as f64 / start.elapsed().as_secs_f64())
}
