//! How often what happened, so that a run that tried nothing is seen.

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) lent: u64,
    /// Of these, of what does jobs.
    pub(crate) accelerators: u64,
    pub(crate) not_lent: u64,
    pub(crate) broken: u64,
    pub(crate) given_back: u64,
    pub(crate) reclaimed: u64,
    pub(crate) refused_by_donor: u64,
    pub(crate) node_deaths: u64,
    pub(crate) monitor_deaths: u64,
    /// Of these, between what was kept and what was said.
    pub(crate) between: u64,
    pub(crate) cuts: u64,
    pub(crate) silent: u64,
    /// Monitors that began to lead, that did so no more, and that were stopped for a while; of
    /// these, between what was kept and what was said.
    pub(crate) elected: u64,
    pub(crate) deposed: u64,
    pub(crate) stopped: u64,
    pub(crate) stopped_between: u64,
    /// What was asked of etcd and not answered, though it was done, or done later.
    pub(crate) unanswered: u64,
    pub(crate) late: u64,
    /// Transactions that were of no leader, or were done before.
    pub(crate) fenced: u64,
    /// Requests for which there was no room.
    pub(crate) full: u64,
    /// Renewals by a leader of etcd that was deposed.
    pub(crate) in_vain: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.steps += more.steps;
        self.lent += more.lent;
        self.accelerators += more.accelerators;
        self.not_lent += more.not_lent;
        self.broken += more.broken;
        self.given_back += more.given_back;
        self.reclaimed += more.reclaimed;
        self.refused_by_donor += more.refused_by_donor;
        self.node_deaths += more.node_deaths;
        self.monitor_deaths += more.monitor_deaths;
        self.between += more.between;
        self.cuts += more.cuts;
        self.silent += more.silent;
        self.elected += more.elected;
        self.deposed += more.deposed;
        self.stopped += more.stopped;
        self.stopped_between += more.stopped_between;
        self.unanswered += more.unanswered;
        self.late += more.late;
        self.fenced += more.fenced;
        self.full += more.full;
        self.in_vain += more.in_vain;
    }
}
