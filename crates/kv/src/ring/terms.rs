//! What all nodes of a ring are to be told alike, and how what two were told differs.
//!
//! A node says it to who it does not know yet, where it greets him; who was told otherwise is
//! refused, and what differs is said.

use crate::checksum::checksum;
use std::collections::{BTreeMap, BTreeSet};

/// How many differences are said.
const DIFFERENCES_MAX: usize = 3;

/// What one node was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// `name=value`, one behind the other, and in front the node's own name.
    text: String,
    digest: u64,
}

impl Terms {
    /// What the node of this name was told: names, and their values.
    pub fn new(node: &str, told: impl IntoIterator<Item = (String, String)>) -> Terms {
        let told = told.into_iter();
        let told: String = told
            .map(|(name, value)| format!("\n{name}={value}"))
            .collect();
        Terms {
            digest: checksum([0, 0], told.as_bytes()),
            text: format!("{node}{told}"),
        }
    }

    /// A number that is the same for nodes that were told the same.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// How it is said to others, in so many bytes at most.
    pub fn text(&self, bytes_max: usize) -> &[u8] {
        let text = self.text.as_bytes();
        match text.get(..bytes_max) {
            None => text,
            // Whole lines: half of one would differ.
            Some(front) => {
                let end = front.iter().rposition(|byte| *byte == b'\n');
                &front[..end.map_or(0, |end| end + 1)]
            }
        }
    }

    /// What another node calls itself, and how what it says that it was told differs, in words;
    /// none: it does not say that.
    pub fn differences(&self, theirs: &[u8]) -> Option<(String, String)> {
        let theirs = std::str::from_utf8(theirs).ok()?;
        let whole = theirs.strip_suffix('\n');
        let (name, theirs) = read(whole.unwrap_or(theirs)).filter(|(name, _)| !name.is_empty())?;
        let (_, mut ours) = read(&self.text)?;
        if whole.is_some() {
            // There was no room for more.
            ours.retain(|what, _| theirs.contains_key(what));
        }
        let what: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
        let differ = what
            .iter()
            .filter(|what| ours.get(*what) != theirs.get(*what));
        let or_nothing = |value: Option<&&str>| value.map_or("nothing", |value| *value).to_owned();
        let said = differ.take(DIFFERENCES_MAX).map(|what| {
            let (here, there) = (or_nothing(ours.get(what)), or_nothing(theirs.get(what)));
            format!("{what} is {here} here, and {there} there")
        });
        Some((name.to_owned(), said.collect::<Vec<_>>().join("; ")))
    }
}

/// Whose it is, and values by their names.
fn read(text: &str) -> Option<(&str, BTreeMap<&str, &str>)> {
    let mut lines = text.split('\n');
    let name = lines.next()?;
    let told = lines.map(|line| line.split_once('='));
    Some((name, told.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(node: &str, told: &[(&str, &str)]) -> Terms {
        let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Terms::new(node, told.iter().map(owned))
    }

    #[test]
    fn what_differs_is_named_with_both_values() {
        let ours = terms("a", &[("--replicas", "1"), ("node 1", "a h:1")]);
        let same = terms("b", &[("--replicas", "1"), ("node 1", "a h:1")]);
        assert_eq!(ours.digest(), same.digest());
        let other = terms("b", &[("--replicas", "2"), ("node 2", "b h:2")]);
        assert_ne!(ours.digest(), other.digest());
        let (name, said) = ours.differences(other.text(1000)).unwrap();
        assert_eq!(name, "b");
        let expected = "--replicas is 1 here, and 2 there; node 1 is a h:1 here, and nothing \
                        there; node 2 is nothing here, and b h:2 there";
        assert_eq!(said, expected);
        // As much as there is room for.
        assert_eq!(other.text(20), b"b\n--replicas=2\n");
        let (_, said) = ours.differences(other.text(20)).unwrap();
        assert_eq!(said, "--replicas is 1 here, and 2 there");
        assert_eq!(ours.differences(b""), None);
        assert_eq!(ours.differences(&[0xff]), None);
        assert_eq!(ours.differences(b"b\nhalf"), None);
    }
}
