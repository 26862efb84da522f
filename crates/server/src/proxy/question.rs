//! A question whether a server is in order.

use super::upstream::Tried;
use crate::answer_reader::AnswerReader;
use rhythm_net::Outgoing;

/// A question under way.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) route: u32,
    pub(super) upstream: usize,
    /// Which places of the server could not be reached.
    pub(super) places: Tried,
    /// Its connection is open.
    pub(super) is_open: bool,
    /// What is owed of it to the server.
    pub(super) owed: Outgoing,
    pub(super) reader: AnswerReader,
}
