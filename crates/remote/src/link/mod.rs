//! The way of a worker to its nodes: cohorts go to the one that has least to do, and what no node
//! runs is run here.
//!
//! ```text
//!    submit --> a node that takes it --> away --answer--> done
//!      |                                   | lost, late, declined
//!      |  no node has the service          v
//!      +------------------------------> again: another node, once; or here --> done
//! ```
//!
//! A work stays here, untouched, until its answer has come whole and was checked: a stage is a
//! function of its cohort, so it can be run again, and nothing is lost or done twice. So that a
//! node that ends under a cohort ends no more than two, what was lost twice is run here.

mod node;

pub(crate) use node::check_version;

use crate::bundle::Bundles;
use crate::figures::{Figures, silent_for};
use crate::wire::answer::{Answer, Asked};
use crate::wire::bytes::Wrong;
use crate::wire::columns;
use crate::wire::message::{self, Digest, Message};
use crate::wire::reads::Reads;
use node::{Fit, Node, Phase};
use rhythm_engine::cohort::{LaneError, LaneState};
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_net::{ConnectionId, Ended, Peer, Port, Time};
use rhythm_server::{ConnectionOwner, DeviceLink};
use rhythm_venice::secret::Secret;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a work is sent before it is run here.
const TRIES_MAX: u8 = 2;

/// How nodes are used.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// What both ends have in common, if the nodes have a key.
    pub key: Option<Secret>,
    /// How long a node may take for anything: greeting, or a stage.
    pub timeout: Duration,
    /// Works under way at a node at most, whatever it takes.
    pub in_flight_max: usize,
}

/// A work that is at a node.
struct Away {
    node: usize,
    deadline: Time,
    digest: Digest,
    /// The lanes that went, in rising order.
    lanes: Vec<u32>,
    tries: u8,
    work: Work,
}

/// What is known of a service, so that it is not asked again for each cohort.
struct Known {
    service: Weak<Service>,
    /// `None`: no node can have it.
    digests: Option<(Digest, Digest)>,
    /// What each page's stages read.
    reads: HashMap<(usize, usize), Arc<Reads>>,
}

/// See the module's text.
pub struct Remote {
    nodes: Vec<Node>,
    options: LinkOptions,
    bundles: Arc<Bundles>,
    figures: Arc<Figures>,
    known: Vec<Known>,
    local: Box<dyn Executor>,
    /// By the token that it went under.
    away: BTreeMap<u64, Away>,
    next_token: u64,
    /// For the local executor to have a slot.
    waiting: VecDeque<Work>,
    /// What it has.
    here: usize,
    done: Vec<Work>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// A way to these nodes; `local` runs what they do not.
    pub fn new(
        nodes: &[Peer],
        options: LinkOptions,
        bundles: Arc<Bundles>,
        figures: Arc<Figures>,
        local: Box<dyn Executor>,
    ) -> Remote {
        Remote {
            nodes: nodes.iter().cloned().map(Node::new).collect(),
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

    /// Whether it was said of all nodes why they are not used.
    pub(crate) fn has_none(&self) -> bool {
        self.figures.has_none()
    }

    /// What is known of a service.
    fn known(&mut self, service: &Arc<Service>) -> usize {
        let is_it = |known: &Known| std::ptr::eq(known.service.as_ptr(), Arc::as_ptr(service));
        if let Some(index) = self.known.iter().position(is_it) {
            return index;
        }
        self.known.retain(|known| known.service.strong_count() > 0);
        let found = self.bundles.find(service);
        self.known.push(Known {
            service: Arc::downgrade(service),
            digests: found.map(|(bundle, programs)| (bundle.digest, programs)),
            reads: HashMap::new(),
        });
        self.known.len() - 1
    }

    /// Offers a service to all nodes that were not offered it yet.
    fn offer(&mut self, port: &mut dyn Port, service: &Arc<Service>, now: Time) {
        let known = self.known(service);
        let Some((digest, _)) = self.known[known].digests else {
            return;
        };
        let lacks = |node: &Node| {
            matches!(node.phase, Phase::Used { .. }) && !node.services.contains_key(&digest)
        };
        if !self.nodes.iter().any(lacks) {
            return;
        }
        let Some((bundle, _)) = self.bundles.find(service) else {
            return;
        };
        let served = self.bundles.digests();
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if !lacks(node) {
                continue;
            }
            node.services.retain(|digest, _| served.contains(digest));
            node.services.insert(digest, Fit::Offered(bundle.clone()));
            node.say(Message::Offer { digest });
            if !node.flush(port) {
                self.lose(port, index, "its connection is gone", false, now);
            }
        }
    }

    /// The node for a work of this service: of those that take one, that with the least to do.
    fn node_for(&self, digest: &Digest) -> Option<usize> {
        let nodes = self.nodes.iter().enumerate();
        let takes = nodes.filter(|(_, node)| node.takes(digest));
        takes
            .min_by_key(|(_, node)| node.under_way)
            .map(|(index, _)| index)
    }

    /// Sends a work to a node, or gives it back where that cannot have it.
    fn send(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        tries: u8,
        work: Work,
        now: Time,
    ) -> Option<Work> {
        let known = self.known(&work.service);
        let Known { digests, reads, .. } = &mut self.known[known];
        let Some((digest, _)) = *digests else {
            return Some(work);
        };
        let stage = work.cohort.stage;
        let reads = reads.entry((work.page, stage));
        let reads = reads.or_insert_with(|| Reads::of(&work.program().stages[stage]).into());
        let reads = Arc::clone(reads);
        let active = (0_u32..).zip(&work.cohort.lanes);
        let active = active.filter(|(_, state)| **state == LaneState::Active);
        let lanes: Vec<u32> = active.map(|(lane, _)| lane).collect();
        let token = self.next_token;
        let mut bytes = Vec::new();
        let put = |to: &mut Vec<u8>| columns::put(work.page, &work.cohort, &lanes, &reads, to);
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
                work,
            },
        );
        if !self.nodes[index].flush(port) {
            self.lose(port, index, "its connection is gone", false, now);
        }
        None
    }

    /// Runs a work here.
    fn run_here(&mut self, work: Work) {
        self.figures.count_here();
        self.waiting.push_back(work);
        self.run_waiting();
    }

    /// Gives the local executor what it has slots for.
    fn run_waiting(&mut self) {
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
    fn again(&mut self, port: &mut dyn Port, away: Away, now: Time) {
        let node = match away.tries < TRIES_MAX {
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
    fn lose(&mut self, port: &mut dyn Port, index: usize, why: &str, is_wrong: bool, now: Time) {
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

    /// Takes all messages that have come whole.
    fn take_messages(&mut self, port: &mut dyn Port, index: usize, now: Time) {
        let input = self.nodes[index].take_input();
        let mut taken = 0;
        loop {
            let most = self.nodes[index].message_max();
            let outcome = match message::take(&input[taken..], most) {
                Ok(None) => break,
                Ok(Some((message, length))) => {
                    taken += length;
                    self.take_message(port, index, message, now)
                }
                Err(wrong) => Err(wrong.to_string()),
            };
            if let Err(why) = outcome {
                return self.lose(port, index, &why, true, now);
            }
            // It may have been lost by what was to be sent to it.
            if self.nodes[index].connection.is_none() {
                return;
            }
        }
        self.nodes[index].give_input_back(input, taken);
        if !self.nodes[index].flush(port) {
            self.lose(port, index, "its connection is gone", false, now);
        }
    }

    /// Takes one.
    ///
    /// # Errors
    /// Why this node is not to be used.
    fn take_message(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        message: Message<'_>,
        now: Time,
    ) -> Result<(), String> {
        let node = &mut self.nodes[index];
        match node.phase {
            Phase::Away { .. } => Ok(()),
            Phase::Greeted => node.greeted(message, &self.options),
            Phase::Proven { numbers, in_flight } => {
                node.proven(message, numbers, in_flight, &self.options)?;
                self.figures.used(index, in_flight);
                for service in self.bundles.all() {
                    self.offer(port, &service, now);
                }
                Ok(())
            }
            Phase::Used { .. } => self.take_used(port, index, message, now),
        }
    }

    /// Takes a message of a node that takes works.
    fn take_used(
        &mut self,
        port: &mut dyn Port,
        index: usize,
        message: Message<'_>,
        now: Time,
    ) -> Result<(), String> {
        let node = &mut self.nodes[index];
        node.answered();
        match message {
            Message::Pong => Ok(()),
            Message::Send { digest } => {
                let Some(Fit::Offered(bundle)) = node.services.get(&digest) else {
                    return Err("it asks for what it was not offered".to_owned());
                };
                let bytes = bundle.bytes.clone();
                node.say(Message::Sources { bytes: &bytes });
                Ok(())
            }
            Message::Ready { digest, programs } => {
                let fit = self.ready(index, &digest, programs)?;
                self.nodes[index].services.insert(digest, fit);
                Ok(())
            }
            Message::Unfit { digest, why } => {
                let fit = node.services.get_mut(&digest);
                let Some(fit @ Fit::Offered(_)) = fit else {
                    return Err("it refuses what it was not offered".to_owned());
                };
                *fit = Fit::Unfit;
                let service = self.name_of(&digest);
                self.figures.unfit(index, &service, why);
                Ok(())
            }
            Message::Done { token, answer } => self.take_answer(index, token, answer),
            Message::Declined { token, is_unknown } => {
                let away = self.take_away(index, token)?;
                self.figures.count_declined(index);
                if is_unknown {
                    // It has forgotten it for others.
                    self.nodes[index].services.remove(&away.digest);
                    let service = Arc::clone(&away.work.service);
                    self.offer(port, &service, now);
                }
                self.again(port, away, now);
                Ok(())
            }
            _ => Err("it says what only a front end says".to_owned()),
        }
    }

    /// Whether what a node has compiled is what was compiled here.
    fn ready(&mut self, index: usize, digest: &Digest, programs: Digest) -> Result<Fit, String> {
        let known = match self.nodes[index].services.get(digest) {
            Some(Fit::Offered(_)) => self.bundles.all(),
            _ => return Err("it has what it was not offered".to_owned()),
        };
        let mut found = known
            .iter()
            .filter_map(|service| self.bundles.find(service));
        let own = found.find(|(bundle, _)| bundle.digest == *digest);
        match own {
            Some((_, own)) if own != programs => {
                let service = self.name_of(digest);
                let why = "it has compiled the pages to something else than this end: both ends \
                           must be the same build, and backends of the kinds in service.toml";
                self.figures.unfit(index, &service, why);
                Ok(Fit::Unfit)
            }
            // Of one that nobody serves any more no cohort comes.
            _ => Ok(Fit::Ready),
        }
    }

    fn name_of(&self, digest: &Digest) -> String {
        let all = self.bundles.all();
        let is_it = |service: &&Arc<Service>| {
            let found = self.bundles.find(service);
            found.is_some_and(|(bundle, _)| bundle.digest == *digest)
        };
        let found = all.iter().find(is_it);
        found.map_or_else(String::new, |service| service.config.service.name.clone())
    }

    /// Takes a work back that a node has.
    fn take_away(&mut self, index: usize, token: u64) -> Result<Away, String> {
        let is_there = self.away.get(&token).is_some_and(|away| away.node == index);
        let away = is_there.then(|| self.away.remove(&token)).flatten();
        let away = away.ok_or("it answers what it was not asked")?;
        self.nodes[index].under_way -= 1;
        Ok(away)
    }

    fn take_answer(&mut self, index: usize, token: u64, answer: &[u8]) -> Result<(), String> {
        let not_asked = "it answers what it was not asked";
        let away = self.away.get(&token).filter(|away| away.node == index);
        let Away { work, lanes, .. } = away.ok_or(not_asked)?;
        let asked = Asked {
            service: &work.service,
            page: work.page,
            stage: work.cohort.stage,
            lanes: lanes.len(),
        };
        let read = Answer::of(asked, answer);
        let read = read.map_err(|Wrong(why)| format!("it answers wrongly: {why}"))?;
        let Away {
            mut work, lanes, ..
        } = self.take_away(index, token)?;
        read.apply(&mut work.cohort, &lanes);
        self.figures.count_done(index);
        self.nodes[index].did_well();
        self.done.push(work);
        Ok(())
    }

    /// The node whose connection it is.
    fn owner(&self, id: ConnectionId) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.connection == Some(id))
    }
}

impl ConnectionOwner for Remote {
    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> bool {
        self.writable(port, id, now)
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) -> bool {
        let Some(index) = self.owner(id) else {
            return false;
        };
        self.nodes[index].received(bytes, now);
        self.take_messages(port, index, now);
        true
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) -> bool {
        let Some(index) = self.owner(id) else {
            return false;
        };
        let why = match how {
            Ended::PeerFinished => "it has ended the connection".to_owned(),
            Ended::Failed(kind) => {
                self.nodes[index].connection = None;
                kind.to_string()
            }
        };
        self.lose(port, index, &why, false, now);
        true
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> bool {
        let Some(index) = self.owner(id) else {
            return false;
        };
        if !self.nodes[index].writable(port) {
            self.nodes[index].connection = None;
            self.lose(port, index, "its connection is gone", false, now);
        }
        true
    }

    fn wake_at(&self) -> Option<Time> {
        let nodes = self.nodes.iter().map(Node::wake_at);
        let works = self.away.values().map(|away| away.deadline);
        nodes.chain(works).min()
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let late: Vec<usize> = (self.away.values())
            .filter(|away| away.deadline <= now)
            .map(|away| away.node)
            .collect();
        for index in late {
            // Each is lost once, whatever of it is late.
            if matches!(self.nodes[index].phase, Phase::Used { .. }) {
                let why = silent_for(self.options.timeout);
                self.lose(port, index, &why, false, now);
            }
        }
        for index in 0..self.nodes.len() {
            let looked = match self.nodes[index].phase {
                Phase::Away { until } if until <= now => {
                    self.nodes[index].connect(port, &self.options, now)
                }
                Phase::Away { .. } => Ok(()),
                _ => self.nodes[index].look(port, &self.options, now),
            };
            if let Err(why) = looked {
                self.lose(port, index, &why, false, now);
            }
        }
    }
}

impl DeviceLink for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn submit(&mut self, port: &mut dyn Port, work: Work, now: Time) -> Result<(), Refusal> {
        let known = self.known(&work.service);
        let digests = self.known[known].digests;
        // What a stage's earlier passes have left beside, only one executor knows.
        let is_for_nodes = work.cohort.has_active() && !work.cohort.is_between_passes();
        let Some((digest, _)) = digests.filter(|_| is_for_nodes) else {
            self.run_here(work);
            return Ok(());
        };
        let service = Arc::clone(&work.service);
        self.offer(port, &service, now);
        let back = match self.node_for(&digest) {
            Some(node) => self.send(port, node, 0, work, now),
            None if self.nodes.iter().any(|node| node.has(&digest)) => {
                return Err(Refusal::Busy(work));
            }
            None => Some(work),
        };
        if let Some(work) = back {
            self.run_here(work);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        self.run_waiting();
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.away.len() + self.waiting.len() + self.here + self.done.len()
    }
}
