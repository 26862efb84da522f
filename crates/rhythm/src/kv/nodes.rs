//! The file that names the nodes of a ring, or of a keyspace.

use anyhow::{Result, ensure};
use serde::Deserialize;

/// The longest name of a node.
pub(super) const NAME_MAX: usize = 64;

/// A table for each node, in their order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    node: Vec<Node>,
}

/// What it says of a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) name: String,
    /// Where clients reach it.
    pub(super) client: String,
    /// Where other nodes reach it.
    pub(super) backbone: String,
}

/// The nodes in a file's text, as they stand there: whether they can be what they are to be is not
/// looked at.
pub(super) fn nodes(text: &str) -> Result<Vec<Node>> {
    Ok(toml::from_str::<File>(text)?.node)
}

/// Whether a node can be called so: others say it in their logs, and clients read it in lines.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ensure!(
        !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(plain),
        "{name:?} is no name: letters, digits, \"-\", \"_\" and \".\", {NAME_MAX} at most"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "node-1", "cache_2.example", &"n".repeat(64)] {
            check_name(name).unwrap();
        }
        for name in ["", "a b", "a/b", "ä", &"n".repeat(65)] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains("is no name"), "{error}");
        }
    }
}
