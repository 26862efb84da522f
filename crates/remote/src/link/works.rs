//! Works: which node has each, and what becomes of those that come back without having been run.

use super::node::{Fit, Node, Phase};
use super::options::LinkOptions;
use crate::bundle::Bundles;
use crate::figures::Figures;
use crate::places::Places;
use crate::wire::bytes::Bounded;
use crate::wire::columns;
use crate::wire::may_say::MaySay;
use crate::wire::message::{self, Digest, MESSAGE_MAX, Message};
use crate::wire::reads::Reads;
use rhythm_engine::cohort::{LaneError, LaneState};
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_net::{ConnectionId, Port, Time};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a work is sent before it is run here.
const TRIES_MAX: u8 = 2;

/// A work that is at a node.
pub(super) struct Away {
    pub(super) node: usize,
    pub(super) deadline: Time,
    pub(super) digest: Digest,
    /// The lanes that went, in rising order: all that are to run the stage, or as many as are run
    /// in a pass.
    pub(super) lanes: Vec<u32>,
    pub(super) tries: u8,
    pub(super) may_say: Arc<MaySay>,
    pub(super) work: Work,
}

/// A stage that is late twice without an answer between is run here for so long, the next time for
/// twice as long, and so on: at first, and at most.
const HERE_FIRST: Duration = Duration::from_secs(5);
const HERE_MAX: Duration = Duration::from_secs(300);

/// A stage that a node was lost over: nodes may be too slow for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    times: u32,
    here_until: Time,
}

impl Late {
    fn again(&mut self, now: Time) {
        // Once may be the node's own fault.
        if let Some(before) = self.times.checked_sub(1) {
            let wait = HERE_FIRST.saturating_mul(1 << before.min(16));
            self.here_until = now + wait.min(HERE_MAX);
        }
        self.times = self.times.saturating_add(1);
    }
}

/// What is known of a service, so that it is not asked again for each cohort.
pub(super) struct Known {
    pub(super) service: Weak<Service>,
    /// `None`: no node can have it.
    pub(super) digests: Option<(Digest, Digest)>,
    pub(super) limits: LaneLimits,
    /// What each page's stages read.
    pub(super) reads: HashMap<(usize, usize), Arc<Reads>>,
    /// What each page's answers may have.
    pub(super) may_say: HashMap<usize, Arc<MaySay>>,
    /// Stages of pages that were late since they were answered last.
    pub(super) late: HashMap<(usize, usize), Late>,
    /// Stages of pages of which nodes were seen to leave lanes for another pass, and how many they
    /// have run in the last one: at most twice as many go with the next.
    pub(super) in_passes: HashMap<(usize, usize), usize>,
}

/// The way of a worker to its nodes. See the module above.
pub struct Remote {
    pub(super) nodes: Vec<Node>,
    places: Arc<Places>,
    /// The version of them that was looked at last.
    followed: u64,
    pub(super) options: LinkOptions,
    pub(super) bundles: Arc<Bundles>,
    pub(super) figures: Arc<Figures>,
    pub(super) known: Vec<Known>,
    pub(super) local: Box<dyn Executor>,
    /// By the token that it went under.
    pub(super) away: BTreeMap<u64, Away>,
    pub(super) next_token: u64,
    /// For the local executor to have a slot.
    pub(super) waiting: VecDeque<Work>,
    /// What it has.
    pub(super) here: usize,
    pub(super) done: Vec<Work>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// Most bytes that one to so many nodes has for what goes there and comes back: of each a
    /// message that is not whole yet, and what its socket does not take of two.
    pub fn bytes_max(nodes: usize) -> usize {
        nodes * 3 * MESSAGE_MAX
    }

    /// A way to the nodes at these places; `local` runs what they do not.
    pub fn new(
        places: &Arc<Places>,
        options: LinkOptions,
        bundles: Arc<Bundles>,
        figures: Arc<Figures>,
        local: Box<dyn Executor>,
    ) -> Remote {
        let followed = places.version();
        Remote {
            nodes: places.slots().into_iter().map(Node::new).collect(),
            places: Arc::clone(places),
            followed,
            options,
            bundles,
            figures,
            known: Vec::new(),
            local,
            away: BTreeMap::new(),
            next_token: 0,
            waiting: VecDeque::new(),
            here: 0,
            done: Vec::new(),
        }
    }

    /// Whether a node takes cohorts of this service.
    pub fn is_ready(&mut self, service: &Arc<Service>) -> bool {
        let known = self.known(service);
        let digests = self.known[known].digests;
        digests.is_some_and(|(digest, _)| self.nodes.iter().any(|node| node.has(&digest)))
    }

    /// Whether it was said of all nodes why they are not used, and of none that it may be.
    pub(crate) fn has_none(&self) -> bool {
        self.figures.has_none() && !self.nodes.iter().any(Node::may_take)
    }

    /// What is known of a service.
    pub(super) fn known(&mut self, service: &Arc<Service>) -> usize {
        let is_it = |known: &Known| std::ptr::eq(known.service.as_ptr(), Arc::as_ptr(service));
        if let Some(index) = self.known.iter().position(is_it) {
            return index;
        }
        self.known.retain(|known| known.service.strong_count() > 0);
        let found = self.bundles.find(service);
        let limits = found.as_ref().map(|(bundle, _)| bundle.limits);
        let limits = limits.unwrap_or_default();
        self.known.push(Known {
            service: Arc::downgrade(service),
            digests: found.map(|(bundle, programs)| (bundle.digest, programs)),
            limits,
            reads: HashMap::new(),
            may_say: HashMap::new(),
            late: HashMap::new(),
            in_passes: HashMap::new(),
        });
        self.known.len() - 1
    }

    /// Offers a service to all nodes that were not offered it yet, or have it offered again.
    pub(crate) fn offer(&mut self, port: &mut dyn Port, service: &Arc<Service>, now: Time) {
        let known = self.known(service);
        let Some((digest, _)) = self.known[known].digests else {
            return;
        };
        if !self.nodes.iter().any(|node| node.lacks(&digest, now)) {
            return;
        }
        let Some((bundle, _)) = self.bundles.find(service) else {
            return;
        };
        let served = self.bundles.digests();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if !node.lacks(&digest, now) {
                continue;
            }
            // Of those that nobody serves any more, it answers what it was told of all the same.
            let is_asked = |fit: &Fit| matches!(fit, Fit::Offered(_) | Fit::Sent);
            (node.services).retain(|digest, fit| served.contains(digest) || is_asked(fit));
            node.services.insert(digest, Fit::Offered(bundle.clone()));
            node.say(Message::Offer { digest });
            if !node.flush(port) {
                self.lose(port, index, "its connection is gone", false, now);
            }
        }
    }

    /// The node for a work of this service: of those that take one, that with the least to do.
    pub(super) fn node_for(&self, digest: &Digest) -> Option<usize> {
        let nodes = self.nodes.iter().enumerate();
        let takes = nodes.filter(|(_, node)| node.takes(digest));
        takes
            .min_by_key(|(_, node)| node.under_way)
            .map(|(index, _)| index)
    }

    /// Sends a work to a node, or gives it back where that cannot have it.
    pub(super) fn send(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        tries: u8,
        work: Work,
        now: Time,
    ) -> Option<Work> {
        let known = self.known(&work.service);
        let Known {
            digests,
            limits,
            reads,
            may_say,
            in_passes,
            ..
        } = &mut self.known[known];
        let Some((digest, _)) = *digests else {
            return Some(work);
        };
        let may_say = may_say.entry(work.page);
        let may_say =
            may_say.or_insert_with(|| Arc::new(MaySay::of(&work.service, work.page, *limits)));
        let may_say = Arc::clone(may_say);
        let stage = work.cohort.stage;
        let reads = reads.entry((work.page, stage));
        let reads = reads.or_insert_with(|| Reads::of(&work.program().stages[stage]).into());
        let reads = Arc::clone(reads);
        let active = (0_u32..).zip(&work.cohort.lanes);
        let active = active.filter(|(_, state)| **state == LaneState::Active);
        // What comes back without having been run would be sent, taken apart and sent again.
        let ran = in_passes.get(&(work.page, stage));
        let most = ran.map_or(usize::MAX, |ran| 2 * ran);
        let lanes: Vec<u32> = active.map(|(lane, _)| lane).take(most).collect();
        let token = self.next_token;
        let mut bytes = Vec::new();
        let put = |to: &mut Bounded<'_>| {
            columns::put(work.page, &work.cohort, &lanes, &reads, to);
        };
        if !columns::are_taken(&work.cohort, &lanes)
            || !message::put_work(token, &digest, &mut bytes, put)
        {
            return Some(work);
        }
        self.next_token += 1;
        let node = &mut self.nodes[index];
        node.say_bytes(bytes);
        node.under_way += 1;
        self.away.insert(
            token,
            Away {
                node: index,
                deadline: now + self.options.timeout,
                digest,
                lanes,
                tries: tries + 1,
                may_say,
                work,
            },
        );
        if !self.nodes[index].flush(port) {
            self.lose(port, index, "its connection is gone", false, now);
        }
        None
    }

    /// A node is lost over this work, the first of those that it was given.
    pub(super) fn was_late(&mut self, token: u64, now: Time) {
        let Some(Away { work, .. }) = self.away.get(&token) else {
            return;
        };
        let service = Arc::clone(&work.service);
        let (page, stage) = (work.page, work.cohort.stage);
        let known = self.known(&service);
        let late = self.known[known].late.entry((page, stage)).or_default();
        late.again(now);
        let page = &service.pages[page].name;
        tracing::debug!(
            page,
            stage,
            times = late.times,
            "a device node is late with a stage"
        );
    }

    /// Whether nodes are too slow for the stage of a work, as far as was seen of late.
    pub(super) fn stays_here(&mut self, work: &Work, now: Time) -> bool {
        let known = self.known(&work.service);
        let late = self.known[known].late.get(&(work.page, work.cohort.stage));
        late.is_some_and(|late| now < late.here_until)
    }

    /// Whether a stage that lanes were left out of goes on at nodes, as far as it was begun.
    pub(super) fn goes_on_there(&mut self, work: &Work) -> bool {
        let known = self.known(&work.service);
        let in_passes = &self.known[known].in_passes;
        !work.cohort.is_between_passes() || in_passes.contains_key(&(work.page, work.cohort.stage))
    }

    /// Runs a work here.
    pub(super) fn run_here(&mut self, work: Work) {
        self.figures.count_here();
        self.waiting.push_back(work);
        self.run_waiting();
    }

    /// Gives the local executor what it has slots for.
    pub(super) fn run_waiting(&mut self) {
        while let Some(work) = self.waiting.pop_front() {
            match Executor::submit(&mut self.local, work) {
                Ok(()) => self.here += 1,
                Err(Refusal::Busy(work)) => {
                    self.waiting.push_front(work);
                    break;
                }
                Err(Refusal::Lost(mut work, _)) => {
                    for lane in 0..work.cohort.len() {
                        work.cohort.fail(lane, LaneError::DeviceFailed);
                    }
                    work.cohort.queries.clear();
                    work.cohort.stage += 1;
                    self.done.push(work);
                }
            }
        }
        let before = self.done.len();
        Executor::poll(&mut self.local, &mut self.done);
        self.here -= self.done.len() - before;
    }

    /// A work came back without having been run: another node has it, or this machine.
    pub(super) fn again(&mut self, port: &mut dyn Port, away: Away, now: Time) {
        let goes = away.tries < TRIES_MAX && !self.stays_here(&away.work, now);
        let node = match goes {
            true => self.node_for(&away.digest),
            false => None,
        };
        let back = match node {
            Some(node) => self.send(port, node, away.tries, away.work, now),
            None => Some(away.work),
        };
        if let Some(work) = back {
            self.run_here(work);
        }
    }

    /// Gives a node up for a while, and all that is under way there.
    pub(super) fn lose(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        why: &str,
        is_wrong: bool,
        now: Time,
    ) {
        let was_used = matches!(self.nodes[index].phase, Phase::Used { .. });
        self.nodes[index].leave(port, is_wrong, now);
        let lost: Vec<u64> = (self.away.iter())
            .filter(|(_, away)| away.node == index)
            .map(|(token, _)| *token)
            .collect();
        self.figures.unused(index, was_used, lost.len(), why);
        for token in lost {
            if let Some(away) = self.away.remove(&token) {
                self.again(port, away, now);
            }
        }
    }

    /// Looks whether there are nodes at other places than before: what is under way at one that was
    /// there is run elsewhere.
    pub(super) fn follow(&mut self, port: &mut dyn Port, now: Time) {
        let version = self.places.version();
        if std::mem::replace(&mut self.followed, version) == version {
            return;
        }
        for (index, slot) in self.places.slots().into_iter().enumerate() {
            if self.nodes[index].slot.since == slot.since {
                continue;
            }
            if self.nodes[index].connection.is_some() {
                self.lose(port, index, "it is lent no more", false, now);
            }
            self.nodes[index].move_to(slot, now);
        }
    }

    /// The node whose connection it is.
    pub(super) fn owner(&self, id: ConnectionId) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.connection == Some(id))
    }
}

impl Drop for Remote {
    /// A worker that begins anew has other connections.
    fn drop(&mut self) {
        let nodes = self.nodes.iter().enumerate();
        let used = nodes.filter(|(_, node)| matches!(node.phase, Phase::Used { .. }));
        used.for_each(|(index, _)| self.figures.gone(index));
    }
}
