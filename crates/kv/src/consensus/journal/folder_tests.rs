use super::*;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::os::unix::fs::PermissionsExt;
use std::thread;

fn path(test: &str) -> PathBuf {
    let name = format!("rhythm-keyspace-{}-{test}", std::process::id());
    std::env::temp_dir().join(name)
}

#[test]
fn a_folder_is_begun_once_and_used_by_one() {
    let path = path("begun");
    assert!(matches!(
        Folder::open(&path, false),
        Err(FolderError::Empty(_))
    ));
    let (mut folder, bytes) = Folder::open(&path, true).unwrap();
    assert!(bytes.is_empty());
    assert!(matches!(
        Folder::open(&path, true),
        Err(FolderError::InUse(_))
    ));
    folder.replace(b"base").unwrap();
    drop(folder);
    assert!(matches!(
        Folder::open(&path, true),
        Err(FolderError::Begun(_))
    ));
    assert_eq!(Folder::open(&path, false).unwrap().1, b"base");
    fs::remove_file(path.join("journal")).unwrap();
    assert!(matches!(
        Folder::open(&path, false),
        Err(FolderError::Empty(_))
    ));
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn what_is_written_is_there_and_what_was_behind_it_is_not() {
    let path = path("written");
    let (mut folder, _) = Folder::open(&path, true).unwrap();
    folder.replace(b"base").unwrap();
    assert!(folder.has_room());
    folder.write(4, b"-one").unwrap();
    folder.sync().unwrap();
    folder.write(8, b"-torn").unwrap();
    // As if that had failed: it is written again.
    folder.end = u64::MAX;
    assert!(!folder.has_room());
    folder.write(8, b"-2").unwrap();
    assert!(folder.has_room());
    folder.sync().unwrap();
    drop(folder);
    assert_eq!(Folder::open(&path, false).unwrap().1, b"base-one-2");
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn an_empty_journal_has_lost_what_was_in_it() {
    let path = path("empty");
    fs::create_dir_all(&path).unwrap();
    File::create(path.join("journal")).unwrap();
    let opened = Folder::open(&path, false);
    assert!(matches!(opened, Err(FolderError::Emptied(_))));
    fs::remove_dir_all(path).unwrap();
}

/// Those above it are on the disk before anything is confirmed, whoever made them.
#[test]
fn what_a_new_folder_lies_in_is_synced() {
    let above = path("above");
    let path = above.join("keyspace").join("a");
    let (folder, _) = Folder::open(&path, true).unwrap();
    assert!(folder.sync_times().sum() > 0);
    drop(folder);
    // They are there: who made them may have been killed just then, as may who named the journal.
    let (mut folder, _) = Folder::open(&path, true).unwrap();
    assert!(folder.sync_times().sum() > 0);
    folder.replace(b"base").unwrap();
    drop(folder);
    let (folder, _) = Folder::open(&path, false).unwrap();
    assert!(folder.sync_times().sum() > 0);
    drop(folder);
    fs::remove_dir_all(above).unwrap();
}

/// Such as a folder of mode 0733, where everybody makes what is his own.
#[test]
fn what_may_not_be_read_is_synced_with_its_file_system() {
    let above = path("unread");
    fs::create_dir_all(&above).unwrap();
    let mode = |mode| fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o333);
    // Root reads it all the same, but for a thread that has nothing of root but its name.
    let synced = thread::scope(|scope| {
        let nameless = scope.spawn(|| {
            let none = CapabilitySet::empty();
            let sets = CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            };
            set_capabilities(None, sets).unwrap();
            assert!(File::open(&above).is_err());
            let (folder, _) = Folder::open(&above.join("a"), true).unwrap();
            folder.sync_times().sum()
        });
        nameless.join().unwrap()
    });
    assert!(synced > 0);
    mode(0o700);
    fs::remove_dir_all(above).unwrap();
}
