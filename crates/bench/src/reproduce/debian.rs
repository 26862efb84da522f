//! Programs that Debian has in places of its own.

use std::fs;
use std::path::{Path, PathBuf};

const POSTGRES: &str = "/usr/lib/postgresql";
const APACHE: &str = "/usr/lib/apache2/modules";

/// A program of PostgreSQL's, of the newest version that is installed, or of the path.
pub(super) fn postgres(name: &str) -> PathBuf {
    let versions = fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .map(|folder| folder.path())
        .filter(|folder| folder.join("bin").join(name).exists())
        .max_by_key(version);
    newest.map_or_else(|| name.into(), |folder| folder.join("bin").join(name))
}

/// Apache's module of PHP, of the newest version that is installed.
pub(super) fn php() -> Option<PathBuf> {
    let files = fs::read_dir(Path::new(APACHE)).ok()?.flatten();
    let is_php = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libphp") && name.ends_with(".so"))
    };
    files.map(|file| file.path()).filter(is_php).max()
}
