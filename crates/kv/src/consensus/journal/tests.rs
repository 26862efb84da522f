use super::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What is there; and whether there is no room for as much beside it.
#[derive(Clone, Debug, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>, Rc<Cell<bool>>);

impl Disk for Memory {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Unwritten> {
        let mut file = self.0.borrow_mut();
        file.truncate(at as usize);
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

#[test]
fn what_was_written_is_read_and_a_torn_end_is_cut_off() {
    let (bytes, ends) = written();
    let (_, all) = Journal::open(Memory::default(), &bytes, 0, 5, &voters()).unwrap();
    assert_eq!((all.life, all.log.state), (2, state(2, 2)));
    let data = all.log.entries.iter().map(|entry| &entry.data[..]);
    assert_eq!(data.collect::<Vec<_>>(), [&b"one"[..], b"two", b"other"]);
    for cut in ends[0]..bytes.len() {
        let read = Journal::open(Memory::default(), &bytes[..cut], 0, 5, &voters());
        let (journal, read) = read.unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(journal.end, ends[whole - 1] as u64);
        assert_eq!(read.log.entries.len(), if whole > 1 { 3 } else { 0 });
    }
}

#[test]
fn what_goes_on_behind_a_torn_end_is_read() {
    let (bytes, ends) = written();
    let disk = Memory::default();
    *disk.0.borrow_mut() = bytes[..ends[3] - 1].to_vec();
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
    for at in 0..ends[2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let read = Journal::open(Memory::default(), &damaged, 0, 5, &voters());
        assert!(read.is_err(), "{at}");
    }
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
fn what_is_read_is_written_anew_where_there_is_room_for_it() {
    let (bytes, _) = written();
    for is_full in [false, true] {
        let disk = Memory::default();
        disk.1.set(is_full);
        // Nothing of it is on the disk.
        *disk.0.borrow_mut() = bytes.iter().map(|_| 0).collect();
        let (mut journal, read) = Journal::open(disk.clone(), &bytes, 0, 5, &voters()).unwrap();
        journal.begin(3, &read.log).unwrap();
        let now = disk.0.borrow().clone();
        let read = Journal::open(disk, &now, 0, 5, &voters());
        assert_eq!(read.is_err(), is_full);
        if let Ok((_, read)) = read {
            assert_eq!((read.life, read.log.entries.len()), (3, 3));
        }
        assert_eq!(now.len() > bytes.len(), is_full, "a life is appended");
    }
}

#[test]
fn it_is_told_whose_it_is() {
    let (bytes, _) = written();
    assert_eq!(whose(&bytes), Some(5));
    assert_eq!(whose(&bytes[..FILE_HEAD - 1]), None);
}
