//! What is left in the folder.

use super::error::ReproduceError;
use std::path::Path;

/// Writes charts, tables and data.
pub(super) fn write(files: Vec<(&str, String)>, out: &Path) -> Result<(), ReproduceError> {
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(ReproduceError::file(&path))?;
    }
    Ok(())
}
