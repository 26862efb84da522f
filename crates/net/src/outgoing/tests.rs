//! Tests of outgoing bytes, over a port of the tests' own.

use super::*;
use crate::testing::TestPort;
use proptest::prelude::*;

const ID: ConnectionId = ConnectionId::new(0, 0);

/// A socket that takes as many bytes as there is room for.
fn socket(room: usize) -> TestPort {
    TestPort::with(ID, room)
}

#[test]
fn what_the_socket_takes_at_once_is_never_copied() {
    let (mut out, mut port) = (Outgoing::new(), socket(100));
    assert_eq!(out.send(&mut port, ID, b"hello"), Flushed::All);
    assert_eq!(out.send(&mut port, ID, b", world"), Flushed::All);
    assert_eq!((out.capacity(), out.sent_total()), (0, 12));
    assert_eq!(port.at(ID).sent, b"hello, world");
}

#[test]
fn a_full_socket_is_not_tried_until_it_is_writable() {
    let (mut out, mut port) = (Outgoing::new(), socket(3));
    assert_eq!(out.send(&mut port, ID, b"hello"), Flushed::Some);
    port.at(ID).room = 100;
    assert_eq!(out.send(&mut port, ID, b", world"), Flushed::Some);
    assert_eq!(out.flush(&mut port, ID), Flushed::Some);
    assert_eq!((port.sends, out.unsent()), (1, 9));
    assert_eq!(out.writable(&mut port, ID), Flushed::All);
    assert_eq!(
        (port.sends, port.at(ID).sent.as_slice()),
        (2, &b"hello, world"[..])
    );
}

#[test]
fn what_is_long_takes_no_more_memory_than_it_has_bytes() {
    let (mut out, mut port) = (Outgoing::new(), socket(10));
    let page = vec![b'x'; 3 * LONG];
    for sent in 1..=20 {
        out.push(b"head");
        assert_eq!(out.send(&mut port, ID, &page), Flushed::Some);
        let pieces = out.pieces.capacity() * size_of::<Piece>();
        assert!(out.capacity() <= sent * (page.len() + 8) + pieces);
    }
    let all = 20 * (page.len() + 4);
    assert_eq!(out.unsent(), all - 10);
    port.at(ID).room = usize::MAX;
    assert_eq!(out.writable(&mut port, ID), Flushed::All);
    assert_eq!((out.capacity(), port.at(ID).sent.len()), (0, all));
}

#[test]
fn without_memory_a_connection_is_dropped_and_nothing_else() {
    let (mut out, mut port) = (Outgoing::new(), socket(2));
    assert_eq!(out.send(&mut port, ID, b"hello"), Flushed::Some);
    assert!(!out.make_room(usize::MAX / 2));
    out.push_part(Part::Lent(&[b'x'; 2 * LONG]));
    assert_eq!(out.unsent(), 3, "what is lost is not kept");
    port.at(ID).room = 100;
    assert_eq!(out.writable(&mut port, ID), Flushed::Gone);
    assert_eq!(
        (
            port.aborted.len(),
            out.capacity(),
            port.aborted[0].sent.len()
        ),
        (1, 0, 2)
    );
}

#[test]
fn the_memory_goes_when_all_is_sent_but_for_what_is_to_be_kept() {
    for (keep_bytes, burst, kept) in [(0, 10, false), (100, 10, true), (100, 1000, false)] {
        let (mut out, mut port) = (Outgoing::keeping(keep_bytes), socket(5));
        assert_eq!(out.send(&mut port, ID, &vec![1; burst]), Flushed::Some);
        assert!(out.capacity() >= burst - 5);
        port.at(ID).room = burst;
        assert_eq!(out.writable(&mut port, ID), Flushed::All);
        assert_eq!((out.capacity() > 0, out.is_empty()), (kept, true));
    }
}

#[test]
fn a_connection_that_is_gone_is_owed_nothing() {
    let (mut out, mut port) = (Outgoing::new(), socket(0));
    assert_eq!(out.send(&mut port, ID, b"hello"), Flushed::Some);
    port.at(ID).broken = true;
    assert_eq!(out.writable(&mut port, ID), Flushed::Gone);
    assert_eq!((out.unsent(), out.capacity()), (0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Gather(Vec<u8>, usize),
    Push(Vec<u8>),
    Shared(Vec<u8>),
    Own(Vec<u8>),
    Flush,
    Room(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        bytes().prop_map(Step::Send),
        (bytes(), 0usize..20).prop_map(|(bytes, parts)| Step::Gather(bytes, parts)),
        bytes().prop_map(Step::Push),
        bytes().prop_map(Step::Shared),
        bytes().prop_map(Step::Own),
        Just(Step::Flush),
        (0usize..40).prop_map(Step::Room),
    ]
}

proptest! {
    #[test]
    fn all_bytes_arrive_once_and_in_order(
        keep_bytes in 0usize..30,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let (mut out, mut port) = (Outgoing::keeping(keep_bytes), socket(0));
        let mut all = Vec::new();
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    all.extend_from_slice(&bytes);
                    let _ = out.send(&mut port, ID, &bytes);
                }
                Step::Gather(bytes, parts) => {
                    // More of them than go at once, too; every third is shared.
                    let kept: Arc<dyn Shared> = Arc::new(bytes.clone());
                    let shared: Arc<[u8]> = bytes.into();
                    let cut = |part: usize| shared.len() * part / parts;
                    let parts: Vec<Part<'_>> = (0..parts)
                        .map(|part| match (cut(part), cut(part + 1)) {
                            (start, end) if part % 3 == 2 => {
                                Part::Shared { bytes: &shared, start, end }
                            }
                            (start, end) if end == shared.len() => Part::Kept(&kept, start),
                            (start, end) => Part::Lent(&shared[start..end]),
                        })
                        .collect();
                    parts.iter().for_each(|part| all.extend_from_slice(part.bytes()));
                    let _ = out.gather(&mut port, ID, &parts);
                }
                Step::Push(bytes) => {
                    all.extend_from_slice(&bytes);
                    out.push(&bytes);
                }
                Step::Shared(bytes) => {
                    let range = bytes.len() / 3..bytes.len();
                    all.extend_from_slice(&bytes[range.clone()]);
                    out.push_shared(bytes.into(), range);
                }
                Step::Own(bytes) => {
                    all.extend_from_slice(&bytes);
                    out.push_own(bytes);
                }
                Step::Flush => {
                    let _ = out.flush(&mut port, ID);
                }
                Step::Room(room) => {
                    port.at(ID).room += room;
                    let left = out.writable(&mut port, ID);
                    let is_full = port.at(ID).room == 0;
                    prop_assert!(left == Flushed::All || is_full, "all that fits");
                }
            }
            let got = &port.at(ID).sent;
            prop_assert_eq!(out.unsent(), all.len() - got.len());
            prop_assert_eq!(out.sent_total(), got.len() as u64);
            prop_assert_eq!(&got[..], &all[..got.len()]);
        }
        port.at(ID).room = usize::MAX;
        prop_assert_eq!(out.writable(&mut port, ID), Flushed::All);
        prop_assert_eq!(&port.at(ID).sent, &all);
        prop_assert!(out.capacity() <= keep_bytes + PIECES_KEPT * size_of::<Piece>());
    }
}
