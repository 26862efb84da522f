//! How often what happened, so that a run that tried nothing is seen.

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) lent: u64,
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
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.steps += more.steps;
        self.lent += more.lent;
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
    }
}
