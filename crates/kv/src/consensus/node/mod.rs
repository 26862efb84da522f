//! A node: what clients ask of it and what the others say goes in, what it says to both comes out.
//!
//! ```text
//!   ask: changes --> waiting --> one batch at a time --> log --> executed --> answers
//!        reads   --> waiting --> one question at a time: does the leader still lead? --> answers
//! ```
//!
//! What waits when a batch is through is the next one: the more comes, the larger batches are, and
//! a batch is one write to the disk. A batch goes into the log by the leader's hand, and may get
//! lost on the way; so it is said again until it is there, and counts once, as it has a number
//! (`Keyspace::execute`). A question is asked anew under a number of its own each time; an answer
//! to any of these numbers proves that the leader led after the reads came, as they are of one
//! question and were never used before. Who leads ends by having another lead: [`Node::leave`].

mod asked;
mod elections;
mod lead;
mod ready;
mod request;
mod silence;
mod understood;
mod underway;

pub use request::{Answer, Effects, EndError, OpenError, Options, Read, Request, Status, Ticket};

use super::journal::{Disk, Journal, Log, Unwritten, whose};
use super::keyspace::{BYTES_MAX, Command, KEYS_MAX, Keyspace, LEASES_MAX};
use super::wire::{self, NoFrame};
use elections::Elections;
use raft::eraftpb::{ConfState, MessageType};
use raft::{Config, RawNode, ReadOnlyOption, StateRole};
use rhythm_net::Time;
use silence::Silence;
pub use silence::TICK;
use std::collections::VecDeque;
pub(super) use underway::PATIENCE;
use underway::{BATCH_BYTES, Question, Stalled, Underway, Waiting, WaitingChange};

const HEARTBEAT_TICKS: usize = 2;
/// How often a leader whose disk is full tries to have another lead.
const HAND_OVER_TICKS: u64 = 40;
/// Bytes of changes that may wait, some batches, and reads.
const WAITING_BYTES: usize = 4 * BATCH_BYTES;
const WAITING_READS: usize = 65_536;
/// Bytes that an item, or a lease, takes in a snapshot beside its key and value, and all else.
const OF_EACH: usize = 32;
const OF_ALL: usize = 1 << 20;
const _: () = assert!(
    BYTES_MAX + (KEYS_MAX + LEASES_MAX) * OF_EACH + OF_ALL <= wire::FRAME_MAX,
    "a snapshot is one frame"
);

/// See the head of this file.
pub struct Node<D> {
    options: Options,
    raft: RawNode<Log>,
    journal: Journal<D>,
    keyspace: Keyspace,
    /// Up to which place of the log it is executed.
    applied: u64,
    /// Entries of the log executed since the start.
    executed: u64,
    life: u64,
    /// The last batch's, and question's.
    number: u64,
    changes: VecDeque<WaitingChange>,
    change_bytes: usize,
    /// The last ticket under which it was asked.
    last_asked: Ticket,
    underway: Option<Underway>,
    reads: VecDeque<Waiting<Read>>,
    question: Option<Question>,
    silence: Silence,
    elections: Elections,
    ticks: u64,
    /// It is to end, and leads no more than it must.
    leaves: bool,
    tick_at: Time,
    stalled: Option<Stalled>,
    /// The journal is not written anew before this tick.
    sum_up_at: u64,
    /// Why it does not go on: nothing is taken from others any more.
    ends: Option<EndError>,
}

impl<D: Disk> Node<D> {
    /// A node that goes on from the journal in these bytes, or begins with none.
    ///
    /// # Errors
    /// If it cannot.
    pub fn open(options: Options, disk: D, journal: &[u8], now: Time) -> Result<Self, OpenError> {
        if whose(journal).is_some_and(|whose| whose != options.whose) {
            return Err(OpenError::OfAnother);
        }
        let voters = ConfState::from(((1..=options.nodes).collect::<Vec<_>>(), Vec::new()));
        let salt = options.seed;
        let (mut journal, recovered) = Journal::open(disk, journal, salt, options.whose, &voters)?;
        if recovered.has_forgotten {
            return Err(OpenError::Forgotten);
        }
        let life = options.started.max(recovered.life + 1);
        let log = recovered.log;
        match journal.begin(life, &log) {
            Ok(()) => {}
            Err(Unwritten::Yet(error) | Unwritten::Ever(error)) => {
                return Err(OpenError::Unwritten(error));
            }
        }
        let unfit = |what: &str| OpenError::Unfit(what.to_owned());
        let applied = log.snapshot.get_metadata().index;
        let keyspace = match applied {
            0 => Keyspace::default(),
            _ => Keyspace::from_snapshot(&log.snapshot.data)
                .ok_or_else(|| unfit("its snapshot cannot be read"))?,
        };
        let config = Config {
            id: options.id,
            election_tick: elections::TICKS,
            max_election_tick: elections::TICKS_MAX,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied,
            max_size_per_msg: BATCH_BYTES as u64,
            max_inflight_msgs: 8,
            max_uncommitted_size: 8 * BATCH_BYTES as u64,
            check_quorum: true,
            pre_vote: true,
            read_only_option: ReadOnlyOption::Safe,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&config, log, &logger);
        let raft = raft.map_err(|error| OpenError::Unfit(error.to_string()))?;
        let mut node = Node {
            options,
            raft,
            journal,
            keyspace,
            applied,
            executed: 0,
            life,
            number: 0,
            changes: VecDeque::new(),
            change_bytes: 0,
            last_asked: 0,
            underway: None,
            reads: VecDeque::new(),
            question: None,
            silence: Silence::default(),
            elections: Elections::default(),
            leaves: false,
            ticks: 0,
            tick_at: now + TICK,
            stalled: None,
            sum_up_at: 0,
            ends: None,
        };
        node.choose_patience();
        Ok(node)
    }

    /// Whether it can be asked for more.
    pub fn has_room(&self) -> bool {
        self.change_bytes < WAITING_BYTES && self.reads.len() < WAITING_READS
    }

    /// What is asked of it, under tickets that grow. The answer comes with one of the next
    /// [`Node::flush`].
    pub fn ask(&mut self, ticket: Ticket, request: Request, now: Time) {
        self.last_asked = ticket;
        match request {
            Request::Change(command) => self.change(Some(ticket), command, now),
            Request::Read(what) => self.reads.push_back(Waiting {
                what,
                ticket: Some(ticket),
                at: now,
            }),
        }
    }

    /// Nobody waits for an answer any more: a change is dropped if it was not begun.
    pub fn forget(&mut self, ticket: Ticket) {
        let at = self.changes.partition_point(|change| change.place < ticket);
        let change = self.changes.get_mut(at);
        // Others at its place are the node's own, behind it.
        if let Some(change) = change.filter(|change| change.asked.ticket == Some(ticket)) {
            change.is_unwanted = true;
        }
    }

    fn change(&mut self, ticket: Option<Ticket>, what: Command, now: Time) {
        self.change_bytes += what.len();
        let at = now;
        self.changes.push_back(WaitingChange {
            asked: Waiting { what, ticket, at },
            place: self.last_asked,
            is_unwanted: false,
        });
    }

    /// How long the frame is that these bytes begin with, if that is to be seen yet.
    ///
    /// # Errors
    /// They are none; or it is longer than those of who is not known may be.
    pub(crate) fn frame_length(bytes: &[u8], is_known: bool) -> Result<Option<usize>, NoFrame> {
        let length = wire::length(bytes)?;
        let fits = is_known || length.is_none_or(|length| length <= wire::FIRST_MAX);
        fits.then_some(length).ok_or(NoFrame)
    }

    /// A whole frame came from another node: which one's.
    ///
    /// # Errors
    /// It is none of this keyspace's.
    pub fn frame(&mut self, frame: &[u8]) -> Result<u64, NoFrame> {
        let voters = &self.raft.store().voters;
        let message = wire::decode(self.options.digest, frame, voters)?;
        let from = message.from;
        let is_ours = message.to == self.options.id
            && message.from != self.options.id
            && voters.voters.contains(&message.from);
        // A node that cannot write is as one that is not there; one whose disk is full puts nothing
        // into the log for others.
        let is_refused = self.ends.is_some()
            || self.stalled.is_some()
            || message.msg_type == MessageType::MsgPropose && !self.journal.has_room();
        // A leader tells a node of no more than it confirmed.
        let last = self.raft.raft.raft_log.last_index();
        if is_ours && message.msg_type == MessageType::MsgHeartbeat && message.commit > last {
            self.ends = Some(EndError::Forgotten);
            return Ok(from);
        }
        if is_ours && !is_refused && self.understands(&message) {
            // What is refused is lost, as anything may be that is sent.
            self.elections.heard_of(message.from, self.ticks);
            let _ = self.raft.step(message);
            self.choose_patience();
        }
        Ok(from)
    }

    /// To be called at [`Node::wake_at`].
    pub fn tick(&mut self, now: Time) {
        // Who was late by less than a tick goes on in time, else elections take longer where there
        // is much to do. More is not caught up on: it was this node that was not there.
        if now < self.tick_at {
            return;
        }
        let late = now.since(self.tick_at);
        self.tick_at = (self.tick_at + TICK).max(now);
        self.ticks += 1;
        self.silence.passed(late, self.stalled.is_some(), now);
        if self.stalled.is_some() {
            return;
        }
        self.keep_quorum();
        self.raft.tick();
        self.choose_patience();
        self.resend_snapshots();
        if !self.leads() {
            return self.silence.clear();
        }
        for command in self.silence.ended(self.keyspace.leases(), now) {
            self.change(None, command, now);
        }
        let is_full = self.ticks.is_multiple_of(HAND_OVER_TICKS) && !self.journal.has_room();
        if self.leaves || is_full {
            self.hand_over();
        }
    }

    /// It is to end: where it leads, another is to lead from now on, so that nobody has to find out
    /// that it is gone. What it was asked it answers yet.
    pub fn leave(&mut self) {
        self.leaves = true;
        if self.leads() && self.stalled.is_none() {
            self.hand_over();
        }
    }

    /// Whether everything that was asked is answered.
    pub fn is_done(&self) -> bool {
        let is_waiting = !self.changes.is_empty() || !self.reads.is_empty();
        !is_waiting && self.underway.is_none() && self.question.is_none()
    }

    /// Whether it leads.
    pub fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// When [`Node::tick`] is to be called.
    pub fn wake_at(&self) -> Time {
        self.tick_at
    }

    /// Does what there is to do.
    ///
    /// # Errors
    /// It must not go on.
    pub fn flush(&mut self, now: Time, out: &mut Effects) -> Result<(), EndError> {
        if let Some(ends) = self.ends.take() {
            return Err(self.end(ends));
        }
        self.give_up(now, out);
        loop {
            self.propose(out)?;
            self.ask_leader();
            let goes_on = self.take_ready(now, out)?;
            self.answer_reads(out);
            if !goes_on {
                break;
            }
        }
        self.sum_up()
    }

    /// A node that has forgotten does not start anew from the same journal either: the next leader
    /// would not know what it had confirmed, and it would vote.
    fn end(&mut self, why: EndError) -> EndError {
        if matches!(why, EndError::Forgotten)
            && let Err(Unwritten::Yet(error) | Unwritten::Ever(error)) = self.journal.forget()
        {
            tracing::error!(
                %error,
                "that this node has forgotten what it confirmed cannot be written down: do not \
                 start it again"
            );
        }
        why
    }

    /// How it is.
    pub fn status(&mut self) -> Status {
        Status {
            leader: self.raft.raft.leader_id,
            leads: self.leads(),
            term: self.raft.raft.term,
            committed: self.raft.raft.raft_log.committed,
            applied: self.applied,
            executed: self.executed,
            is_full: self.stalled.is_some() || !self.journal.has_room(),
        }
    }

    /// Up to which place of the log another node has it, as far as it has said so; where this one
    /// leads.
    pub(crate) fn has_up_to(&self, id: u64) -> Option<u64> {
        let progress = self.leads().then(|| self.raft.raft.prs().get(id));
        progress.flatten().map(|progress| progress.matched)
    }

    /// What has been executed so far; others may be further.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }
}

#[cfg(test)]
mod tests;
