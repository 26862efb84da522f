//! What a store does with a memory file that is not as the last one left it: it begins without
//! items, and says why; and what a checksum cannot tell is no reason to fail.

use super::*;
use crate::store::segments::AtRest;
use crate::store::{Change, Marks, New, Value, Worker};
use std::fs::Permissions;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs, process};

const UNIX: u64 = 1_700_000_000;
/// Where the heap begins in the file.
const HEAP: usize = 2 << 20;

/// A memory file; it is gone when this is.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let name = format!("rhythm-kv-restart-{}-{name}", process::id());
        Files(env::temp_dir().join(name))
    }

    fn meta(&self) -> PathBuf {
        self.0.with_extension("meta")
    }

    /// The metadata's place is taken, and nothing is in it.
    fn holds_nothing(&self) -> bool {
        fs::metadata(self.meta()).is_ok_and(|meta| meta.len() == 0)
    }

    fn open(&self, options: &StoreOptions) -> Result<(Arc<Store>, Opened), OpenError> {
        let (store, opened) = Store::open(options.clone(), &self.0, UNIX)?;
        Ok((Arc::new(store), opened))
    }

    /// Why there is no store.
    fn refused(&self) -> String {
        let refused = self.open(&options()).map(|_| ());
        refused.expect_err("it is refused").to_string()
    }

    /// Why a store with these options finds nothing.
    fn why(&self, options: &StoreOptions) -> String {
        let (store, opened) = self.open(options).expect("there is a store");
        assert_eq!(store.stats().items, 0);
        opened.items.expect_err("nothing is found").to_string()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Whether they are there is what tests look at before.
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_file(self.meta());
    }
}

/// Random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        memory: 2 << 20,
        ..StoreOptions::default()
    }
}

/// The value of a key; one of a hundred is a long one.
fn value(number: u32) -> Vec<u8> {
    let length = if number % 100 == 7 { 20_000 } else { 100 };
    vec![number as u8; length + number as usize % 50]
}

fn set(worker: &mut Worker, number: u32, value: &[u8], expires: u32) {
    let new = New {
        value: Value::Bytes(value),
        flags: number % 3,
        expires,
        cas: None,
        marks: Marks::default(),
    };
    let (key, store) = (number.to_le_bytes(), Arc::clone(worker.store()));
    let hash = store.hash(&key);
    let stored = (worker.pin()).update(hash, &key, 100, |_| (Change::Store(new), ()));
    assert!(stored.is_ok(), "there is room");
}

const KEYS: u32 = 3000;

/// Leaves a store with items, dead ones and long ones among them.
fn leave(files: &Files, options: &StoreOptions) {
    let (store, _) = files.open(options).expect("there is a store");
    let mut worker = store.worker().expect("it is the first");
    for number in 0..KEYS {
        set(&mut worker, number, b"an earlier value", 0);
        set(&mut worker, number, &value(number), number % 5 * 1000);
    }
    drop(worker);
    let kept = store.leave_items(100, UNIX).expect("it can be left");
    assert_eq!((kept.items, kept.lost), (KEYS.into(), 0));
}

/// Every key has its value, or none where they need not be `complete`; and it goes on.
fn check(store: &Arc<Store>, now: u32, are_right: bool, complete: bool) {
    let mut worker = store.worker().expect("it is the first");
    for number in 0..KEYS {
        let key = number.to_le_bytes();
        let pinned = worker.pin();
        let item = pinned.get(store.hash(&key), &key, now);
        assert!(item.is_some() || !complete, "{number} is gone");
        if let Some(item) = item {
            let is_right = item.value() == value(number) && item.flags() == number % 3;
            assert!(is_right || !are_right, "{number}");
        }
    }
    for number in 0..KEYS {
        set(&mut worker, number + KEYS / 2, &value(number), 0);
    }
}

#[test]
fn who_comes_next_finds_all_and_after_a_crash_nothing() {
    let (files, options) = (Files::new("next"), options());
    assert_eq!(files.why(&options), "it is new");
    leave(&files, &options);
    assert!(files.meta().exists());
    let (store, opened) = files.open(&options).expect("there is a store");
    assert!(files.holds_nothing(), "nothing may be taken for whole now");
    assert_eq!((opened.now, opened.items.ok()), (100, Some(KEYS.into())));
    let refused = files.refused();
    assert!(refused.contains("another server"), "{refused}");
    check(&store, 100, true, true);
    // It ends, and leaves nothing.
    drop(store);
    let why = files.why(&options);
    assert!(why.starts_with("the last server did not end"), "{why}");
}

#[test]
fn options_that_do_not_fit_begin_without_items() {
    let (files, usual) = (Files::new("options"), options());
    let other = |change: fn(&mut StoreOptions)| {
        let mut other = usual.clone();
        change(&mut other);
        other
    };
    for (options, said) in [
        (other(|o| o.item_max += 1), "-I was 1048576, and is 1048577"),
        (other(|o| o.cas = false), "CAS ids (0: -C) was 1, and is 0"),
        // Too few of them.
        (other(|o| o.memory = 1 << 20), "and -m has 1048576"),
    ] {
        leave(&files, &usual);
        let why = files.why(&options);
        assert!(why.contains(said), "{why}");
        assert!(files.holds_nothing());
    }
    // Too few segments of that size.
    leave(&files, &other(|o| o.memory = 64 << 20));
    let why = files.why(&other(|o| o.memory = 1 << 20));
    let said = "-m was 67108864 bytes, and is 1048576 now: the items of this file are kept where \
                -m is from 2097152 to 8589934592 bytes";
    assert_eq!(why, said);
    leave(&files, &usual);
    // More of the same.
    let (store, opened) = files.open(&other(|o| o.memory = 4 << 20)).expect("a store");
    assert_eq!(opened.items.ok(), Some(KEYS.into()));
    check(&store, 100, true, true);
}

#[test]
fn items_stay_where_memory_grows_and_shrinks_to_what_they_take() {
    let files = Files::new("sizes");
    let of = |memory| StoreOptions {
        memory,
        ..options()
    };
    leave(&files, &options());
    // Others would be cut into larger segments, and into smaller ones again.
    for memory in [64 << 20, 40 << 20, 2 << 20, 33 << 20] {
        let (store, opened) = files.open(&of(memory)).expect("there is a store");
        assert_eq!(opened.items.ok(), Some(KEYS.into()), "{memory}");
        assert_eq!(store.memory(), memory);
        let heap = fs::metadata(&files.0).expect("it is there").len() as usize - HEAP;
        assert_eq!(heap, memory);
        let kept = store.leave_items(100, UNIX).expect("it can be left");
        assert_eq!((kept.items, kept.lost), (KEYS.into(), 0));
    }
    let (store, _) = files.open(&of(64 << 20)).expect("there is a store");
    check(&store, 100, true, true);
}

#[test]
fn what_a_version_before_left_beside_goes() {
    let files = Files::new("new");
    let beside = files.0.with_extension("meta.new");
    fs::write(&beside, b"form 1").expect("it can be written");
    let (store, _) = files.open(&options()).expect("there is a store");
    assert!(!beside.exists());
    drop(store);
    // Whatever else is called so stays.
    fs::create_dir(&beside).expect("a folder can be made");
    files.open(&options()).expect("there is a store");
    fs::remove_dir(&beside).expect("it is there");
}

/// Where nobody can make files, not even root.
#[test]
fn a_folder_that_one_may_not_write_to_is_told_with_what_to_do() {
    let path = Path::new("/sys/items");
    if !Path::new("/sys/kernel").exists() {
        return;
    }
    let refused = Store::open(options(), path, UNIX).map(|_| ());
    let refused = refused.expect_err("it cannot be made").to_string();
    assert!(
        refused.starts_with("cannot make /sys/items, since this user"),
        "{refused}"
    );
    assert!(
        refused.ends_with("where PATH and PATH.meta can be made"),
        "{refused}"
    );
}

#[test]
fn a_file_that_is_full_to_its_end_takes_back_what_is_dead() {
    let (files, most) = (
        Files::new("full"),
        StoreOptions {
            evict: false,
            ..options()
        },
    );
    // With more memory than the next one has, which is as much as is used.
    let (store, _) = files
        .open(&StoreOptions {
            memory: 4 << 20,
            ..most.clone()
        })
        .expect("there is a store");
    let mut worker = store.worker().expect("it is the first");
    let mut items = 0;
    while store.stats().memory_used < 2 << 20 {
        set(&mut worker, items, &[7; 1000], 0);
        items += 1;
    }
    drop(worker);
    store.leave_items(100, UNIX).expect("it can be left");
    drop(store);
    let (store, opened) = files.open(&most).expect("there is a store");
    assert_eq!(opened.items.ok(), Some(items.into()));
    assert_eq!(store.stats().memory_used, 2 << 20);
    let mut worker = store.worker().expect("it is the first");
    let mut try_to = |change: Change<'_>, number: u32| {
        let key = number.to_le_bytes();
        let done = (worker.pin()).update(store.hash(&key), &key, 100, |_| (change, ()));
        done.is_ok()
    };
    let new = Change::Store(New {
        value: Value::Bytes(&[8; 1000]),
        flags: 0,
        expires: 0,
        cas: None,
        marks: Marks::default(),
    });
    for number in (0..items).filter(|number| number % 2 == 0) {
        assert!(try_to(Change::Remove, number));
    }
    // Much is dead, and when the last segment is full there is nowhere to move the rest to.
    let more = (items..).take_while(|number| try_to(new, *number)).count();
    assert!(more < 64);
    for number in items / 2..items {
        assert!(try_to(Change::Remove, number));
    }
    let stored = (0..items / 4)
        .filter(|number| try_to(new, number * 2))
        .count();
    assert_eq!(stored, items as usize / 4);
}

#[test]
fn what_is_in_a_file_is_its_users_alone() {
    let files = Files::new("rights");
    fs::write(&files.0, b"").expect("it can be written");
    let mode = |path: &PathBuf| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
    };
    fs::set_permissions(&files.0, Permissions::from_mode(0o666)).expect("it is ours");
    fs::write(files.meta(), b"form").expect("it can be written");
    fs::set_permissions(files.meta(), Permissions::from_mode(0o644)).expect("it is ours");
    let (store, _) = files.open(&options()).expect("there is a store");
    let modes = [&files.0, &files.meta()].map(|path| mode(path) & 0o777);
    assert_eq!(modes, [0o600; 2]);
    // Nobody else takes the place meanwhile.
    assert!(fs::File::create_new(files.meta()).is_err());
    store.leave_items(100, UNIX).expect("it can be left");
    assert!(!files.holds_nothing());
    drop(store);
    // Only root can give files away.
    if chown(&files.0, Some(12_345), None).is_ok() {
        let refused = files.refused();
        assert!(refused.contains("is another user's"), "{refused}");
        assert!(files.meta().exists());
        chown(&files.0, Some(0), None).expect("as above");
    }
}

#[test]
fn what_stands_where_items_are_left_is_told_at_the_start_or_not_taken() {
    let (files, elsewhere) = (Files::new("taken"), Files::new("taken-elsewhere"));
    let meta = files.meta();
    let fifo = |path: &PathBuf| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("a pipe can be made");
    };
    fs::write(&elsewhere.0, b"precious").expect("it can be written");
    let check = |made: &dyn Fn()| {
        made();
        let refused = files.refused();
        assert!(refused.contains("remove it, or give a path"), "{refused}");
        assert!(!files.0.exists(), "it was made for nothing");
        let _ = fs::remove_file(&meta).or_else(|_| fs::remove_dir(&meta));
    };
    // None of these is waited for.
    check(&|| fifo(&meta));
    check(&|| symlink(&elsewhere.0, &meta).expect("a link can be made"));
    check(&|| symlink(files.0.with_extension("none"), &meta).expect("a link can be made"));
    check(&|| fs::hard_link(&elsewhere.0, &meta).expect("a link can be made"));
    check(&|| fs::create_dir(&meta).expect("a folder can be made"));
    // Only root can give files away.
    fs::write(&meta, b"").expect("it can be written");
    if chown(&meta, Some(12_345), None).is_ok() {
        check(&|| {});
    }
    let _ = fs::remove_file(&meta);
    fifo(&files.0);
    assert!(files.refused().contains("is no memory file"));
    fs::remove_file(&files.0).expect("it is there");
    assert_eq!(fs::read(&elsewhere.0).expect("it is there"), b"precious");
    // What is refused costs nothing of what was left.
    leave(&files, &options());
    fs::rename(&meta, &elsewhere.0).expect("it is there");
    fifo(&meta);
    assert!(files.refused().contains("remove it"));
    fs::rename(&elsewhere.0, &meta).expect("it is there");
    let (store, opened) = files.open(&options()).expect("there is a store");
    assert_eq!(opened.items.ok(), Some(KEYS.into()));
    // Who may take it away may do so at the end, too; then that is said.
    fs::remove_file(&meta).expect("it is there");
    fs::write(&meta, b"another's").expect("it can be written");
    let refused = store.leave_items(100, UNIX).expect_err("it is not there");
    assert!(refused.to_string().contains("nobody else"), "{refused}");
    assert_eq!(fs::read(&meta).expect("it is there"), b"another's");
}

#[test]
fn a_file_without_room_is_not_left_behind() {
    let files = Files::new("room");
    let refused = files.open(&StoreOptions {
        memory: 1 << 46,
        ..options()
    });
    assert!(matches!(
        refused,
        Err(OpenError::File(FileError::Room { .. }))
    ));
    assert!(!files.0.exists() && !files.meta().exists());
}

#[test]
fn a_file_of_another_program_stays_as_it_is() {
    let files = Files::new("other");
    fs::write(&files.0, b"precious").expect("it can be written");
    let refused = files.refused();
    assert!(refused.contains("stays as it is"), "{refused}");
    assert_eq!(fs::read(&files.0).expect("it is there"), b"precious");
}

#[test]
fn bytes_that_changed_are_noticed() {
    let (files, options) = (Files::new("damage"), options());
    leave(&files, &options);
    let (heap, meta) = (fs::read(&files.0), fs::read(files.meta()));
    let (heap, meta) = (heap.expect("the heap"), meta.expect("the metadata"));
    let mut random = Random(1);
    let (mut found, mut refused) = (0, 0);
    for case in 0..200 {
        let (mut heap, mut meta) = (heap.clone(), meta.clone());
        let mut is_meta = false;
        match case % 5 {
            0 => {
                is_meta = true;
                let at = random.below(meta.len() as u64) as usize;
                meta[at] ^= 1 << random.below(8);
            }
            1 => {
                is_meta = true;
                meta.truncate(random.below(meta.len() as u64) as usize);
            }
            2 | 3 => {
                let at = HEAP + random.below((heap.len() - HEAP) as u64) as usize;
                heap[at] ^= 1 << random.below(8);
            }
            _ => heap.truncate(HEAP + random.below((heap.len() - HEAP) as u64) as usize),
        }
        fs::write(&files.0, &heap).expect("it can be written");
        fs::write(files.meta(), &meta).expect("it can be written");
        let (store, opened) = files.open(&options).expect("there is a store");
        match opened.items {
            // Where no item was.
            Ok(items) => {
                assert!(!is_meta && items == u64::from(KEYS));
                found += 1;
            }
            Err(why) => {
                assert_eq!(store.stats().items, 0, "{why}");
                refused += 1;
            }
        }
        check(&store, 100, true, false);
    }
    assert!(
        found > 5 && refused > 100,
        "{found} found, {refused} refused"
    );
}

/// Makes the metadata fit what is in the heap now.
fn forge(files: &Files, meta: &mut Meta) {
    let heap = fs::File::open(&files.0).expect("it is there");
    let size = meta.layout.segment_bytes();
    let unit = meta.layout.unit;
    let file = MemoryFile::open(&files.0).expect("it is ours");
    for (of, checksum) in &mut meta.rest.segments {
        let (at, bytes) = (of.index as usize * size, (of.used as usize) << unit);
        if heap.metadata().expect("its length").len() >= (HEAP + at + bytes) as u64 {
            *checksum = file
                .checksum(at, bytes, &mut Vec::new())
                .expect("it is read");
        }
    }
    fs::write(files.meta(), meta.text()).expect("it can be written");
}

#[test]
fn what_lies_with_a_right_checksum_is_looked_at_with_care() {
    let (files, options) = (Files::new("forged"), options());
    leave(&files, &options);
    let (heap, meta) = (fs::read(&files.0), fs::read(files.meta()));
    let (heap, meta) = (heap.expect("the heap"), meta.expect("the metadata"));
    let meta = Meta::read(&meta).expect("it was left");
    let mut random = Random(2);
    let (mut found, mut refused) = (0, 0);
    for case in 0..300 {
        fs::write(&files.0, &heap).expect("it can be written");
        let mut meta = meta.clone();
        if case % 3 == 0 {
            let at = random.below(meta.rest.segments.len() as u64) as usize;
            let of: &mut AtRest = &mut meta.rest.segments[at].0;
            match random.below(8) {
                0 => of.index = random.below(40) as u32,
                1 => of.used = random.below(1 << 15) as u32,
                2 => of.group = random.below(40) as usize,
                3 => of.is_open = !of.is_open,
                4 => meta.rest.long.0 = random.below(1 << 22),
                5 => meta.rest.items = random.below(1 << 62),
                6 => meta.now = random.below(1 << 32) as u32,
                _ => meta.layout.unit = random.below(70) as u32,
            }
        } else {
            // Lengths, mostly.
            let at = random.below(meta.rest.segments.len() as u64) as usize;
            let of = meta.rest.segments[at].0;
            let start = HEAP + of.index as usize * meta.layout.segment_bytes();
            let file = fs::File::options().write(true).open(&files.0);
            let file = file.expect("it is there");
            for _ in 0..1 + random.below(20) {
                let at = start as u64 + random.below(u64::from(of.used)) * 4;
                let word = (random.below(1 << 32) as u32).to_le_bytes();
                file.write_all_at(&word[..1 + random.below(4) as usize], at)
                    .expect("it can be written");
            }
        }
        forge(&files, &mut meta);
        let (store, opened) = files.open(&options).expect("there is a store");
        let now = opened.now.max(100);
        match opened.items {
            Ok(_) => found += 1,
            Err(_) => refused += 1,
        }
        // It may be wrong, and is read and replaced as any other.
        check(&store, now, false, false);
        let worker = &mut store.worker().expect("it is the first");
        let pinned = worker.pin();
        let mut bytes = 0;
        for bucket in 0.. {
            let more = pinned.walk(bucket, |item| {
                bytes += item.value().len() + item.key().len()
            });
            if !more {
                break;
            }
        }
    }
    assert!(
        found > 20 && refused > 50,
        "{found} found, {refused} refused"
    );
}

#[test]
fn metadata_reads_as_it_was_written() {
    let of = AtRest {
        index: 3,
        used: 77,
        group: 29,
        is_open: true,
    };
    let meta = Meta {
        layout: Layout::of(1 << 30),
        memory: 1 << 30,
        item_max: 1 << 20,
        has_cas: true,
        now: 99,
        unix: UNIX,
        cas: u64::MAX,
        flushed: Flushes::default().flushed(),
        rest: super::super::meta::Rest {
            items: 5,
            long: (1, 2),
            segments: vec![(of, u64::MAX); 3],
        },
    };
    let text = meta.text();
    assert_eq!(Meta::read(text.as_bytes()).ok(), Some(meta));
    let other = text.replace("form 1", "form 2");
    assert!(matches!(Meta::read(other.as_bytes()), Err(Unkept::Form)));
}
