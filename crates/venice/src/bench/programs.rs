//! Two programs whose data is remote, by each channel, as the paper's Figures 5 and 6 compare them:
//! PageRank, whose accesses wait for none of the others, and a client of a database, each of whose
//! queries waits for the one before. A result that is another than with local data is an error.

use super::options::{Error, Options};
use super::peers::Peer;
use super::records::{Record, Records, Way};
use super::report::{Against, Contender, Report, Row};
use super::talk::RECORD_BYTES;
use std::time::Instant;

/// Vertices, and edges of each: the paper's 8,678,566 of 1,488,712.
const VERTICES: u32 = 512;
const EDGES: u32 = 6;
const DAMPING: f64 = 0.85;
/// Transactions of a turn, and the queries of one: four gets and a put, as in the paper.
const TRANSACTIONS: u32 = 100;
const QUERIES: u32 = 5;

/// Numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((self.0 >> 33) % u64::from(bound)) as u32
    }
}

fn record(number: u64) -> Record {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

fn number(record: &Record) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[..8]);
    u64::from_le_bytes(bytes)
}

/// A program: what it needs is written first, then it is timed. What it found is returned.
type Program = fn(&mut dyn Records) -> Result<(f64, u64), Error>;

/// A round of PageRank.
pub(super) fn ranks(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    compare("pagerank (Figure 5)", rank, options, peer, report, told)
}

/// Transactions of a client.
pub(super) fn transactions(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    compare(
        "transactions (Figure 5)",
        transact,
        options,
        peer,
        report,
        told,
    )
}

fn compare(
    part: &str,
    program: Program,
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    let (_, expected) = program(&mut *Way::Local.open(peer)?)?;
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for way in Way::ALL {
        let mut records = way.open(peer)?;
        let turn = move || {
            let (seconds, found) = program(&mut *records)?;
            if found != expected {
                let name = way.name();
                let what = format!("{found:x} is found by {name}, and {expected:x} locally");
                return Err(Error::Program(what));
            }
            Ok(seconds * 1e3)
        };
        contenders.push((way.name(), Box::new(turn)));
    }
    let rounds = (options.rounds, Against::First);
    report.compare((part, "", None, "ms"), rounds, contenders, told)
}

/// All edges go through one list, so that who can ask ahead does so across vertices.
fn rank(records: &mut dyn Records) -> Result<(f64, u64), Error> {
    let mut numbers = Numbers(5);
    let edges: Vec<u32> = (0..VERTICES * EDGES)
        .map(|_| numbers.below(VERTICES))
        .collect();
    let mut out = vec![0_u32; VERTICES as usize];
    edges.iter().for_each(|from| out[*from as usize] += 1);
    let first = 1.0 / f64::from(VERTICES);
    for vertex in 0..VERTICES {
        records.write(vertex, &record(first.to_bits()))?;
    }
    records.settle()?;

    let start = Instant::now();
    let mut sums = vec![0.0; VERTICES as usize];
    let mut edge = 0;
    records.read(&edges, &mut |record| {
        let rank = f64::from_bits(number(record));
        sums[edge / EDGES as usize] += rank / f64::from(out[edges[edge] as usize].max(1));
        edge += 1;
    })?;
    for (vertex, sum) in (0..).zip(&sums) {
        let rank = (1.0 - DAMPING) * first + DAMPING * sum;
        records.write(vertex, &record(rank.to_bits()))?;
    }
    records.settle()?;
    let seconds = start.elapsed().as_secs_f64();

    let all: Vec<u32> = (0..VERTICES).collect();
    let mut found = 0_u64;
    records.read(&all, &mut |record| {
        found = found.rotate_left(7) ^ number(record);
    })?;
    Ok((seconds, found))
}

/// What a query finds is looked at before the next is asked, as a client does that checks what it
/// is told: there is nothing to ask ahead.
fn transact(records: &mut dyn Records) -> Result<(f64, u64), Error> {
    for which in 0..VERTICES {
        records.write(which, &record(which.into()))?;
    }
    records.settle()?;
    let mut numbers = Numbers(80);
    let mut found = 0_u64;
    let start = Instant::now();
    for transaction in 0..TRANSACTIONS {
        for _ in 1..QUERIES {
            let which = numbers.below(VERTICES);
            records.read(&[which], &mut |record| {
                found = found.rotate_left(7) ^ number(record);
            })?;
        }
        let which = numbers.below(VERTICES);
        records.write(
            which,
            &record(u64::from(transaction) << 32 | u64::from(which)),
        )?;
    }
    records.settle()?;
    Ok((start.elapsed().as_secs_f64(), found))
}
