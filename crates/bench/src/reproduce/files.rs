//! What is left in the folder, and read again.

use super::error::ReproduceError;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a report at most.
const REPORT_MAX: u64 = 64 << 20;

/// Reads a report, up to its bound.
pub(super) fn read(path: &Path) -> Result<String, ReproduceError> {
    let whole = || {
        // What is no file may never end, or never begin.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut text = String::new();
        File::open(path)?
            .take(REPORT_MAX)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    whole().map_err(ReproduceError::file(path))
}

/// Writes charts, tables and data.
pub(super) fn write(files: Vec<(&str, String)>, out: &Path) -> Result<(), ReproduceError> {
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(ReproduceError::file(&path))?;
    }
    Ok(())
}
