//! Rings that are written as a server would, and how they are read.

use super::*;
use std::os::unix::fs::{PermissionsExt, chown};
use tempfile::TempDir;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

/// Writes a ring as a server would, in a file.
pub(crate) struct Writer {
    dir: TempDir,
    pub(crate) path: PathBuf,
    file: File,
    records: u64,
    head: u64,
}

impl Writer {
    pub(crate) fn new(records: u32) -> Writer {
        let dir = TempDir::new().expect("a folder");
        let path = dir.path().join("ring");
        let mut bytes = vec![0; RECORD * (records as usize + 1)];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(RECORD as u32).to_ne_bytes());
        bytes[12..16].copy_from_slice(&records.to_ne_bytes());
        fs::write(&path, bytes).expect("a file");
        set_mode(&path, 0o600);
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .expect("a file");
        let records = u64::from(records);
        Writer {
            dir,
            path,
            file,
            records,
            head: 0,
        }
    }

    fn open(&self) -> Ring {
        Ring::open(&self.path).expect("a ring")
    }

    /// Takes a number.
    fn begin(&mut self) -> u64 {
        self.head += 1;
        self.put(&self.head.to_ne_bytes(), HEAD_AT);
        self.head - 1
    }

    fn put(&self, bytes: &[u8], at: u64) {
        self.file.write_all_at(bytes, at).expect("a file");
    }

    fn finish(&self, number: u64, bytes: &[u8]) {
        self.put(bytes, RECORD as u64 * (1 + number % self.records));
    }

    pub(crate) fn write(&mut self, path: &str) {
        let number = self.begin();
        self.finish(number, &bytes(number, 2, "GET", path));
    }
}

fn bytes(number: u64, kind: u8, method: &str, path: &str) -> Vec<u8> {
    let mut record = vec![0; RECORD];
    record[..8].copy_from_slice(&(number + 1).to_ne_bytes());
    record[24..32].copy_from_slice(&1_500u64.to_ne_bytes());
    record[32..40].copy_from_slice(&9u64.to_ne_bytes());
    record[40..42].copy_from_slice(&200u16.to_ne_bytes());
    record[42] = kind;
    record[43] = method.len() as u8;
    record[44..46].copy_from_slice(&(path.len() as u16).to_ne_bytes());
    record[48..][..method.len()].copy_from_slice(method.as_bytes());
    record[48 + method.len()..][..path.len()].copy_from_slice(path.as_bytes());
    let sum = check(&record);
    record[8..16].copy_from_slice(&sum.to_ne_bytes());
    record
}

fn paths_at(ring: &mut Ring, now: Duration) -> Vec<String> {
    let mut paths = Vec::new();
    ring.look(now, |record| paths.push(record.path.to_owned()))
        .expect("a ring");
    paths
}

/// What is written, at one and the same time.
fn paths(ring: &mut Ring) -> Vec<String> {
    paths_at(ring, Duration::ZERO)
}

#[test]
fn what_is_written_is_told_once_and_in_order() {
    let mut writer = Writer::new(8);
    writer.write("/before");
    let mut ring = writer.open();
    assert!(
        paths(&mut ring).is_empty(),
        "what was written before it was opened is old"
    );
    for turn in 0..20 {
        let names: Vec<String> = (0..turn % 9).map(|n| format!("/{turn}/{n}")).collect();
        names.iter().for_each(|name| writer.write(name));
        assert_eq!(paths(&mut ring), names);
    }
    let number = writer.begin();
    writer.finish(number, &bytes(number, 2, "POST", "/cart"));
    ring.look(Duration::ZERO, |record| {
        let took = Duration::from_nanos(1500);
        let what = What::Completed { took, status: 200 };
        let (method, path) = ("POST", "/cart");
        assert_eq!(
            record,
            Record {
                method,
                path,
                what,
                token: 9
            }
        );
    })
    .expect("a ring");
    assert_eq!((ring.counts().garbage, ring.counts().lost), (0, 0));
}

#[test]
fn who_is_slow_loses_the_oldest_and_counts_them() {
    let mut writer = Writer::new(8);
    let mut ring = writer.open();
    (0..20).for_each(|n| writer.write(&format!("/{n}")));
    let expected: Vec<String> = (12..20).map(|n| format!("/{n}")).collect();
    assert_eq!(paths(&mut ring), expected);
    assert_eq!(
        ring.counts(),
        Counts {
            records: 8,
            lost: 12,
            garbage: 0
        }
    );
}

#[test]
fn a_writer_that_dies_midway_is_waited_for_and_then_left_out() {
    let mut writer = Writer::new(8);
    let mut ring = writer.open();
    writer.write("/a");
    let dead = writer.begin();
    writer.write("/c");
    assert_eq!(paths(&mut ring), ["/a"]);
    // It was only slow: nothing is lost.
    writer.finish(dead, &bytes(dead, 1, "GET", "/b"));
    assert_eq!(paths(&mut ring), ["/b", "/c"]);
    writer.begin();
    writer.write("/e");
    // However often it is looked for, time is what it is given.
    for ms in [0, 0, 0, 1, 19] {
        (0..50).for_each(|_| assert!(paths_at(&mut ring, Duration::from_millis(ms)).is_empty()));
    }
    // Another one that was begun meanwhile has as much.
    let slow = writer.begin();
    writer.write("/g");
    assert_eq!(paths_at(&mut ring, PATIENCE), ["/e"]);
    assert!(paths_at(&mut ring, PATIENCE * 2 - Duration::from_millis(1)).is_empty());
    writer.finish(slow, &bytes(slow, 1, "GET", "/f"));
    assert_eq!(paths_at(&mut ring, PATIENCE * 2), ["/f", "/g"]);
    assert_eq!(
        ring.counts(),
        Counts {
            records: 6,
            lost: 0,
            garbage: 1
        }
    );
}

#[test]
fn what_was_lost_takes_no_time_from_what_comes() {
    let mut writer = Writer::new(8);
    let mut ring = writer.open();
    writer.begin();
    assert!(paths(&mut ring).is_empty());
    (0..20).for_each(|n| writer.write(&format!("/{n}")));
    let slow = writer.begin();
    let later = PATIENCE * 3;
    assert_eq!(paths_at(&mut ring, later).len(), 7);
    writer.finish(slow, &bytes(slow, 1, "GET", "/slow"));
    assert_eq!(paths_at(&mut ring, later), ["/slow"]);
    assert_eq!((ring.counts().garbage, ring.counts().lost), (0, 14));
}

#[test]
fn garbage_of_any_kind_is_left_out() {
    let mut writer = Writer::new(64);
    let mut ring = writer.open();
    // Torn, of another kind, with lengths beyond the text, with a time beyond all times.
    type Spoil<'a> = &'a dyn Fn(&mut Vec<u8>);
    let spoil: [Spoil<'_>; 5] = [
        &|record| record[60] ^= 1,
        &|record| record[42] = 3,
        &|record| record[43] = 255,
        &|record| record[44..46].copy_from_slice(&u16::MAX.to_ne_bytes()),
        &|record| record[24..32].copy_from_slice(&u64::MAX.to_ne_bytes()),
    ];
    for (case, spoil) in spoil.iter().enumerate() {
        let number = writer.begin();
        let mut record = bytes(number, 2, "GET", "/x");
        spoil(&mut record);
        if case > 0 {
            let sum = check(&record);
            record[8..16].copy_from_slice(&sum.to_ne_bytes());
        }
        writer.finish(number, &record);
    }
    writer.write("/good");
    assert!(paths(&mut ring).is_empty());
    assert_eq!(paths_at(&mut ring, PATIENCE), ["/good"]);
    assert_eq!(ring.counts().garbage, 5);
    // A path of any bytes is taken up to where it is text.
    let number = writer.begin();
    let mut record = bytes(number, 1, "GET", "/abc");
    record[53] = 0xff;
    let sum = check(&record);
    record[8..16].copy_from_slice(&sum.to_ne_bytes());
    writer.finish(number, &record);
    assert_eq!(paths(&mut ring), ["/a"]);
}

#[test]
fn any_head_costs_a_bounded_look() {
    let mut writer = Writer::new(8);
    let mut ring = writer.open();
    for (turn, head) in (0..).zip([u64::MAX, 3, u64::MAX / 2, 0]) {
        writer.put(&head.to_ne_bytes(), HEAD_AT);
        for look in 0..3 {
            assert!(paths_at(&mut ring, PATIENCE * (turn * 3 + look)).is_empty());
        }
    }
    writer.head = 0;
    writer.write("/again");
    assert_eq!(paths(&mut ring), ["/again"]);
}

#[test]
fn what_is_no_ring_is_refused() {
    let refused = |path: &Path| Ring::open(path).expect_err("no ring").to_string();
    let dir = TempDir::new().expect("a folder");
    assert!(Ring::open(dir.path()).is_err());
    assert!(Ring::open(&dir.path().join("none")).is_err());
    let path = dir.path().join("short");
    fs::write(&path, "RPORING1").expect("a file");
    set_mode(&path, 0o600);
    assert!(Ring::open(&path).is_err());
    fs::write(&path, [7; 4096]).expect("a file");
    assert!(refused(&path).contains("does not begin"));
    let writer = Writer::new(8);
    for records in [0u32, 7, 16, u32::MAX] {
        writer.put(&records.to_ne_bytes(), 12);
        assert!(refused(&writer.path).contains("bytes long"), "{records}");
    }
    writer.put(&8u32.to_ne_bytes(), 12);
    let mut ring = writer.open();
    // A writer that shortens it harms nobody.
    writer.file.set_len(64).expect("a file");
    assert!(
        ring.look(Duration::ZERO, |_| ())
            .expect_err("short")
            .to_string()
            .contains("ring")
    );
    assert!(!ring.is_replaced());
    fs::remove_file(&writer.path).expect("a file");
    assert!(ring.is_replaced());
}

#[test]
fn one_that_others_may_have_made_is_not_believed() {
    let writer = Writer::new(8);
    let refused = || Ring::open(&writer.path).expect_err("no ring").to_string();
    for mode in [0o620, 0o602] {
        set_mode(&writer.path, mode);
        assert!(refused().contains("chmod go-w"), "{mode:o}");
    }
    set_mode(&writer.path, 0o644);
    let second = writer.path.with_extension("second");
    fs::hard_link(&writer.path, &second).expect("a name");
    assert!(refused().contains("other names"));
    fs::remove_file(&second).expect("a name");
    writer.open();
    // Only root can make files of others.
    if geteuid().is_root() {
        chown(&writer.path, Some(4711), None).expect("its owner");
        assert!(refused().contains("of user 4711"));
        // In a folder of its own a server may be any user.
        chown(writer.dir.path(), Some(4711), None).expect("its owner");
        writer.open();
    }
}

#[test]
fn a_pipe_in_its_place_is_not_waited_for() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let path = dir.path().join("ring");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    let error = Ring::open(&path).expect_err("it is no ring");
    let why = std::error::Error::source(&error).expect("a cause");
    assert!(why.to_string().contains("no regular file"), "{why}");
}
