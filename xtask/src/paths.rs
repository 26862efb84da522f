//! Where the repository is, and where things that are made go.

use std::path::{Path, PathBuf};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ lies in the repository's root")
}

/// Where cargo, too, puts what it makes.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || root().join("target"),
        |given| {
            // Cargo means it from where it was started, as we do.
            std::env::current_dir().unwrap_or_default().join(given)
        },
    )
}
