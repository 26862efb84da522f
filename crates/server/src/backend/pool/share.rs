//! What one who asks may hold of a pool: some of its connections, and some of the calls under way.
//!
//! Where answers come in order, a connection belongs to whoever has its oldest call: until the
//! answer comes, or its deadline, it is of no use to others. One whose calls hang would soon hold
//! them all.

use super::super::awaited::Taken;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::pipe::Pipe;
use super::slots::slot_of;
use super::waiting::Waiting;

/// Most that one who asks may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareOptions {
    /// Connections; `None`: half while others wait, and all but an eighth while nobody does, so
    /// that who comes next finds some.
    pub connections_max: Option<usize>,
    /// Calls taken over and not yet answered; beyond, they are refused.
    pub calls_max: usize,
}

impl ShareOptions {
    /// Most of so many connections, while others wait or not; at least 1.
    fn connections_max(&self, all: usize, others_wait: bool) -> usize {
        let most = match (self.connections_max, others_wait) {
            (Some(most), _) => most,
            (None, true) => all.div_ceil(2),
            (None, false) => all.saturating_sub((all / 8).max(1)),
        };
        most.max(1)
    }
}

/// Calls under way, by a hash of who asked.
#[derive(Debug)]
pub(super) struct UnderWay(Box<[u32; UnderWay::SLOTS]>);

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay(Box::new([0; UnderWay::SLOTS]))
    }
}

impl UnderWay {
    const SLOTS: usize = 256;

    /// How many there are of one who asks, and of those that meet in a slot.
    pub(super) fn of(&mut self, asker: u64) -> &mut u32 {
        &mut self.0[slot_of(asker, UnderWay::SLOTS)]
    }
}

/// How many pipes belong to one who asks.
fn held<W: Wire>(pipes: &[Pipe<W>], asker: u64) -> usize {
    let owners = pipes.iter().filter_map(Pipe::owner);
    owners.filter(|owner| *owner == asker).count()
}

impl<W: Wire> ConnectionPool<W> {
    /// The next request for a pipe that has room, if one waits that may go into it.
    pub(super) fn next_for(&mut self, at: usize) -> Option<Taken> {
        let ConnectionPool {
            waiting,
            pipes,
            options,
            ..
        } = self;
        let all = options.connections_max.max(1);
        let is_bounded = W::IN_ORDER && pipes.len() >= options.share.connections_max(all, true);
        let may_go = |waiting: &Waiting, request: &Taken| {
            let asker = request.asker;
            !is_bounded || pipes[at].owner() == Some(asker) || {
                let others_wait = waiting.has_others(asker);
                held(pipes, asker) < options.share.connections_max(all, others_wait)
            }
        };
        match pipes[at].awaited.len() {
            0 => waiting.pop(may_go),
            _ => waiting.pop_shared(may_go),
        }
    }

    /// Whether a pipe belongs to one who holds more than his part: a call of his came behind others
    /// and has its turn now.
    pub(super) fn is_held_beyond(&self, at: usize) -> bool {
        let Some(asker) = self.pipes[at].owner().filter(|_| W::IN_ORDER) else {
            return false;
        };
        let all = self.options.connections_max.max(1);
        let others_wait = self.waiting.has_others(asker);
        held(&self.pipes, asker) > self.options.share.connections_max(all, others_wait)
    }
}
