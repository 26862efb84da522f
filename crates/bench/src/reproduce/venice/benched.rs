//! What `rhythm venice bench` has measured, as it tells it: the figures of turns.

use serde::Deserialize;

/// A figure of its report.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    /// What is compared.
    pub(super) part: String,
    pub(super) transport: String,
    pub(super) bytes: Option<usize>,
    /// Who did it.
    pub(super) what: String,
    /// Its figure in each turn.
    pub(super) turns: Vec<f64>,
}

/// Times that one is of another, turn by turn.
pub(super) fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    let turns = one.iter().zip(other);
    turns.map(|(one, other)| one / other).collect()
}
