//! Which query that waits goes into a pipe next, by what those who ask may hold (`share.rs`).

use super::super::awaited::Taken;
use super::super::wire::Wire;
use super::ConnectionPool;
use super::pipe::Pipe;
use super::waiting::Waiting;

/// How many pipes belong to one who asks.
fn held<W: Wire>(pipes: &[Pipe<W>], asker: u64) -> usize {
    let owners = pipes.iter().filter_map(Pipe::owner);
    owners.filter(|owner| *owner == asker).count()
}

impl<W: Wire> ConnectionPool<W> {
    /// The next query for a pipe that has room, if one waits that may go into it.
    pub(super) fn next_for(&mut self, at: usize) -> Option<Taken> {
        let ConnectionPool {
            waiting,
            pipes,
            options,
            ..
        } = self;
        let all = options.connections_max.max(1);
        let is_bounded = W::IN_ORDER && pipes.len() >= options.share.connections_max(all, true);
        let may_go = |waiting: &Waiting, query: &Taken| {
            let asker = query.asker;
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
