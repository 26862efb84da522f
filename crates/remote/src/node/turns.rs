//! Whose turn it is: front ends have theirs one after the other, and of each its connections, so
//! that one that has many of them, or sends more, has no more than others.

use rhythm_net::ConnectionId;
use rhythm_venice::loan::LoanId;
use std::collections::VecDeque;

/// Whose a connection is, as far as a node can tell: what a node has is shared out to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontEnd {
    /// All that come by a loan are one.
    Loan(LoanId),
    /// Who has a key, or needs none, may be anybody: each connection is one.
    Connection(ConnectionId),
}

/// Connections that have works, by front ends.
#[derive(Debug, Default)]
pub(super) struct Turns(VecDeque<(FrontEnd, VecDeque<ConnectionId>)>);

impl Turns {
    /// Whether nobody has any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A connection has its turn after all others of its front end, and that after all others.
    pub(super) fn push_back(&mut self, of: FrontEnd, id: ConnectionId) {
        match self.0.iter_mut().find(|(own, _)| *own == of) {
            Some((_, ids)) => ids.push_back(id),
            None => self.0.push_back((of, VecDeque::from([id]))),
        }
    }

    /// It has the next one.
    pub(super) fn push_front(&mut self, of: FrontEnd, id: ConnectionId) {
        let at = self.0.iter().position(|(own, _)| *own == of);
        let own = at.and_then(|at| self.0.remove(at));
        let (_, mut ids) = own.unwrap_or((of, VecDeque::new()));
        ids.push_front(id);
        self.0.push_front((of, ids));
    }

    /// Who has its turn, of those who are ready for it.
    pub(super) fn next(&mut self, is_ready: impl Fn(ConnectionId) -> bool) -> Option<ConnectionId> {
        let mut all = self.0.iter().enumerate();
        let (of, at) = all.find_map(|(of, (_, ids))| {
            let at = ids.iter().position(|id| is_ready(*id))?;
            Some((of, at))
        })?;
        let (front_end, mut ids) = self.0.remove(of)?;
        let id = ids.remove(at);
        if !ids.is_empty() {
            self.0.push_back((front_end, ids));
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_ends_have_turns_whatever_connections_they_have() {
        let id = |index| ConnectionId::new(index, 0);
        let (loan, other) = (FrontEnd::Loan(LoanId(1)), FrontEnd::Loan(LoanId(2)));
        let mut turns = Turns::default();
        (0..3).for_each(|index| turns.push_back(loan, id(index)));
        turns.push_back(other, id(3));
        turns.push_back(FrontEnd::Connection(id(4)), id(4));
        let mut taken = Vec::new();
        while let Some(next) = turns.next(|next| next != id(1)) {
            taken.push(next);
        }
        assert_eq!(taken, [0, 3, 4, 2].map(id));
        // Who was not ready keeps its place, and who found no room has the next turn.
        turns.push_back(other, id(3));
        turns.push_front(other, id(5));
        let all = [(); 3].map(|()| turns.next(|_| true));
        assert_eq!(all, [5, 1, 3].map(|index| Some(id(index))));
        assert!(turns.is_empty());
    }
}
