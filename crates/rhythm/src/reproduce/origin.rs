//! Where what is reproduced comes from: which program, by which command.

use std::env;
use std::path::Path;
use std::process::Command;

/// The command line.
pub(crate) fn command() -> String {
    let words = env::args().skip(1);
    format!("rhythm {}", words.collect::<Vec<_>>().join(" "))
}

/// The commit, where the program stands in the repository that it was built in, and its version.
pub(crate) fn commit(program: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let folder = program.parent().unwrap_or(Path::new("/"));
    let git = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .output();
    let commit = git.ok().filter(|output| output.status.success());
    match commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) {
        Some(commit) => format!("{commit} (rhythm {version})"),
        None => {
            format!("not known, as the program is outside of its repository (rhythm {version})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_any_repository_no_commit_is_told_but_the_version() {
        let told = commit(Path::new("/rhythm"));
        let version = format!("(rhythm {})", env!("CARGO_PKG_VERSION"));
        assert!(
            told.starts_with("not known") && told.ends_with(&version),
            "{told}"
        );
    }
}
