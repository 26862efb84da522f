//! Page faults of a program that `rhythm venice run` looks after, beside those that the barest
//! handler answers; scans beside the transport's bandwidth; and what a question costs at least.

use super::faults::{PAGE, with_raw_handler};
use super::options::{Error, Options};
use super::peers::{Peer, Raw, TRANSPORTS};
use super::report::{Against, Contender, Report, Row, median};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What the program has here, of all its pages: one in so many.
const LOCAL_PART: usize = 16;
/// The least that `rhythm venice run` lets a program have here.
const LOCAL_BYTES_MIN: usize = 1 << 20;
/// Questions of a turn.
const QUESTIONS: usize = 1000;
/// Bytes of a turn of a scan.
const SCAN_BYTES: usize = 32 << 20;
/// Bytes that are read at a time in it.
const SCAN_UNIT: usize = 1 << 20;

/// What a program saw of its own memory.
#[derive(Debug, Deserialize, Serialize)]
pub struct Touched {
    /// The median time of touching a page, at random.
    fault_us: f64,
    /// Bytes of pages touched a second, from the first to the last.
    scan_mb_s: f64,
}

/// Touches so many pages of memory of its own, and measures that: it is run by `rhythm venice run`,
/// so that most of them are not there.
pub fn touch(pages: usize) -> Touched {
    let mut memory = vec![0u8; pages.max(1) * PAGE];
    for page in memory.chunks_exact_mut(PAGE) {
        page[..8].copy_from_slice(&[7; 8]);
    }
    let read = |page: usize| black_box(memory[page * PAGE]);
    let fault_us = random_touches(pages, &read);
    let start = Instant::now();
    for page in 0..pages {
        read(page);
    }
    let scan_mb_s = (pages * PAGE) as f64 / start.elapsed().as_secs_f64() / 1e6;
    Touched {
        fault_us,
        scan_mb_s,
    }
}

/// The median time of touching a page, each once, in an order without steps.
fn random_touches(pages: usize, touch: &dyn Fn(usize) -> u8) -> f64 {
    let mut order: Vec<usize> = (0..pages).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut order);
    let times = order.into_iter().map(|page| {
        let start = Instant::now();
        black_box(touch(page));
        start.elapsed().as_secs_f64() * 1e6
    });
    median(times.collect())
}

/// A bare question, the same by [`RemoteMemory`](crate::remote::RemoteMemory), and the copy of a
/// page.
pub(super) fn floors(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    let rounds = (options.rounds, Against::First);
    let pages = vec![7u8; 64 << 20];
    let copy: Contender<'_> = (
        "memcpy".into(),
        Box::new(|| {
            let mut to = [0; PAGE];
            let start = Instant::now();
            for page in pages.chunks_exact(PAGE) {
                to.copy_from_slice(page);
                black_box(&to);
            }
            let copied = pages.len() / PAGE;
            Ok(start.elapsed().as_secs_f64() * 1e6 / copied as f64)
        }),
    );
    let what = ("copy of a page", "memory", Some(PAGE), "us");
    report.compare(what, rounds, vec![copy], told)?;
    for transport in TRANSPORTS {
        let mut raw = peer.raw(transport)?;
        let (mut memory, base) = peer.memory(transport, 64 << 20)?;
        let bare: Contender<'_> = (
            "bare ping-pong".into(),
            Box::new(move || questions(|page, _| raw.ask(page))),
        );
        let ours: Contender<'_> = (
            "RemoteMemory".into(),
            Box::new(move || {
                questions(|page, which| {
                    let address = base + (which * 37 % 16_384 * PAGE) as u64;
                    Ok(memory.read(address, page)?)
                })
            }),
        );
        let what = ("read of a page", transport, Some(PAGE), "us");
        report.compare(what, rounds, vec![bare, ours], told)?;

        let mut raw = peer.raw(transport)?;
        let (mut memory, base) = peer.memory(transport, SCAN_BYTES as u64)?;
        // Pages that nobody wrote are no memory yet.
        for at in (0..SCAN_BYTES).step_by(SCAN_UNIT) {
            memory.write(base + at as u64, &vec![7; SCAN_UNIT])?;
        }
        let bare: Contender<'_> = (
            "bare stream".into(),
            Box::new(move || {
                let mut bytes = vec![0; SCAN_UNIT];
                rate(SCAN_BYTES, || raw.stream(SCAN_BYTES, &mut bytes))
            }),
        );
        let ours: Contender<'_> = (
            "RemoteMemory".into(),
            Box::new(move || {
                let mut bytes = vec![0; SCAN_UNIT];
                rate(SCAN_BYTES, || {
                    for at in (0..SCAN_BYTES).step_by(SCAN_UNIT) {
                        memory.read(base + at as u64, &mut bytes)?;
                    }
                    Ok(())
                })
            }),
        );
        let what = ("scan of 32 MiB", transport, None, "MB/s");
        report.compare(what, rounds, vec![bare, ours], told)?;
    }
    Ok(())
}

/// The median time of a question for a page, in microseconds.
fn questions(mut ask: impl FnMut(&mut [u8], usize) -> Result<(), Error>) -> Result<f64, Error> {
    let mut page = [0; PAGE];
    let mut times = Vec::with_capacity(QUESTIONS);
    for which in 0..QUESTIONS {
        let start = Instant::now();
        ask(&mut page, which)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// Megabytes a second.
fn rate(bytes: usize, act: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    act()?;
    Ok(bytes as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// Faults and scans of a program, beside the bare handler over the same transport.
pub(super) fn faults(
    options: &Options,
    peer: &Peer,
    report: &mut Report,
    told: &mut dyn FnMut(&Row),
) -> Result<(), Error> {
    let pages = options.pages;
    let key = peer.key_file()?;
    let program = move || {
        let local = (pages * PAGE / LOCAL_PART).max(LOCAL_BYTES_MIN);
        let output = Command::new(&options.program)
            .args(["venice", "run", "--donor", &peer.places.donor.to_string()])
            .args(["--local", &local.to_string(), "--key-file"])
            .arg(&key)
            .args(["--remote", &(2 * pages * PAGE).to_string(), "--"])
            .arg(&options.program)
            .args(["venice", "bench", "--touch", &pages.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Program(error));
        }
        serde_json::from_slice::<Touched>(&output.stdout)
            .map_err(|error| Error::Program(error.to_string()))
    };
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for transport in TRANSPORTS {
        let raw = move || raw_faults(peer.raw(transport)?, pages);
        let what = format!("bare handler, {transport}");
        contenders.push((what, Box::new(raw)));
    }
    let fault: Contender<'_> = (
        "rhythm venice run, tcp".into(),
        Box::new(|| Ok(program()?.fault_us)),
    );
    contenders.push(fault);
    let rounds = (options.rounds, Against::First);
    let what = ("fault of a page", "", Some(PAGE), "us");
    report.compare(what, rounds, contenders, told)?;

    let mut raw = peer.raw(TRANSPORTS[0])?;
    let contenders: Vec<Contender<'_>> = vec![
        (
            "bare stream".into(),
            Box::new(move || {
                let mut bytes = vec![0; SCAN_UNIT];
                rate(SCAN_BYTES, || raw.stream(SCAN_BYTES, &mut bytes))
            }),
        ),
        (
            "rhythm venice run".into(),
            Box::new(|| Ok(program()?.scan_mb_s)),
        ),
    ];
    let what = ("scan by a program", TRANSPORTS[0], None, "MB/s");
    report.compare(what, rounds, contenders, told)
}

fn raw_faults(mut raw: Raw, pages: usize) -> Result<f64, Error> {
    let fetch = |_: usize, page: &mut [u8; PAGE]| {
        raw.ask(page)
            .map_err(|error| io::Error::other(error.to_string()))
    };
    Ok(with_raw_handler(pages, fetch, |touch| {
        random_touches(pages, touch)
    })?)
}
