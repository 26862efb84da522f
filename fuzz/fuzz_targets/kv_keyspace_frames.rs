//! No bytes make a keyspace's node panic that come as another node's: what is no frame is refused,
//! and what another node might say is read or refused, however it is cut.
//!
//! Frames are for another node than the one that reads them, so that they are read and left: what
//! nodes that follow the protocol may say to each other is the consensus simulator's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_kv::consensus::{Disk, NoFrame, Node, Options, Unwritten};
use rhythm_net::Time;
use siphasher::sip::SipHasher13;
use std::cell::RefCell;
use std::hash::Hasher;

/// What frames are signed with.
const DIGEST: u64 = 7;

/// Keeps nothing.
struct NoDisk;

impl Disk for NoDisk {
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Unwritten> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Unwritten> {
        Ok(())
    }

    fn replace(&mut self, _: &[u8]) -> Result<(), Unwritten> {
        Ok(())
    }

    fn has_room(&mut self) -> bool {
        true
    }
}

fn node() -> Node<NoDisk> {
    let options = Options {
        id: 1,
        nodes: 3,
        digest: DIGEST,
        whose: 1,
        seed: 1,
        started: 1,
        journal_bytes: 1 << 20,
    };
    let mut node = Node::open(options, NoDisk, &[], Time::ZERO).expect("a node that begins");
    // Frames are made here as they are there, so that what comes below is read at all.
    let mut nothing = [0u8; NOTHING];
    nothing[TO].copy_from_slice(&OTHER.to_le_bytes());
    assert_eq!(node.frame(&frame(&nothing)), Ok(0), "of no node");
    node
}

/// A frame that says this: its length in front, its checksum behind.
fn frame(said: &[u8]) -> Vec<u8> {
    let mut frame = (said.len() as u32 + 12).to_le_bytes().to_vec();
    frame.extend_from_slice(said);
    let mut hasher = SipHasher13::new_with_keys(DIGEST, 0);
    hasher.write(&frame);
    frame.extend_from_slice(&hasher.finish().to_le_bytes());
    frame
}

/// Where in a message it says for which node it is, and one that is not the one here.
const TO: std::ops::Range<usize> = 1..9;
const OTHER: u64 = 2;

/// Bytes of a message without entries, context and snapshot.
const NOTHING: usize = 117;

thread_local! {
    static NODE: RefCell<Node<NoDisk>> = RefCell::new(node());
}

fuzz_target!(|data: &[u8]| {
    NODE.with_borrow_mut(|node| {
        // The checksum keeps the fuzzer out.
        assert_eq!(node.frame(data), Err(NoFrame));
        let mut said = data.to_vec();
        if let Some(to) = said.get_mut(TO) {
            to.copy_from_slice(&OTHER.to_le_bytes());
        }
        let whole = frame(&said);
        let read = node.frame(&whole);
        // What is a message is none without its last byte, nor with one more.
        if read.is_ok() {
            assert_eq!(node.frame(&frame(&said[..said.len() - 1])), Err(NoFrame));
            said.push(0);
            assert_eq!(node.frame(&frame(&said)), Err(NoFrame));
        }
        assert_eq!(node.frame(&whole[..whole.len() - 1]), Err(NoFrame));
    });
});
