//! Nodes that were told of others, or of other addresses, than this one. Neither understands what
//! the other sends; so each answers with what it was told, where the other reads it, and what
//! differs is said.

use crate::consensus::wire;
use crate::lines::take_frames;
use crate::ring::Terms;
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};
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
    /// The places of nodes that have said so, and are to be told as much: what this node sends
    /// them they cannot tell from what anybody sends, and their lines may lead elsewhere.
    to_be_told: BTreeSet<usize>,
}

impl Otherwise {
    pub(super) fn new(terms: Terms) -> Otherwise {
        Otherwise {
            terms,
            nodes: BTreeMap::new(),
            to_be_told: BTreeSet::new(),
        }
    }

    /// What is answered to what is not understood.
    pub(super) fn answer(&self) -> Vec<u8> {
        wire::encode_terms(self.terms.text(wire::TERMS_MAX / 2))
    }

    /// Takes answers off the front of what came on the line to a place, and says once what differs.
    /// Whether all that came are answers.
    pub(super) fn take(&mut self, to: usize, came: &mut Vec<u8>, now: Time) -> bool {
        let length = |bytes: &[u8]| {
            let length = wire::length(bytes)?;
            let fits = length.is_none_or(|length| length <= wire::TERMS_MAX);
            fits.then_some(length).ok_or(wire::NoFrame)
        };
        let taken = take_frames(came, 0, length, |frame| {
            self.frame(frame, now)?;
            self.to_be_told.insert(to);
            Ok(())
        });
        taken.is_ok()
    }

    /// A frame came that is no message. What its sender was told, if it says that, is said once
    /// where it differs.
    ///
    /// # Errors
    /// It does not say that.
    pub(super) fn frame(&mut self, frame: &[u8], now: Time) -> Result<(), wire::NoFrame> {
        let theirs = wire::decode_terms(frame)?;
        if let Some((name, differs)) = self.terms.differences(theirs)
            && !differs.is_empty()
        {
            self.heard(name, differs, now);
        }
        Ok(())
    }

    /// Whether the node in this place is to be told what this one was told, before all else; then
    /// it is done now.
    pub(super) fn is_to_be_told(&mut self, node: usize) -> bool {
        self.to_be_told.remove(&node)
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
        assert!(ours.take(1, &mut half, now));
        assert_eq!((half.len(), ours.said(now)), (20, None));
        half.extend_from_slice(&answer[20..]);
        assert!(ours.take(1, &mut half, now));
        let said = "b was told something else: node 1 of the file is a h:1 here, and a h:2 there";
        assert_eq!((half.len(), ours.said(now).as_deref()), (0, Some(said)));
        assert_eq!(ours.said(now + LASTS), None);
        let mut damaged = answer.clone();
        damaged[10] ^= 1;
        assert!(!ours.take(1, &mut damaged, now));
        assert!(!ours.take(1, &mut vec![255; 100], now));
        // One that was told the same had bytes of it damaged, maybe.
        assert!(ours.take(1, &mut of("c", "a h:1").answer(), now));
        assert_eq!(ours.said(now), None);
    }
}
