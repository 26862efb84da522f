use super::*;
use records::BLOCK;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What is there; and whether there is no room for as much beside it.
#[derive(Clone, Debug, Default)]
pub(in crate::consensus) struct Memory(
    pub(in crate::consensus) Rc<RefCell<Vec<u8>>>,
    Rc<Cell<bool>>,
);

impl Disk for Memory {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut file = self.0.borrow_mut();
        file.resize(at as usize, 0);
        file.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Unwritten> {
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), Unwritten> {
        if self.1.get() {
            return Err(Unwritten::Yet(io::ErrorKind::StorageFull.into()));
        }
        *self.0.borrow_mut() = bytes.to_vec();
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        true
    }
}

fn voters() -> ConfState {
    ConfState::from((vec![1, 2, 3], vec![]))
}

fn entry(index: u64, term: u64, data: &[u8]) -> Entry {
    let mut entry = Entry::default();
    (entry.index, entry.term) = (index, term);
    entry.data = data.to_vec().into();
    entry
}

fn state(term: u64, commit: u64) -> HardState {
    let mut state = HardState::default();
    (state.term, state.vote, state.commit) = (term, 1, commit);
    state
}

/// Two lives and some entries, and where each record ends.
fn written() -> (Vec<u8>, Vec<usize>) {
    let disk = Memory::default();
    let (mut journal, recovered) = Journal::open(disk.clone(), &[], 77, 5, &voters()).unwrap();
    let mut ends = Vec::new();
    let mut note = || ends.push(disk.0.borrow().len());
    journal.begin(1, &recovered.log).unwrap();
    note();
    let entries = [
        entry(1, 1, b"one"),
        entry(2, 1, b"two"),
        entry(3, 1, b"three"),
    ];
    journal.append(&state(1, 1), &entries).unwrap();
    note();
    journal
        .append(&state(2, 2), &[entry(3, 2, b"other")])
        .unwrap();
    note();
    journal.begin_life(2).unwrap();
    note();
    let bytes = disk.0.borrow().clone();
    (bytes, ends)
}

/// Where the records lie, without what fills their blocks.
fn records(bytes: &[u8]) -> Vec<Range<usize>> {
    const HEAD: usize = 32;
    let starts = (0..bytes.len()).step_by(BLOCK).map(|at| at.max(FILE_HEAD));
    let records = starts.map(|at| {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap());
        at..at + HEAD + length as usize
    });
    records.collect()
}

/// As the release before wrote it.
fn written_before() -> Vec<u8> {
    let (bytes, _) = written();
    let packed = Records {
        form: Form::Packed,
        salt: 77,
    };
    let blocks = Records {
        form: Form::Blocks,
        ..packed
    };
    let mut before = b"RhyKeys2".to_vec();
    before.extend_from_slice(&bytes[8..FILE_HEAD]);
    for (number, record) in (0..).zip(records(&bytes)) {
        let (said, _) = blocks.decode(&bytes, record.start, number).unwrap();
        before.extend(packed.encode_packed(number, said));
    }
    before
}

#[test]
fn what_was_written_is_read_and_a_torn_end_is_cut_off() {
    let (bytes, ends) = written();
    let (_, all) = Journal::open(Memory::default(), &bytes, 0, 5, &voters()).unwrap();
    assert_eq!((all.life, all.log.state), (2, state(2, 2)));
    let data = all.log.entries.iter().map(|entry| &entry.data[..]);
    assert_eq!(data.collect::<Vec<_>>(), [&b"one"[..], b"two", b"other"]);
    let all_records = records(&bytes);
    for cut in ends[0]..bytes.len() {
        let read = Journal::open(Memory::default(), &bytes[..cut], 0, 5, &voters());
        let (journal, read) = read.unwrap();
        let whole = all_records.iter().filter(|one| one.end <= cut).count();
        assert_eq!(journal.end, ends[whole - 1] as u64);
        assert_eq!(read.log.entries.len(), if whole > 1 { 3 } else { 0 });
    }
}

#[test]
fn what_goes_on_behind_a_torn_end_is_read() {
    let (bytes, ends) = written();
    let disk = Memory::default();
    *disk.0.borrow_mut() = bytes[..ends[2] + 40].to_vec();
    let torn = disk.0.borrow().clone();
    let (mut journal, _) = Journal::open(disk.clone(), &torn, 0, 5, &voters()).unwrap();
    journal
        .append(&state(3, 3), &[entry(4, 3, b"four")])
        .unwrap();
    let bytes = disk.0.borrow().clone();
    let (_, read) = Journal::open(disk, &bytes, 0, 5, &voters()).unwrap();
    assert_eq!((read.life, read.log.entries.len()), (1, 4));
}

#[test]
fn damage_before_the_end_is_no_torn_end() {
    let (bytes, ends) = written();
    let synced = &records(&bytes)[..3];
    for at in (0..FILE_HEAD).chain(synced.iter().cloned().flatten()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let read = Journal::open(Memory::default(), &damaged, 0, 5, &voters());
        assert!(read.is_err(), "{at}");
    }
    // All that was said since is damaged, too.
    let mut damaged = bytes.clone();
    damaged[ends[1] + 40..ends[2]].fill(0xff);
    damaged[ends[2] + 32..].fill(0xff);
    let read = Journal::open(Memory::default(), &damaged, 0, 5, &voters());
    assert_eq!(read.err(), Some(Damaged { at: ends[1] as u64 }));
    // Nobody was told of the last record.
    let mut damaged = bytes.clone();
    damaged[ends[2] + 3] ^= 1;
    assert!(Journal::open(Memory::default(), &damaged, 0, 5, &voters()).is_ok());
}

#[test]
fn a_new_base_takes_the_place_of_all() {
    let (bytes, _) = written();
    let disk = Memory::default();
    let (mut journal, read) = Journal::open(disk.clone(), &bytes, 0, 5, &voters()).unwrap();
    assert!(journal.grown() > 0);
    let mut log = read.log;
    log.snapshot.data = b"all".to_vec().into();
    log.snapshot.mut_metadata().index = 2;
    log.snapshot.mut_metadata().term = 1;
    log.snapshot.mut_metadata().set_conf_state(voters());
    log.forget(1);
    journal.replace(3, &log).unwrap();
    assert_eq!(journal.grown(), 0);
    journal
        .append(&state(4, 3), &[entry(4, 4, b"four")])
        .unwrap();
    let bytes = disk.0.borrow().clone();
    let (_, read) = Journal::open(disk, &bytes, 0, 5, &voters()).unwrap();
    assert_eq!((read.life, read.log.before), (3, (1, 1)));
    assert_eq!(read.log.snapshot, log.snapshot);
    let indexes = read.log.entries.iter().map(|entry| entry.index);
    assert_eq!(indexes.collect::<Vec<_>>(), [2, 3, 4]);
}

/// What was written before the sync that failed is read, and is lost when the machine dies.
#[test]
fn what_is_read_is_written_anew_all_or_what_may_not_be_on_the_disk() {
    let (bytes, ends) = written();
    for (is_full, on_disk) in [(false, 0), (true, ends[2])] {
        let disk = Memory::default();
        disk.1.set(is_full);
        *disk.0.borrow_mut() = bytes.clone();
        disk.0.borrow_mut()[on_disk..].fill(0);
        let (mut journal, read) = Journal::open(disk.clone(), &bytes, 0, 5, &voters()).unwrap();
        journal.begin(3, &read.log).unwrap();
        journal.append(&state(3, 3), &[]).unwrap();
        let now = disk.0.borrow().clone();
        let (_, read) = Journal::open(disk, &now, 0, 5, &voters()).unwrap();
        assert_eq!((read.life, read.log.entries.len()), (3, 3));
        assert_eq!(now.len() > bytes.len(), is_full, "a life is appended");
    }
}

#[test]
fn a_journal_of_before_is_read_and_written_anew() {
    let before = written_before();
    assert_eq!(whose(&before), Some(5));
    let disk = Memory::default();
    *disk.0.borrow_mut() = before.clone();
    let (mut journal, read) = Journal::open(disk.clone(), &before, 0, 5, &voters()).unwrap();
    assert_eq!((read.life, read.log.entries.len()), (2, 3));
    // It is not added to.
    disk.1.set(true);
    assert!(matches!(
        journal.begin(3, &read.log),
        Err(Unwritten::Yet(_))
    ));
    assert_eq!(*disk.0.borrow(), before);
    disk.1.set(false);
    journal.begin(3, &read.log).unwrap();
    let now = disk.0.borrow().clone();
    assert!(now.starts_with(FILE_MAGIC));
    let (_, read) = Journal::open(disk, &now, 0, 5, &voters()).unwrap();
    assert_eq!((read.life, read.log.entries.len()), (3, 3));
    let before_last = before.len() - 24 - 9;
    for at in 0..before_last {
        let mut damaged = before.clone();
        damaged[at] ^= 1;
        let read = Journal::open(Memory::default(), &damaged, 0, 5, &voters());
        assert!(read.is_err(), "{at}");
    }
    let torn = &before[..before.len() - 1];
    let (_, read) = Journal::open(Memory::default(), torn, 0, 5, &voters()).unwrap();
    assert_eq!((read.life, read.log.entries.len()), (1, 3));
}

/// What looks like a record's head by its first bytes costs next to nothing.
#[test]
fn a_torn_end_that_is_made_to_look_like_records_is_read_at_once() {
    const LONG: u32 = 4 << 20;
    let like_head = [&b"RKr\n"[..], &LONG.to_le_bytes()].concat();
    let value = like_head.repeat(1 << 20);
    for mut bytes in [written().0, written_before()] {
        bytes.extend_from_slice(&value);
        let start = Instant::now();
        Journal::open(Memory::default(), &bytes, 0, 5, &voters()).unwrap();
        // It would be half a million times 4 MiB.
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn many_short_records_are_too_many_too() {
    let (_, recovered) = Journal::open(Memory::default(), &[], 77, 5, &voters()).unwrap();
    let (mut journal, _) = Journal::open(Memory::default(), &[], 77, 5, &voters()).unwrap();
    journal.begin(1, &recovered.log).unwrap();
    for _ in 0..RECORDS_MAX {
        assert!(!journal.is_long(u64::MAX));
        journal.begin_life(2).unwrap();
    }
    assert!(journal.is_long(u64::MAX));
    assert!(journal.is_long(RECORDS_MAX));
    journal.replace(3, &recovered.log).unwrap();
    assert!(!journal.is_long(0));
}

#[test]
fn what_was_forgotten_stays_so() {
    let (bytes, _) = written();
    let disk = Memory::default();
    *disk.0.borrow_mut() = bytes.clone();
    let (mut journal, read) = Journal::open(disk.clone(), &bytes, 0, 5, &voters()).unwrap();
    assert!(!read.has_forgotten);
    journal.forget().unwrap();
    let now = disk.0.borrow().clone();
    let (_, read) = Journal::open(disk, &now, 0, 5, &voters()).unwrap();
    assert!(read.has_forgotten);
}

#[test]
fn it_is_told_whose_it_is() {
    let (bytes, _) = written();
    assert_eq!(whose(&bytes), Some(5));
    assert_eq!(whose(&bytes[..FILE_HEAD - 1]), None);
}
