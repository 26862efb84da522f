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
//! (`Keyspace::execute`). A question is asked anew under a number of its own each time: an answer
//! to an older one proves nothing about now.

mod asked;
mod leases;
mod ready;
mod request;
mod underway;

pub use request::{Answer, Effects, OpenError, Options, Read, Request, Status, Ticket};

use super::bytes;
use super::command::Command;
use super::journal::{Disk, Journal, Unwritten};
use super::keyspace::Keyspace;
use super::log::Log;
use super::wire::{self, NoFrame};
use leases::Leases;
use raft::eraftpb::{ConfState, MessageType};
use raft::{Config, RawNode, ReadOnlyOption, StateRole};
use rhythm_net::Time;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use underway::{Asked, BATCH_BYTES, Question, Stalled, Underway};

/// What `raft` counts time in.
pub const TICK: Duration = Duration::from_millis(50);
/// A follower that has not heard of the leader for so many ticks, and up to twice as many, chosen
/// anew each time, asks for votes.
const ELECTION_TICKS: usize = 10;
const HEARTBEAT_TICKS: usize = 2;
/// How often a leader whose disk is full tries to have another lead.
const HAND_OVER_TICKS: u64 = 40;
/// Bytes of changes that may wait, and reads.
const WAITING_BYTES: usize = 16 << 20;
const WAITING_READS: usize = 65_536;

/// See the head of this file.
pub struct Node<D> {
    options: Options,
    raft: RawNode<Log>,
    journal: Journal<D>,
    keyspace: Keyspace,
    /// Up to which place of the log it is executed.
    applied: u64,
    life: u64,
    /// The last batch's, and question's.
    number: u64,
    changes: VecDeque<Asked<Command>>,
    change_bytes: usize,
    underway: Option<Underway>,
    reads: VecDeque<Asked<Read>>,
    question: Option<Question>,
    leases: Leases,
    ticks: u64,
    tick_at: Time,
    stalled: Option<Stalled>,
}

impl<D: Disk> Node<D> {
    /// A node that goes on from the journal in these bytes, or begins with none.
    ///
    /// # Errors
    /// If it cannot.
    pub fn open(options: Options, disk: D, journal: &[u8], now: Time) -> Result<Self, OpenError> {
        let voters = ConfState::from(((1..=options.nodes).collect::<Vec<_>>(), Vec::new()));
        let salt = options.seed;
        let (mut journal, recovered) = Journal::open(disk, journal, salt, &voters)?;
        let life = recovered.life + 1;
        let log = recovered.log;
        match journal.begin_life(life, &log) {
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
            election_tick: ELECTION_TICKS,
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
            life,
            number: 0,
            changes: VecDeque::new(),
            change_bytes: 0,
            underway: None,
            reads: VecDeque::new(),
            question: None,
            leases: Leases::default(),
            ticks: 0,
            tick_at: now + TICK,
            stalled: None,
        };
        node.choose_patience();
        Ok(node)
    }

    /// Whether it can be asked for more.
    pub fn has_room(&self) -> bool {
        self.change_bytes < WAITING_BYTES && self.reads.len() < WAITING_READS
    }

    /// What is asked of it. The answer comes with one of the next [`Node::flush`].
    pub fn ask(&mut self, ticket: Ticket, request: Request, now: Time) {
        match request {
            Request::Change(command) => self.change(Some(ticket), command, now),
            Request::Read(what) => self.reads.push_back(Asked {
                what,
                ticket: Some(ticket),
                at: now,
            }),
        }
    }

    fn change(&mut self, ticket: Option<Ticket>, what: Command, now: Time) {
        self.change_bytes += what.len();
        let at = now;
        self.changes.push_back(Asked { what, ticket, at });
    }

    /// How long the frame is that these bytes begin with, if that is to be seen yet.
    ///
    /// # Errors
    /// They are none.
    pub(crate) fn frame_length(bytes: &[u8]) -> Result<Option<usize>, NoFrame> {
        wire::length(bytes)
    }

    /// A whole frame came from another node.
    ///
    /// # Errors
    /// It is none of this keyspace's.
    pub fn frame(&mut self, frame: &[u8]) -> Result<(), NoFrame> {
        let voters = &self.raft.store().voters;
        let message = wire::decode(self.options.digest, frame, voters)?;
        let is_ours = message.to == self.options.id
            && message.from != self.options.id
            && voters.voters.contains(&message.from);
        // A node that cannot write is as one that is not there; one whose disk is full puts nothing
        // into the log for others.
        let is_refused = self.stalled.is_some()
            || message.msg_type == MessageType::MsgPropose && !self.journal.has_room();
        if is_ours && !is_refused {
            // What is refused is lost, as anything may be that is sent.
            let _ = self.raft.step(message);
            self.choose_patience();
        }
        Ok(())
    }

    /// To be called at [`Node::wake_at`].
    pub fn tick(&mut self, now: Time) {
        // Who was late does not catch up: the others may have been heard of in time.
        if now < self.tick_at {
            return;
        }
        self.tick_at = now + TICK;
        self.ticks += 1;
        if self.stalled.is_some() {
            return;
        }
        self.raft.tick();
        self.choose_patience();
        self.resend_snapshots();
        if self.raft.raft.state != StateRole::Leader {
            return self.leases.clear();
        }
        for command in self.leases.ended(self.keyspace.sessions(), now) {
            self.change(None, command, now);
        }
        if self.ticks.is_multiple_of(HAND_OVER_TICKS) && !self.journal.has_room() {
            self.hand_over();
        }
    }

    /// Has another node lead: this one can put nothing into the log.
    fn hand_over(&mut self) {
        let others = self
            .raft
            .raft
            .prs()
            .iter()
            .filter(|(id, progress)| **id != self.options.id && progress.recent_active);
        let furthest = others.max_by_key(|(id, progress)| (progress.matched, **id));
        if let Some(id) = furthest.map(|(id, _)| *id) {
            self.raft.transfer_leader(id);
        }
    }

    /// When [`Node::tick`] is to be called.
    pub fn wake_at(&self) -> Time {
        self.tick_at
    }

    /// Does what there is to do.
    ///
    /// # Errors
    /// The disk failed so that nobody knows what is on it: the node must not go on.
    pub fn flush(&mut self, now: Time, out: &mut Effects) -> io::Result<()> {
        self.give_up(now, out);
        loop {
            self.propose(out);
            self.ask_leader();
            let goes_on = self.take_ready(now, out)?;
            self.answer_reads(out);
            if !goes_on {
                break;
            }
        }
        self.sum_up()
    }

    /// How it is.
    pub fn status(&mut self) -> Status {
        Status {
            leader: self.raft.raft.leader_id,
            term: self.raft.raft.term,
            committed: self.raft.raft.raft_log.committed,
            applied: self.applied,
            is_full: self.stalled.is_some() || !self.journal.has_room(),
        }
    }

    /// What has been executed so far; others may be further.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// How long it waits for a leader: chosen from its seed, and not by `raft` from random numbers
    /// of the system, so that a run can be repeated.
    fn choose_patience(&mut self) {
        let mut of = self.raft.raft.term.to_le_bytes().to_vec();
        of.extend([self.raft.raft.state as u8, self.options.id as u8]);
        of.extend(self.life.to_le_bytes());
        let chosen = bytes::checksum(self.options.seed, &of) as usize % ELECTION_TICKS;
        let raft = &mut self.raft.raft;
        raft.set_randomized_election_timeout(ELECTION_TICKS + chosen);
    }
}
