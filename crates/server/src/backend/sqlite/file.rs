//! The file that a connection has open, which need not be the one at its path any more: it may have
//! been removed and made anew, or another was moved there. SQLite takes what is written to it all
//! the same, and that is gone with it; so a connection is opened anew then.
//!
//! SQLite finds by its path what it has beside a database (`-wal`, `-shm`). What one that is gone
//! has left there would be taken for that of the one which is there now: its transactions would be
//! carried out in it, and connections of this process to both would share an index. So it is
//! removed before the next connection is opened, and at the latest with the last that has it open.

use rusqlite::{Connection, Error};
use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What SQLite has beside a database.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Which file one is: no other has the same as long as somebody has it open.
type Inode = (u64, u64);

fn inode(path: &Path) -> Option<Inode> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A file, as connections have it open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    /// Where it was found, through links.
    place: PathBuf,
    /// None where it was replaced while it was opened.
    inode: Option<Inode>,
    /// What SQLite has beside it.
    beside: Vec<(PathBuf, Inode)>,
}

impl File {
    /// What a connection to this path has open, where this was there before it was opened.
    fn of(path: &Path, before: Option<Inode>) -> File {
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let beside = BESIDE.iter().filter_map(|end| {
            let mut path = OsString::from(&place);
            path.push(end);
            let path = PathBuf::from(path);
            let inode = inode(&path)?;
            Some((path, inode))
        });
        let beside = beside.collect();
        // Looked at last: if it still is there, so was it when these were found.
        match inode(path) == before {
            true => File {
                inode: before,
                place,
                beside,
            },
            false => File {
                inode: None,
                place,
                beside: Vec::new(),
            },
        }
    }

    /// Where another is in its place now, removes what it has left beside it.
    fn make_way(&self) -> bool {
        let now = inode(&self.place);
        let is_another = now.is_some() && self.inode.is_some() && now != self.inode;
        if is_another {
            self.remove_beside();
        }
        is_another
    }

    fn remove_beside(&self) {
        for (path, its) in &self.beside {
            if inode(path) == Some(*its) {
                // Who may not remove it may not open the other one, either.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Those that connections have open, and how many.
static OPEN: Mutex<Vec<(File, usize)>> = Mutex::new(Vec::new());

fn those_open() -> MutexGuard<'static, Vec<(File, usize)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what files that are gone have left beside those that are in their places: to be called
/// before any connection is opened.
pub(super) fn make_way() {
    for (file, _) in &*those_open() {
        file.make_way();
    }
}

/// A connection, and the file that it has open.
#[derive(Debug)]
pub(super) struct Opened {
    connection: Connection,
    path: PathBuf,
    file: File,
}

impl Opened {
    /// The connection that this opens to a path.
    pub(super) fn new(
        path: &Path,
        open: impl FnOnce() -> Result<Connection, Error>,
    ) -> Result<Opened, Error> {
        let before = inode(path);
        let connection = open()?;
        let file = File::of(path, before);
        let mut open = those_open();
        match open.iter_mut().find(|(known, _)| *known == file) {
            Some((_, count)) => *count += 1,
            None => open.push((file.clone(), 1)),
        }
        Ok(Opened {
            connection,
            path: path.to_owned(),
            file,
        })
    }

    /// Whether what it has open is what is at its path, with what SQLite has beside it.
    pub(super) fn is_current(&self) -> bool {
        let is_there = |(path, its): &(PathBuf, Inode)| inode(path) == Some(*its);
        self.file.inode.is_some()
            && inode(&self.path) == self.file.inode
            && self.file.beside.iter().all(is_there)
    }

    /// Puts what is only in the log into the file that it has open. Whether that was done whole.
    pub(super) fn is_checkpointed(&self) -> bool {
        let pragma = "pragma wal_checkpoint";
        let done = self.connection.query_row(pragma, [], |row| {
            let [busy, pages, of_them] = [row.get(0)?, row.get(1)?, row.get(2)?];
            Ok::<_, Error>((busy, pages) == (0i64, of_them))
        });
        done.unwrap_or(false)
    }
}

impl Deref for Opened {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // One that was moved elsewhere is to have what was written to it: SQLite sees to that as it
        // closes only those that are at their path.
        let has_all = !self.is_current() && self.is_checkpointed();
        let mut open = those_open();
        let at = open.iter().position(|(known, _)| *known == self.file);
        let Some(at) = at else {
            return;
        };
        open[at].1 -= 1;
        if open[at].1 == 0 {
            // The connection is closed after this: until then nothing else has its inodes.
            let (file, _) = open.swap_remove(at);
            let is_another = file.make_way();
            if has_all && inode(&file.place).is_none() {
                // Another may be moved there later, when nobody knows any more whose this is.
                file.remove_beside();
            }
            drop(open);
            if is_another {
                tracing::warn!(
                    file = %self.path.display(),
                    "the database was replaced by another file, which is used from now on: stop \
                     the server before you do so, and nothing that is answered meanwhile is lost"
                );
            }
        }
    }
}
