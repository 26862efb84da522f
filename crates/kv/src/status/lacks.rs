//! What is not as it is to be, and what to do about it, in one line.

use std::collections::BTreeSet;

/// So much is said of what lacks; of the rest, how much there is.
const SAID_MAX: usize = 4;

/// Something that lacks. What is more urgent comes first.
#[cfg_attr(
    not(feature = "consensus"),
    expect(dead_code, reason = "a ring is led by nobody, and on no disk")
)]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack {
    /// Nobody leads.
    Unled(String),
    /// Nodes were told something else than who asks, or than each other. Where one does not answer,
    /// too, it may not have been started with that yet, and is not to be before the others ended.
    Otherwise(String),
    /// One that was asked does not answer.
    Silent(String),
    /// Fewer nodes are there than copies are wanted.
    Nodes {
        /// So many are there.
        there: usize,
        /// So many have to be, with those copies.
        wanted: usize,
    },
    /// One is not there, as another sees it.
    Away(String),
    /// A node's disk is full.
    Full(String),
    /// Something is not where it is to be, or not yet.
    Moving(String),
}

impl Lack {
    fn says(&self) -> String {
        match self {
            Lack::Nodes { there, wanted } => {
                format!(
                    "{there} of the {wanted} nodes are there that --replicas {} takes",
                    wanted - 1
                )
            }
            Lack::Unled(said)
            | Lack::Silent(said)
            | Lack::Otherwise(said)
            | Lack::Away(said)
            | Lack::Full(said)
            | Lack::Moving(said) => said.clone(),
        }
    }

    /// What to do.
    fn cure(&self) -> String {
        match self {
            Lack::Unled(_) => "start those that do not answer, or see why they do not reach each \
                               other"
                .to_owned(),
            Lack::Silent(_) => "start it, or see why it is not reached; until then end no other \
                                node"
                .to_owned(),
            Lack::Otherwise(_) => {
                "end all nodes, then start all with the same file, and ask with that".to_owned()
            }
            Lack::Nodes { there, wanted } => format!(
                "start {} more; until then end no node",
                wanted - there.min(wanted)
            ),
            Lack::Away(_) => "see its /readyz and its log; until it is there end no other \
                              node"
                .to_owned(),
            Lack::Full(_) => "make room on its disk; until then end no other node".to_owned(),
            Lack::Moving(_) => "wait, and ask again; until then end no node".to_owned(),
        }
    }
}

/// All that lacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Lacks(BTreeSet<Lack>);

impl Lacks {
    /// Something lacks.
    pub(super) fn add(&mut self, lack: Lack) {
        self.0.insert(lack);
    }

    /// What lacks, and what to do about what is most urgent; none: nothing lacks.
    pub(super) fn line(&self) -> Option<String> {
        let cure = self.0.first()?.cure();
        let said = self.0.iter().take(SAID_MAX).map(Lack::says);
        let mut said = said.collect::<Vec<_>>().join("; ");
        let more = self.0.len().saturating_sub(SAID_MAX);
        if more > 0 {
            said += &format!("; and {more} more");
        }
        Some(format!("not well: {said}: {cure}"))
    }
}
