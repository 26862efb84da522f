//! What is left in the folder, and read again.

use super::error::ReproduceError;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a report at most.
const REPORT_MAX: u64 = 64 << 20;

/// Reads a report, up to its bound.
pub(super) fn read(path: &Path) -> Result<String, ReproduceError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(REPORT_MAX).read_to_string(&mut text));
    read.map_err(ReproduceError::file(path))?;
    Ok(text)
}

/// Writes charts, tables and data.
pub(super) fn write(files: Vec<(&str, String)>, out: &Path) -> Result<(), ReproduceError> {
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(ReproduceError::file(&path))?;
    }
    Ok(())
}
