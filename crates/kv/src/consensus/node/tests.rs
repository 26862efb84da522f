//! What a node does with what comes of other releases, or of nodes that know more than it.

use super::*;
use crate::consensus::journal::tests::Memory;
use crate::consensus::keyspace::Batch;
use raft::eraftpb::{Entry, Message, Snapshot};

const DIGEST: u64 = 99;

fn options(id: u64) -> Options {
    Options {
        id,
        nodes: 3,
        digest: DIGEST,
        whose: id,
        seed: id,
        started: 1,
        journal_bytes: 1 << 20,
    }
}

fn node(id: u64) -> (Node<Memory>, Memory) {
    let disk = Memory::default();
    let node = Node::open(options(id), disk.clone(), &[], Time::ZERO).unwrap();
    (node, disk)
}

fn batch(kind: u8) -> Vec<u8> {
    let batch = Batch {
        origin: 2,
        number: (1, 1),
        commands: vec![Command::Open { ttl: 1000 }],
    };
    let mut bytes = batch.encode();
    // The first command's kind, behind four numbers.
    bytes[28] = kind;
    bytes
}

fn message(msg_type: MessageType, entries: &[&[u8]]) -> Message {
    let mut message = Message {
        msg_type,
        to: 1,
        from: 2,
        term: 1,
        ..Message::default()
    };
    let entries = (1..).zip(entries).map(|(index, data)| Entry {
        index,
        term: 1,
        data: data.to_vec().into(),
        ..Entry::default()
    });
    message.entries = entries.collect::<Vec<_>>().into();
    message
}

/// What the others are sent when that came.
fn sent(node: &mut Node<Memory>, message: &Message) -> Result<Vec<MessageType>, EndError> {
    assert_eq!(node.frame(&wire::encode(DIGEST, message)), Ok(2));
    let mut out = Effects::default();
    node.flush(Time::ZERO, &mut out)?;
    let voters = node.raft.store().voters.clone();
    let frames = out.frames.iter();
    let sent = frames.map(|(_, frame)| wire::decode(DIGEST, frame, &voters).unwrap().msg_type);
    Ok(sent.collect())
}

#[test]
fn what_cannot_be_executed_is_neither_written_nor_confirmed() {
    let unreadable = Snapshot {
        data: vec![99].into(),
        ..Snapshot::default()
    };
    let mut snapshot = message(MessageType::MsgSnapshot, &[]);
    snapshot.set_snapshot(unreadable);
    snapshot.mut_snapshot().mut_metadata().index = 7;
    snapshot.mut_snapshot().mut_metadata().term = 1;
    let append = message(MessageType::MsgAppend, &[&[], &batch(77)]);
    for (message, what) in [
        (append, "entry 2 of the log"),
        (snapshot, "another node's snapshot"),
    ] {
        let (mut node, disk) = node(1);
        let before = disk.0.borrow().clone();
        let ended = sent(&mut node, &message);
        assert!(
            matches!(&ended, Err(EndError::Unknown(of)) if of == what),
            "{ended:?}"
        );
        assert_eq!(*disk.0.borrow(), before);
        Node::open(options(1), disk, &before, Time::ZERO).unwrap();
    }
    let (mut node, _) = node(1);
    let known = message(MessageType::MsgAppend, &[&[], &batch(3)]);
    assert_eq!(
        sent(&mut node, &known).unwrap(),
        [MessageType::MsgAppendResponse]
    );
}

#[test]
fn what_is_proposed_and_not_known_does_not_get_into_the_log() {
    let (mut node, _) = node(1);
    node.raft.campaign().unwrap();
    let mut out = Effects::default();
    node.flush(Time::ZERO, &mut out).unwrap();
    for msg_type in [
        MessageType::MsgRequestPreVoteResponse,
        MessageType::MsgRequestVoteResponse,
    ] {
        sent(&mut node, &message(msg_type, &[])).unwrap();
    }
    assert!(node.leads());
    let last = |node: &Node<Memory>| node.raft.raft.raft_log.last_index();
    let before = last(&node);
    sent(&mut node, &message(MessageType::MsgPropose, &[&batch(77)])).unwrap();
    assert_eq!(last(&node), before);
    sent(&mut node, &message(MessageType::MsgPropose, &[&batch(3)])).unwrap();
    assert_eq!(last(&node), before + 1);
    // What goes before a read says nothing of the log.
    let asked = message(MessageType::MsgReadIndex, &[b"a mark"]);
    sent(&mut node, &asked).unwrap();
    let mut told = message(MessageType::MsgReadIndexResp, &[b"a mark"]);
    told.index = 1;
    sent(&mut node, &told).unwrap();
}

#[test]
fn who_has_forgotten_does_not_start_again() {
    let (mut node, disk) = node(1);
    let mut heartbeat = message(MessageType::MsgHeartbeat, &[]);
    heartbeat.commit = 1;
    let ended = sent(&mut node, &heartbeat);
    assert!(matches!(ended, Err(EndError::Forgotten)), "{ended:?}");
    let journal = disk.0.borrow().clone();
    let refused = Node::open(options(1), disk, &journal, Time::ZERO).err();
    assert!(matches!(refused, Some(OpenError::Forgotten)), "{refused:?}");
}
