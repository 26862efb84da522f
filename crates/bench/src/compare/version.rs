//! Which versions of servers were compared.

use super::case::Peer;
use super::names::Names;
use super::servers::found;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The crates that programs of crates/bench/peers are built of.
const LOCK: &str = "crates/bench/peers/Cargo.lock";
const UNKNOWN: &str = "version not known";

/// Of a server.
pub(super) fn of(peer: &Peer, names: &Names, root: &Path) -> String {
    if !peer.crates.is_empty() {
        let lock = fs::read_to_string(root.join(LOCK)).unwrap_or_default();
        let version = |name: &String| {
            let version = in_lock(&lock, name).unwrap_or(UNKNOWN);
            format!("{name} {version}")
        };
        let versions: Vec<String> = peer.crates.iter().map(version).collect();
        return versions.join(", ");
    }
    told(peer, names).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// What the program says itself.
fn told(peer: &Peer, names: &Names) -> Option<String> {
    let words: Vec<String> = peer
        .version
        .iter()
        .map(|word| names.put(word))
        .collect::<Result<_, _>>()
        .ok()?;
    let (program, arguments) = words.split_first()?;
    let output = Command::new(found(program)?)
        .args(arguments)
        .output()
        .ok()?;
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Some(
        said.lines()
            .next()?
            .trim()
            .trim_start_matches("nginx version: ")
            .to_owned(),
    )
}

/// The version of a crate in a Cargo.lock.
fn in_lock<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let name = format!("name = \"{name}\"");
    let mut lines = lock.lines();
    lines.find(|line| *line == name)?;
    lines
        .next()?
        .strip_prefix("version = \"")?
        .strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_a_lock() {
        let lock = "[[package]]\nname = \"axum-core\"\nversion = \"1\"\n\n[[package]]\n\
            name = \"axum\"\nversion = \"0.8.4\"\n";
        assert_eq!(in_lock(lock, "axum"), Some("0.8.4"));
        assert_eq!(in_lock(lock, "actix"), None);
    }
}
