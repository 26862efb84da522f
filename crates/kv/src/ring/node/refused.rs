//! Who is refused: nodes that were told something else, that speak another version of the protocol,
//! and a second one of a name. Such a node is told so on the connection on which it speaks, or
//! where its Ethernet frames come from, if it can understand that: this one may not know of it, nor
//! where it is. It does not begin to serve then: clients would see two rings, of which each says
//! that it has all. So it is with one that is heard, and does not hear what it is sent: another may
//! be in its place.

use super::super::wire::{self, Claim, Head, VERSION};
use super::effects::Effects;
use super::peer::{Second, life};
use super::progress::Refused;
use super::{Node, Stay};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a node is told that it is refused.
const TOLD_EVERY: Duration = Duration::from_millis(250);
/// So many are remembered; of more, those that were silent longest are not.
const REFUSED_MAX: usize = 64;

impl Node {
    /// A node that was told otherwise said what; and whether it serves something. It is not spoken
    /// to, and that is said once. Whether it is to be told so now.
    pub fn refuse(
        &mut self,
        node: usize,
        digest: u64,
        theirs: &[u8],
        serves: bool,
        now: Time,
    ) -> bool {
        if !self.refused.contains_key(&(node, digest)) {
            let Some((name, differs)) = self.terms.differences(theirs) else {
                return false;
            };
            tracing::warn!(
                node = name,
                differs,
                "a node of the ring was told something else: it is refused"
            );
            let said = format!("{name} was told something else: {differs}");
            self.remember(node, digest, Refused::new(name, said, now));
        }
        let Some(refused) = self.refused.get_mut(&(node, digest)) else {
            return false;
        };
        (refused.heard, refused.serves) = (now, serves);
        is_due(&mut refused.told, now)
    }

    fn remember(&mut self, node: usize, digest: u64, refused: Refused) {
        if self.refused.len() >= REFUSED_MAX {
            let silent = self.refused.iter().min_by_key(|(_, other)| other.heard);
            if let Some(silent) = silent.map(|(of, _)| *of) {
                self.refused.remove(&silent);
            }
        }
        self.refused.insert((node, digest), refused);
    }

    /// The frame that tells a node that it is refused: what this one was told, and which life of
    /// the other it speaks to.
    pub(super) fn refusal(&self, to: usize) -> Vec<u8> {
        let peer = self.peers.get(to);
        let head = Head {
            from: self.me as u8,
            ring: self.terms.digest(),
            session: peer.map_or(0, |peer| peer.mine),
            // One that is deaf is not there, and is told as well: this is its own session.
            peer: peer.map_or(0, |peer| match peer.session {
                0 => peer.hears,
                session => session,
            }),
            count: 0,
            seq: 0,
            ack: 0,
            heard: 0,
            credit: 0,
            gap: false,
            parts: 0,
            stay: Stay::Stays,
            complete: self.complete,
            counts: Vec::new(),
            awaited: 0,
            claims: Vec::new(),
        };
        let mut frame = Vec::new();
        wire::write(&head, self.terms.text(usize::MAX), &mut frame);
        frame
    }

    /// A node that this one speaks to says, on that connection, that it refuses it.
    pub fn answered(&mut self, frame: &[u8], now: Time) {
        let Ok((head, theirs)) = wire::read(frame) else {
            return;
        };
        let from = usize::from(head.from);
        if head.ring != self.terms.digest() {
            self.refuse(from, head.ring, theirs, head.complete != 0, now);
            return;
        }
        if head.peer == 0 || from == self.me {
            return;
        }
        let members = self.view.members();
        let at = (members.get(&self.me)).map_or(String::new(), |me| me.backbone.to_string());
        self.refused_by(from, head.peer, &at, now);
    }

    /// Another node says that one of this one's name counts there, of this session and at this
    /// place. Where that is this one, it is not reached.
    pub(crate) fn refused_by(&mut self, by: usize, session: u64, at: &str, now: Time) {
        let mine = self.peers.get(by).map_or(0, |peer| life(peer.mine));
        let of = (by, life(session));
        if !self.refused.contains_key(&of) {
            let (name, by_name) = (self.view.name(self.me), self.view.name(by));
            let said = match of.1 == mine {
                true => format!("{by_name} hears this node, and does not reach it at {at}"),
                false => format!("another node called {name} is there, at {at}"),
            };
            tracing::warn!(by = by_name, why = said, "this node is refused");
            self.remember(by, of.1, Refused::new(name, said, now));
        }
        if let Some(refused) = self.refused.get_mut(&of) {
            (refused.heard, refused.serves) = (now, true);
        }
    }

    /// A node of this number speaks another version of the protocol: neither understands the other.
    pub fn speaks_otherwise(&mut self, node: usize, version: u8, now: Time) {
        let of = (node, u64::from(version));
        if !self.refused.contains_key(&of) {
            let name = self.view.name(node);
            tracing::warn!(
                node = name,
                theirs = version,
                ours = VERSION,
                "a node of the ring speaks another version of the nodes' protocol: it is refused \
                 until both run one release"
            );
            let said = format!(
                "{name} speaks version {version} of the nodes' protocol, and this node {VERSION}: \
                 run one release on all"
            );
            self.remember(node, of.1, Refused::new(name, said, now));
        }
        if let Some(refused) = self.refused.get_mut(&of) {
            refused.heard = now;
        }
    }

    fn speaks(&self, refused: &Refused, now: Time) -> bool {
        now.since(refused.heard) < self.options.settled_after
    }

    /// The nodes that speak, and are refused or refuse this one, each with why.
    pub(super) fn refusals(&self, now: Time) -> BTreeMap<usize, String> {
        let speak = (self.refused.iter()).filter(|(_, refused)| self.speaks(refused, now));
        let why = speak.map(|((node, _), refused)| (*node, refused.said.clone()));
        why.collect()
    }

    /// Why this node does not begin: it has nothing, and a node is there that was told something
    /// else, or has its name. That one serves something, or may soon where nobody is known to.
    pub(super) fn is_kept_by(&self, now: Time) -> Option<&str> {
        let begin = self.claims.iter().all(|claim| claim.epoch == 0);
        let mut refused = self.refused.values();
        let keeps = |of: &&Refused| self.speaks(of, now) && (of.serves || begin);
        let keeper = refused.find(keeps).filter(|_| self.complete == 0);
        keeper.map(|refused| refused.said.as_str())
    }

    /// Whether a range is with a node that is refused now, and serves something: then nobody else
    /// is to take it.
    pub(super) fn is_with_refused(&self, range: usize, now: Time) -> bool {
        let Claim { epoch, node } = self.claims[range];
        if epoch == 0 || usize::from(node) == self.me || self.refused.is_empty() {
            return false;
        }
        let name = self.view.name(node.into());
        let mut refused = self.refused.values();
        refused.any(|of| of.serves && of.name == name && self.speaks(of, now))
    }

    /// A node that is there says which session of this one it knows. One that does not hear what it
    /// is sent is told so: it may not be where it is to be, and another be there.
    pub(super) fn see_whether_heard(
        &mut self,
        from: usize,
        head: &Head,
        now: Time,
        out: &mut Effects,
    ) {
        let peer = &mut self.peers[from];
        if head.peer == peer.mine {
            (peer.unheard, peer.told_unheard) = (None, None);
            return;
        }
        let since = *peer.unheard.get_or_insert(now);
        let is_long = now.since(since) >= self.options.dead_after;
        if is_long && is_due(&mut peer.told_unheard, now) {
            out.refusal = self.refusal(from);
        }
    }

    /// A node speaks that has the name of one that is there, and is another: one that is there
    /// stays.
    pub(super) fn see_second(&mut self, from: usize, head: &Head, now: Time, out: &mut Effects) {
        if self.hears_another(from, head.session, now) {
            out.refusal = self.refusal(from);
        }
        if let Some(second) = &mut self.peers[from].second {
            second.was_dropped = true;
        }
    }

    /// A node speaks in this session that has the name of one that is there, and is another.
    /// Whether it is to be told so now, which it is unless that one was silent since: then it may
    /// be its next life.
    pub fn hears_another(&mut self, from: usize, session: u64, now: Time) -> bool {
        let beats = 2 * self.options.heartbeat;
        let Some(peer) = self.peers.get_mut(from) else {
            return false;
        };
        let of = life(session);
        let known = peer.second.filter(|second| second.life == of);
        let mut second = known.unwrap_or(Second::new(of, peer.sent, now));
        second.heard = now;
        let are_two = peer.session != 0 && peer.heard > second.since + beats;
        let is_first = second.told.is_none();
        let tells = are_two && is_due(&mut second.told, now);
        peer.second = Some(second);
        if tells && is_first {
            tracing::warn!(
                node = self.view.name(from),
                "another node of this name is there already: this one is refused"
            );
        }
        tells
    }
}

/// Whether it is time to tell again; then it is done now.
fn is_due(told: &mut Option<Time>, now: Time) -> bool {
    let is_due = told.is_none_or(|at| now.since(at) >= TOLD_EVERY);
    if is_due {
        *told = Some(now);
    }
    is_due
}
