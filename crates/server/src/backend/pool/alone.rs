//! What queries may hold that cannot be sent again: none of them can be taken back, however slow it
//! turns out to be, so each is a connection that may be gone until the deadline.
//!
//! The last connections are for those of whom least is to be feared. Queries that can be sent again
//! find a sixteenth, one at least, that no others hold. As many more are kept from *doubtful* ones:
//! of calls that are slow or hang for somebody now, and of calls that were never answered, but for
//! the first that one asks. And who holds one has a further one only where those that all such hold
//! beyond their first are less than a quarter: so few who ask leave most to those who hold none,
//! whatever they all ask for, before anything is known of any. Of fewer than four connections, two
//! may be held.

use super::super::wire::Wire;
use super::pipe::Pipe;
use super::share::ShareOptions;
use super::statements::Statements;
use super::waiting::MayGo;
use rhythm_net::Time;

/// How many pipes are held by queries that cannot be sent again. See the module's text.
#[derive(Debug)]
pub(super) struct HeldAlone {
    pipes: usize,
    /// Those that are slow, or of a call that was never answered.
    doubtful: usize,
    /// Who asks them, in order.
    askers: Vec<u64>,
    /// Those beyond the first of each.
    further: usize,
}

impl HeldAlone {
    /// What they hold now.
    pub(super) fn of<W: Wire>(pipes: &[Pipe<W>], statements: &Statements, now: Time) -> HeldAlone {
        let (mut doubtful, mut askers) = (0, Vec::new());
        for pipe in pipes {
            let Some(query) = pipe.oldest().filter(|query| query.is_alone) else {
                continue;
            };
            let is_known = statements.was_answered(query.call.number());
            doubtful += usize::from(!is_known || pipe.is_slow(statements, now));
            askers.push(query.asker);
        }
        askers.sort_unstable();
        let pipes = askers.len();
        askers.dedup();
        HeldAlone {
            pipes,
            doubtful,
            further: pipes - askers.len(),
            askers,
        }
    }

    /// Whether one is of this asker.
    pub(super) fn is_of(&self, asker: u64) -> bool {
        self.askers.binary_search(&asker).is_ok()
    }

    /// Whether one more may go, of all that there may be, whoever asks.
    pub(super) fn leaves_one(&self, all: usize) -> bool {
        self.pipes < most(all, 1)
    }

    /// Whether one more of this asker may go, of all that there may be.
    pub(super) fn leaves_enough(
        &self,
        all: usize,
        asker: u64,
        is_doubtful: bool,
        share: &ShareOptions,
    ) -> MayGo {
        if !self.leaves_one(all) || is_doubtful && self.doubtful >= most(all, 2) {
            MayGo::NotOfIt
        } else if self.is_of(asker) && self.further >= share.further_max(all) {
            MayGo::NotOfHim
        } else {
            MayGo::Yes
        }
    }
}

/// Most of so many that leave so many sixteenths; of fewer than four, two.
pub(super) fn most(all: usize, sixteenths: usize) -> usize {
    let left = sixteenths * (all / 16).max(1);
    all.saturating_sub(left).max(2)
}
