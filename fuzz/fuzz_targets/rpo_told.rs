//! What servers tell rpo of requests, in datagrams, in lines of access logs, and in a ring that
//! they write: what is no record is counted, and a record says what can be.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_rpo::collector::{Record, Ring, What, access_log, lines};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

/// Records of the ring, bytes of each, and where the number of those that were begun is.
const RECORDS: u64 = 4;
const RECORD: usize = 128;
const HEAD_AT: u64 = 64;

fn check(record: &Record<'_>) {
    let took = match record.what {
        What::Arrived => None,
        What::Completed { took, .. } => Some(took),
        What::Whole { took, .. } => took,
    };
    assert!(took.is_none_or(|took| took <= Duration::from_secs(3600)));
}

/// A record as a line, with this id.
fn line(record: &Record<'_>, id: &str) -> String {
    let Record { method, path, .. } = record;
    match record.what {
        What::Arrived => format!("a {method} {path} {id}"),
        What::Completed { took, status } => {
            format!("c {method} {path} {status} {} {id}", took.as_micros())
        }
        What::Whole { took, status } => {
            let micros = took.expect("lines tell it").as_micros();
            format!("r {method} {path} {status} {micros} {id}")
        }
    }
}

fn datagram(bytes: &[u8]) {
    let mut records = 0;
    let garbage = lines::read(bytes, |record| {
        records += 1;
        check(&record);
        let (mut again, token) = (None, record.token);
        let line = line(&record, "x");
        let garbage = lines::read(line.as_bytes(), |read| {
            assert_ne!(read.token, 0);
            assert_eq!(Record { token, ..read }, record);
            again = Some(());
        });
        assert_eq!((garbage, again), (0, Some(())), "{line}");
    });
    let all = bytes.split(|byte| *byte == b'\n');
    let all = all.filter(|line| !line.is_empty()).count() as u64;
    assert_eq!(records + garbage, all, "each line is one or the other");
}

/// A record's check: what all of its words but this one come to.
fn sum(record: &mut [u8]) {
    let words = record.chunks_exact(8).enumerate();
    let sum = words
        .filter(|(at, _)| *at != 1)
        .fold(0u64, |sum, (_, word)| {
            let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
    record[8..16].copy_from_slice(&sum.to_ne_bytes());
}

/// Opens a ring at the number `from`, of which `to` are begun then, with these records.
fn ring(from: u64, to: u64, bytes: &[u8], has_sums: bool) {
    let path = std::env::temp_dir().join(format!("rhythm-fuzz-ring.{}", std::process::id()));
    let mut records = bytes.to_vec();
    records.resize(RECORD * RECORDS as usize, 0);
    for record in records.chunks_exact_mut(RECORD).filter(|_| has_sums) {
        sum(record);
    }
    let head = [&b"RPORING1"[..], &128u32.to_ne_bytes(), &4u32.to_ne_bytes()].concat();
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(&path).expect("a file");
    let put = |bytes: &[u8], at: u64| file.write_all_at(bytes, at).expect("room");
    put(&head, 0);
    put(&from.to_ne_bytes(), HEAD_AT);
    put(&records, RECORD as u64);
    let ring = Ring::open(&path);
    fs::remove_file(&path).expect("it is there");
    let mut ring = ring.expect("a ring");
    put(&to.to_ne_bytes(), HEAD_AT);
    let mut given = 0;
    for millis in [0, 1, 100, 200, 300, 400] {
        let now = Duration::from_millis(millis);
        let look = ring.look(now, |record| {
            check(&record);
            given += 1;
        });
        look.expect("it is long enough");
    }
    let counts = ring.counts();
    assert!(
        given <= RECORDS && counts.records == given,
        "each is told once"
    );
    let passed = counts.records + counts.lost + counts.garbage;
    assert_eq!(passed, to.checked_sub(from).unwrap_or(1), "all are counted");
}

fuzz_target!(|input: (u8, u64, u8, &[u8])| {
    let (how, from, more, bytes) = input;
    match how % 4 {
        0 => datagram(bytes),
        1 => {
            if let Some(record) = access_log::read(bytes) {
                check(&record);
                assert!(!record.method.is_empty() && !record.path.contains(' '));
            }
        }
        _ => ring(from, from.wrapping_add(more.into()), bytes, how & 1 > 0),
    }
});
