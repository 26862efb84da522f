//! A choice, and what speaks for it.

use crate::Setting;
use std::fmt;

/// Which setting should be in force from now on, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The setting.
    pub setting: Setting,
    /// What speaks for it.
    pub why: Why,
}

/// What speaks for a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It was configured.
    Fixed,
    /// The paper's rule: so many of the batch's requests were HT-friendly.
    Majority {
        /// HT-friendly ones.
        friendly: u32,
        /// The batch.
        batch: u32,
    },
    /// To see what it does, for a bounded time.
    Exploring {
        /// Share of the cores that is running now.
        load: f64,
    },
    /// The time for seeing what the other does is over, or the load has risen.
    Explored {
        /// Completions seen meanwhile.
        completions: u64,
    },
    /// Requests would be answered sooner.
    Gain {
        /// By what share of their time, as estimated from what ran under both settings.
        expected: f64,
        /// How sure that it is a gain at all.
        confidence: f64,
        /// The evidence since the last switch, in units of what a switch costs.
        evidence: f64,
    },
    /// The last decision made it worse.
    Reverted {
        /// Completions that the other setting would have had meanwhile.
        expected: f64,
        /// Those there were.
        seen: f64,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.setting, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Fixed => out.write_str("it was configured"),
            Why::Majority { friendly, batch } => {
                write!(
                    out,
                    "{friendly} of the last {batch} requests are HT-friendly"
                )
            }
            Why::Exploring { load } => {
                write!(
                    out,
                    "to see what it does, with {:.0} % of the cores busy",
                    load * 100.0
                )
            }
            Why::Explored { completions } => {
                write!(out, "the other has been seen for {completions} completions")
            }
            Why::Gain {
                expected,
                confidence,
                evidence,
            } => write!(
                out,
                "requests are expected to take {:.1} % less of their time ({:.1} % sure); waiting \
                 has cost {evidence:.1} switches",
                expected * 100.0,
                confidence * 100.0
            ),
            Why::Reverted { expected, seen } => write!(
                out,
                "the other has made it worse: {seen:.0} completions where {expected:.0} were \
                 expected"
            ),
        }
    }
}
