//! What nodes send each other: frames <-> messages of `raft`, without I/O.
//!
//! ```text
//!   byte 0        4       len - 8    len
//!        | length | message | checksum |
//! ```
//!
//! The checksum's key is a digest of who the nodes are: what another keyspace's node sends is not
//! understood, and is answered with the nodes that this one was told of, in the same way without a
//! digest. Numbers are little-endian, of 8 bytes unless said.

use crate::bytes::{Put, Reader};
use crate::checksum::checksum;
use raft::eraftpb::{ConfState, Entry, HardState, Message, MessageType, Snapshot};

/// Bytes of a length.
pub(super) const PREFIX: usize = 4;
const SUM: usize = 8;
/// What the checksum of what a node was told is keyed with.
const TERMS_KEY: [u64; 2] = [3, 0];
/// The longest frame with that.
pub(super) const TERMS_MAX: usize = 4 << 10;
/// The longest frame: a snapshot. Messages' entries are some MiB.
pub(super) const FRAME_MAX: usize = 24 << 20;
/// The longest frame that a connection may begin with: whose it is is not known yet. A batch fits,
/// and a snapshot is sent again.
pub(super) const FIRST_MAX: usize = 2 << 20;
/// The form of messages: nodes that know another do not understand each other, and say so.
pub(super) const FORM: u32 = 1;

/// What crosses the network; the others are a node's own.
const TYPES: [MessageType; 14] = [
    MessageType::MsgPropose,
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTransferLeader,
    MessageType::MsgTimeoutNow,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

/// Bytes that are no frame of this keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is damaged, or of a keyspace with other nodes")]
pub struct NoFrame;

pub(super) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    out.put_u64(entry.index);
    out.put_u64(entry.term);
    out.put_bytes(&entry.data);
}

pub(super) fn take_entry(reader: &mut Reader<'_>) -> Option<Entry> {
    Some(Entry {
        index: reader.u64()?,
        term: reader.u64()?,
        data: reader.bytes()?.to_vec().into(),
        ..Entry::default()
    })
}

pub(super) fn put_entries(out: &mut Vec<u8>, entries: &[Entry]) {
    out.put_u32(entries.len() as u32);
    entries.iter().for_each(|entry| put_entry(out, entry));
}

pub(super) fn take_entries(reader: &mut Reader<'_>) -> Option<Vec<Entry>> {
    (0..reader.u32()?).map(|_| take_entry(reader)).collect()
}

pub(super) fn put_state(out: &mut Vec<u8>, state: &HardState) {
    out.put_u64(state.term);
    out.put_u64(state.vote);
    out.put_u64(state.commit);
}

pub(super) fn take_state(reader: &mut Reader<'_>) -> Option<HardState> {
    Some(HardState {
        term: reader.u64()?,
        vote: reader.u64()?,
        commit: reader.u64()?,
        ..HardState::default()
    })
}

pub(super) fn put_snapshot(out: &mut Vec<u8>, snapshot: &Snapshot) {
    let of = snapshot.get_metadata();
    out.put_u64(of.index);
    out.put_u64(of.term);
    out.put_bytes(&snapshot.data);
}

/// Who has a vote is not said in it: all nodes have, always.
pub(super) fn take_snapshot(reader: &mut Reader<'_>, voters: &ConfState) -> Option<Snapshot> {
    let mut snapshot = Snapshot::default();
    let of = snapshot.mut_metadata();
    of.index = reader.u64()?;
    of.term = reader.u64()?;
    if of.index > 0 {
        of.set_conf_state(voters.clone());
    }
    snapshot.data = reader.bytes()?.to_vec().into();
    Some(snapshot)
}

/// A message as a frame.
pub(super) fn encode(digest: u64, message: &Message) -> Vec<u8> {
    let mut out = vec![0; PREFIX];
    let kind = TYPES.iter().position(|kind| *kind == message.msg_type);
    debug_assert!(kind.is_some(), "{:?} stays here", message.msg_type);
    out.push(kind.unwrap_or(0) as u8);
    for number in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
        message.priority as u64,
        u64::from(message.reject),
    ] {
        out.put_u64(number);
    }
    put_entries(&mut out, &message.entries);
    out.put_bytes(&message.context);
    put_snapshot(&mut out, message.get_snapshot());
    let length = (out.len() + SUM) as u32;
    out[..PREFIX].copy_from_slice(&length.to_le_bytes());
    let sum = checksum([digest, 0], &out);
    out.put_u64(sum);
    out
}

/// What a node was told, as a frame for one whose frames it does not understand.
pub(super) fn encode_terms(text: &[u8]) -> Vec<u8> {
    let length = (PREFIX + text.len() + SUM) as u32;
    let mut out = length.to_le_bytes().to_vec();
    out.extend_from_slice(text);
    let sum = checksum(TERMS_KEY, &out);
    out.put_u64(sum);
    out
}

/// What another node was told, in a frame.
pub(super) fn decode_terms(frame: &[u8]) -> Result<&[u8], NoFrame> {
    let (said, sum) = frame.split_last_chunk::<SUM>().ok_or(NoFrame)?;
    match checksum(TERMS_KEY, said).to_le_bytes() == *sum {
        true => said.get(PREFIX..).ok_or(NoFrame),
        false => Err(NoFrame),
    }
}

/// How long the frame is that these bytes begin with, if that is to be seen yet.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, NoFrame> {
    match Reader(bytes).u32() {
        None => Ok(None),
        Some(length) if (PREFIX + SUM..=FRAME_MAX).contains(&(length as usize)) => {
            Ok(Some(length as usize))
        }
        Some(_) => Err(NoFrame),
    }
}

/// The message in a frame.
pub(super) fn decode(digest: u64, frame: &[u8], voters: &ConfState) -> Result<Message, NoFrame> {
    let (said, sum) = frame.split_last_chunk::<SUM>().ok_or(NoFrame)?;
    if checksum([digest, 0], said).to_le_bytes() != *sum || said.len() < PREFIX {
        return Err(NoFrame);
    }
    let message = message(Reader(&said[PREFIX..]), voters).ok_or(NoFrame)?;
    // `raft` sends only these two without its term, and takes another for its own mistake.
    let may_lack_term = matches!(
        message.msg_type,
        MessageType::MsgPropose | MessageType::MsgReadIndex
    );
    // Without anything in it these two are nothing that it sends, and end a process.
    let is_empty = may_lack_term && message.entries.is_empty();
    match message.term == 0 && !may_lack_term || is_empty {
        true => Err(NoFrame),
        false => Ok(message),
    }
}

fn message(mut reader: Reader<'_>, voters: &ConfState) -> Option<Message> {
    let mut message = Message {
        msg_type: *TYPES.get(usize::from(reader.u8()?))?,
        to: reader.u64()?,
        from: reader.u64()?,
        term: reader.u64()?,
        log_term: reader.u64()?,
        index: reader.u64()?,
        commit: reader.u64()?,
        commit_term: reader.u64()?,
        request_snapshot: reader.u64()?,
        reject_hint: reader.u64()?,
        priority: reader.u64()? as i64,
        reject: reader.u64()? != 0,
        entries: take_entries(&mut reader)?.into(),
        context: reader.bytes()?.to_vec().into(),
        ..Message::default()
    };
    let snapshot = take_snapshot(&mut reader, voters)?;
    if !snapshot.is_empty() {
        message.set_snapshot(snapshot);
    }
    reader.0.is_empty().then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_same_behind_its_frame_and_nothing_when_damaged() {
        let voters = ConfState::from((vec![1, 2, 3], vec![]));
        let mut sent = Message {
            msg_type: MessageType::MsgSnapshot,
            ..Message::default()
        };
        (sent.to, sent.from, sent.term) = (1, 2, 3);
        (sent.log_term, sent.index, sent.commit, sent.commit_term) = (4, 5, 6, 7);
        (sent.request_snapshot, sent.reject_hint, sent.priority) = (8, 9, -1);
        sent.reject = true;
        sent.context = b"context".to_vec().into();
        let mut entry = Entry::default();
        (entry.index, entry.term) = (10, 11);
        entry.data = b"data".to_vec().into();
        sent.entries = vec![entry.clone(), entry].into();
        let mut snapshot = Snapshot {
            data: b"all".to_vec().into(),
            ..Snapshot::default()
        };
        snapshot.mut_metadata().index = 12;
        snapshot.mut_metadata().term = 13;
        snapshot.mut_metadata().set_conf_state(voters.clone());
        sent.set_snapshot(snapshot);

        let frame = encode(7, &sent);
        assert_eq!(length(&frame), Ok(Some(frame.len())));
        assert_eq!(length(&frame[..3]), Ok(None));
        assert_eq!(decode(7, &frame, &voters), Ok(sent));
        assert_eq!(decode(8, &frame, &voters), Err(NoFrame));
        for at in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(7, &damaged, &voters), Err(NoFrame), "{at}");
        }
        for (msg_type, is_told) in [
            (MessageType::MsgRequestVote, false),
            (MessageType::MsgHeartbeat, false),
            (MessageType::MsgPropose, true),
            (MessageType::MsgReadIndex, true),
        ] {
            let mut termless = Message {
                msg_type,
                ..Message::default()
            };
            let empty = encode(7, &termless);
            assert_eq!(decode(7, &empty, &voters), Err(NoFrame));
            termless.entries = vec![Entry::default()].into();
            let taken = decode(7, &encode(7, &termless), &voters);
            assert_eq!(taken, if is_told { Ok(termless) } else { Err(NoFrame) });
        }
        assert_eq!(length(&[0; 4]), Err(NoFrame));
        assert_eq!(length(&[255; 4]), Err(NoFrame));
    }
}
