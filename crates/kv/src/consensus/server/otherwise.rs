//! Nodes that were told of others, or of other addresses, than this one. Neither understands what
//! the other sends; so each answers with what it was told, where the other reads it, and what
//! differs is said.

use crate::consensus::wire;
use crate::lines::take_frames;
use crate::ring::Terms;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes of a keyspace.
pub const NODES_MAX: usize = 7;
/// How long it is remembered: a node tries again ten times a second.
const LASTS: Duration = Duration::from_secs(5);

/// See the head of this file.
pub(super) struct Otherwise {
    terms: Terms,
    /// By name, what differs, and when that was last heard.
    nodes: BTreeMap<String, (String, Time)>,
}

impl Otherwise {
    pub(super) fn new(terms: Terms) -> Otherwise {
        Otherwise {
            terms,
            nodes: BTreeMap::new(),
        }
    }

    /// What is answered to what is not understood.
    pub(super) fn answer(&self) -> Vec<u8> {
        wire::encode_terms(self.terms.text(wire::TERMS_MAX / 2))
    }

    /// Takes answers off the front of what came on a line, and says once what differs. Whether all
    /// that came are answers.
    pub(super) fn take(&mut self, came: &mut Vec<u8>, now: Time) -> bool {
        let length = |bytes: &[u8]| {
            let length = wire::length(bytes)?;
            let fits = length.is_none_or(|length| length <= wire::TERMS_MAX);
            fits.then_some(length).ok_or(wire::NoFrame)
        };
        let taken = take_frames(came, 0, length, |frame| {
            let theirs = wire::decode_terms(frame)?;
            if let Some((name, differs)) = self.terms.differences(theirs)
                && !differs.is_empty()
            {
                self.heard(name, differs, now);
            }
            Ok(())
        });
        taken.is_ok()
    }

    fn heard(&mut self, name: String, differs: String, now: Time) {
        if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&name) {
            return;
        }
        let known = self.nodes.insert(name.clone(), (differs.clone(), now));
        if known.is_none_or(|(before, _)| before != differs) {
            tracing::warn!(
                node = name,
                differs,
                "a node of the keyspace was told something else: they do not understand each other"
            );
        }
    }

    /// Who was told something else, and what, as far as is known.
    pub(super) fn said(&mut self, now: Time) -> Option<String> {
        self.nodes.retain(|_, (_, heard)| now.since(*heard) < LASTS);
        let mut all = self.nodes.iter();
        let said = all.next();
        said.map(|(name, (differs, _))| format!("{name} was told something else: {differs}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said_of_whole_answers_for_a_while() {
        let of = |node: &str, at: &str| {
            let told = [("node 1 of the file".to_owned(), at.to_owned())];
            Otherwise::new(Terms::new(node, told))
        };
        let (mut ours, theirs) = (of("a", "a h:1"), of("b", "a h:2"));
        let (now, answer) = (Time::ZERO, theirs.answer());
        let mut half = answer[..20].to_vec();
        assert!(ours.take(&mut half, now));
        assert_eq!((half.len(), ours.said(now)), (20, None));
        half.extend_from_slice(&answer[20..]);
        assert!(ours.take(&mut half, now));
        let said = "b was told something else: node 1 of the file is a h:1 here, and a h:2 there";
        assert_eq!((half.len(), ours.said(now).as_deref()), (0, Some(said)));
        assert_eq!(ours.said(now + LASTS), None);
        let mut damaged = answer.clone();
        damaged[10] ^= 1;
        assert!(!ours.take(&mut damaged, now));
        assert!(!ours.take(&mut vec![255; 100], now));
        // One that was told the same had bytes of it damaged, maybe.
        assert!(ours.take(&mut of("c", "a h:1").answer(), now));
        assert_eq!(ours.said(now), None);
    }
}
