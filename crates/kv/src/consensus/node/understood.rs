//! Whether what other nodes say can be executed here. It is looked at before it is written: what is
//! in the journal is confirmed, and has to be executed at every start.

use super::Node;
use super::request::EndError;
use crate::consensus::journal::Disk;
use crate::consensus::keyspace::{Batch, Keyspace};
use raft::eraftpb::{Message, MessageType};

impl<D: Disk> Node<D> {
    /// Whether a message is one that this release can take. What another node proposes is refused
    /// else, so that it does not get into the log before most nodes can execute it; a node that is
    /// to take it over ends.
    pub(super) fn understands(&mut self, message: &Message) -> bool {
        let is_known = |data: &[u8]| data.is_empty() || Batch::decode(data).is_some();
        // Others have marks of questions in their entries.
        let is_of_log = matches!(
            message.msg_type,
            MessageType::MsgPropose | MessageType::MsgAppend
        );
        let mut entries = message.entries.iter().filter(|_| is_of_log);
        let unknown = entries.find(|entry| !is_known(&entry.data));
        let unknown = unknown.map(|entry| format!("entry {} of the log", entry.index));
        let snapshot = message.get_snapshot();
        let is_readable = snapshot.is_empty() || Keyspace::from_snapshot(&snapshot.data).is_some();
        let unread = (!is_readable).then(|| "another node's snapshot".to_owned());
        let Some(what) = unknown.or(unread) else {
            return true;
        };
        if message.msg_type == MessageType::MsgPropose {
            tracing::warn!(
                of = message.from,
                "a node proposes what only a newer release can execute: it is refused until a \
                 node of that release leads"
            );
        } else if message.term >= self.raft.raft.term {
            self.ends = Some(EndError::Unknown(what));
        }
        false
    }
}
