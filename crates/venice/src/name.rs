//! What a node is called.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most bytes of a name.
pub const NAME_MAX: usize = 64;

/// The name of a node: its own among all of a monitor, the same over restarts. Letters, digits,
/// dots, dashes and underscores, so that it can stand in a table, a label and a log.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// What is no name of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node's name has 1 to 64 letters, digits, dots, dashes and underscores")]
pub struct BadName;

impl FromStr for NodeName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<NodeName, BadName> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_good) {
            true => Ok(NodeName(text.into())),
            false => Err(BadName),
        }
    }
}

impl NodeName {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_stand_in_a_table() {
        for good in ["a", "node-7.rack_2", &"x".repeat(64)] {
            assert_eq!(good.parse::<NodeName>().expect("a name").as_str(), good);
        }
        for bad in ["", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert_eq!(bad.parse::<NodeName>(), Err(BadName), "{bad:?}");
        }
    }
}
