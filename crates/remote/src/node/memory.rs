//! What a thread of a node keeps of cohorts that wait and of answers that are not taken, and who
//! goes where that is too much.
//!
//! While answers alone are more than the memory nobody has a turn: what comes of it would have no
//! room. So that nobody waits for who does not read, each connection has a share of the memory:
//! where it is short for a while, whoever has had more all the while is ended, who has most first,
//! until there is room. Where answers leave none, somebody has more than a share.

use super::works::NodeWorker;
use rhythm_net::{ConnectionId, Port, Time};
use std::time::Duration;

/// So long memory is short before somebody is ended for it: enough for who reads, since nothing is
/// run meanwhile, and less than front ends wait for a stage.
const SHORT_MAX: Duration = Duration::from_millis(500);

impl NodeWorker {
    /// Whether answers leave room for another; where they do not it is looked again soon.
    pub(super) fn has_room_for_answers(&mut self, port: &mut dyn Port, now: Time) -> bool {
        let has_room = |it: &NodeWorker| it.unsent() <= it.limits.held_max;
        let since = self.short.for_answers.take();
        self.short.for_answers = self.make_room(port, since, now, has_room).err();
        if self.short.for_answers.is_some() {
            self.look_at = self.look_at.min(now + SHORT_MAX / 2);
        }
        self.short.for_answers.is_none()
    }

    /// Whether a cohort of so many bytes finds room to wait.
    pub(super) fn has_room_for(&mut self, port: &mut dyn Port, bytes: usize, now: Time) -> bool {
        let has_room = |it: &NodeWorker| {
            let held: usize = it.connections.iter().map(|(_, it)| it.held()).sum();
            held + bytes <= it.limits.held_max
        };
        let since = self.short.for_cohorts.take();
        self.short.for_cohorts = self.make_room(port, since, now, has_room).err();
        self.short.for_cohorts.is_none()
    }

    /// Whether an answer of so many bytes is kept until it is taken. The first that a connection is
    /// owed always is.
    pub(super) fn keeps(&self, id: ConnectionId, bytes: usize) -> bool {
        let own = self.connections.get(id).map_or(0, |it| it.unsent());
        own == 0 || own + bytes <= self.share() || self.unsent() + bytes <= self.limits.held_max
    }

    /// Bytes of answers that are not taken.
    fn unsent(&self) -> usize {
        self.connections.iter().map(|(_, it)| it.unsent()).sum()
    }

    /// What of the memory is a connection's.
    fn share(&self) -> usize {
        self.limits.held_max / self.connections.len().max(1)
    }

    /// Looks whether there is room, and ends those who are in the way where there was none for too
    /// long.
    ///
    /// # Errors
    /// There is none, since then.
    fn make_room(
        &mut self,
        port: &mut dyn Port,
        since: Option<Time>,
        now: Time,
        has_room: impl Fn(&NodeWorker) -> bool,
    ) -> Result<(), Time> {
        let since = since.unwrap_or(now);
        while !has_room(self) {
            let share = self.share();
            let in_the_way = self
                .connections
                .iter()
                .filter(|(_, it)| it.unsent() > share && it.owed().max(since) + SHORT_MAX <= now);
            let most = in_the_way.max_by_key(|(_, it)| it.unsent());
            let Some(id) = most.map(|(id, _)| id) else {
                return Err(since);
            };
            let why = "it does not take its answers, and others need the memory (--memory)";
            self.refuse(why, now);
            self.end(port, id);
        }
        Ok(())
    }
}
