//! What clients asked, on its way through the log or past it.
//!
//! ```text
//!   changes --> Underway: a batch, said to the leader again until it is executed
//!   reads   --> Question: does the leader still lead? asked anew until that is answered
//! ```

use super::Node;
use super::request::{Answer, Effects, EndError, Read, Ticket};
use super::underway::{
    AGAIN_TICKS, AGAIN_TICKS_MAX, BATCH_BYTES, PATIENCE, Question, Said, Underway, Waiting,
};
use crate::consensus::journal::{Disk, Unwritten};
use crate::consensus::keyspace::{Batch, Command};
use rhythm_net::Time;

impl<D: Disk> Node<D> {
    /// Who leads, and since when.
    fn leader(&self) -> (u64, u64) {
        (self.raft.raft.term, self.raft.raft.leader_id)
    }

    /// Whether something is to be said, or said again.
    fn is_due(&self, said: Option<Said>) -> bool {
        said.is_none_or(|said| {
            said.leader != self.leader() || self.ticks >= said.tick + said.patience
        })
    }

    /// It is said now, after it was said before.
    fn said(&self, before: Option<Said>) -> Said {
        let leader = self.leader();
        let before = before.filter(|before| before.leader == leader);
        let patience = before.map_or(AGAIN_TICKS, |before| 2 * before.patience);
        Said {
            leader,
            tick: self.ticks,
            patience: patience.min(AGAIN_TICKS_MAX),
        }
    }

    /// Has it live later than a node of its name that was before, whose clock was ahead: its
    /// batches would not count. One that was refused for that gets another number. False: that
    /// cannot be written yet.
    fn outlive(&mut self) -> Result<bool, EndError> {
        let id = self.options.id;
        if !self.keyspace.has_executed(id, (self.life, self.number + 1)) {
            return Ok(true);
        }
        let life = self.keyspace.last_batch(id).0 + 1;
        match self.journal.begin_life(life) {
            Ok(()) => {}
            Err(Unwritten::Ever(error)) => return Err(EndError::Unwritten(error)),
            Err(Unwritten::Yet(error)) => {
                tracing::error!(%error, "the journal cannot be written; it is tried again");
                return Ok(false);
            }
        }
        tracing::warn!(
            "a node of this name was here before, with a clock that was ahead of this one's"
        );
        self.life = life;
        let batch = self.underway.take().map(|underway| {
            let batch = Batch::decode(&underway.bytes);
            (batch, underway.asked)
        });
        if let Some((Some(batch), asked)) = batch {
            self.underway = Some(self.underway(batch.commands, asked));
        }
        Ok(true)
    }

    /// Puts the next batch together, and says it to the leader.
    pub(super) fn propose(&mut self, out: &mut Effects) -> Result<(), EndError> {
        let has_work = self.underway.is_some() || !self.changes.is_empty();
        if has_work && self.stalled.is_none() && !self.outlive()? {
            return Ok(());
        }
        if self.underway.is_none() && !self.changes.is_empty() {
            if self.stalled.is_some() || !self.journal.has_room() {
                self.change_bytes = 0;
                let refused = self.changes.drain(..);
                let refused = refused.filter_map(|change| change.awaited_by());
                out.answers
                    .extend(refused.map(|ticket| (ticket, Answer::DiskFull)));
                return Ok(());
            }
            self.underway = self.next_batch();
        }
        let Some(underway) = &self.underway else {
            return Ok(());
        };
        // Who leads has it in its log from the first time.
        let is_there = self.leads()
            && underway
                .said
                .is_some_and(|said| said.leader == self.leader());
        if self.stalled.is_none() && !is_there && self.is_due(underway.said) {
            let bytes = underway.bytes.clone();
            // Refused where nobody leads, or too much is on its way.
            let said = self.raft.propose(Vec::new(), bytes);
            let said = said.ok().map(|()| self.said(underway.said));
            if let Some(underway) = &mut self.underway {
                underway.said = said;
            }
        }
        Ok(())
    }

    /// None: nobody wants anything of what waited.
    fn next_batch(&mut self) -> Option<Underway> {
        let (mut commands, mut asked) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some(change) = self.changes.pop_front()
        {
            let Waiting { what, ticket, at } = change.asked;
            self.change_bytes -= what.len();
            if change.is_unwanted {
                continue;
            }
            bytes += what.len();
            asked.push((ticket, at));
            commands.push(what);
        }
        if commands.is_empty() {
            return None;
        }
        Some(self.underway(commands, asked))
    }

    /// A batch that was not said yet.
    fn underway(&mut self, commands: Vec<Command>, asked: Vec<(Option<Ticket>, Time)>) -> Underway {
        self.number += 1;
        let batch = Batch {
            origin: self.options.id,
            number: (self.life, self.number),
            commands,
        };
        Underway {
            number: self.number,
            bytes: batch.encode(),
            asked,
            said: None,
        }
    }

    /// Asks whether the leader still leads, for the reads that wait.
    pub(super) fn ask_leader(&mut self) {
        if self.question.is_none() && !self.reads.is_empty() {
            let next = self.number + 1;
            self.question = Some(Question {
                numbers: next..=next,
                reads: self.reads.drain(..).collect(),
                said: None,
                index: None,
            });
        }
        let Some(question) = &self.question else {
            return;
        };
        if self.stalled.is_none() && question.index.is_none() && self.is_due(question.said) {
            self.number += 1;
            let (number, said) = (self.number, self.said(question.said));
            self.raft.read_index(self.mark(number));
            if let Some(question) = &mut self.question {
                question.numbers = *question.numbers.start()..=number;
                question.said = Some(said);
            }
        }
    }

    /// By what a question is known: no other was asked under the same, in no life of this node.
    fn mark(&self, number: u64) -> Vec<u8> {
        let numbers = [self.options.id, self.life, number];
        numbers.map(u64::to_le_bytes).concat()
    }

    /// The leader has led since it was asked under this mark, and all up to this place of the log
    /// was agreed on then.
    pub(super) fn led(&mut self, mark: &[u8], index: u64) {
        let number = mark
            .last_chunk()
            .map_or(0, |number| u64::from_le_bytes(*number));
        let is_own = mark == self.mark(number);
        if let Some(question) = &mut self.question
            && is_own
            && question.numbers.contains(&number)
        {
            question.index.get_or_insert(index);
        }
    }

    /// Answers the reads for which all is executed that they must show.
    pub(super) fn answer_reads(&mut self, out: &mut Effects) {
        let is_ready =
            |question: &mut Question| question.index.is_some_and(|index| index <= self.applied);
        let Some(question) = self.question.take_if(is_ready) else {
            return;
        };
        for read in question.reads {
            let answer = match read.what {
                Read::Item(key) => Answer::Item(self.keyspace.get(&key).cloned()),
                Read::Revision => Answer::Revision(self.keyspace.revision()),
            };
            out.answers
                .extend(read.ticket.map(|ticket| (ticket, answer)));
        }
    }

    /// Answers those who have waited for too long.
    pub(super) fn give_up(&mut self, now: Time, out: &mut Effects) {
        let is_late = |at: Time| now.since(at) >= PATIENCE;
        // What cannot be written down cannot be executed either, nor what was asked behind it.
        let is_stalled = self.stalled.is_some();
        let mut nothing = |ticket: Option<Ticket>| {
            let answer = match is_stalled {
                true => Answer::DiskFull,
                false => Answer::NothingDone,
            };
            (out.answers).extend(ticket.map(|ticket| (ticket, answer)));
        };
        let late = (self.changes).partition_point(|change| is_late(change.asked.at));
        for change in self.changes.drain(..late) {
            self.change_bytes -= change.asked.what.len();
            nothing(change.awaited_by());
        }
        let late = self.reads.partition_point(|read| is_late(read.at));
        (self.reads.drain(..late)).for_each(|read| nothing(read.ticket));
        if let Some(question) = &mut self.question {
            let late = question.reads.partition_point(|read| is_late(read.at));
            (question.reads.drain(..late)).for_each(|read| nothing(read.ticket));
        }
        self.question.take_if(|question| question.reads.is_empty());
        if let Some(underway) = &mut self.underway {
            // It goes on: those behind it must not come before it.
            let late = underway.asked.partition_point(|(_, at)| is_late(*at));
            let late = underway.asked[..late].iter_mut();
            let late = late.filter_map(|(ticket, _)| ticket.take());
            (out.answers).extend(late.map(|ticket| (ticket, Answer::PerhapsDone)));
        }
    }
}
