//! Borrower and donor with bytes between them in any pieces, against a plain array; and borrowers
//! that lie.

use super::*;
use crate::channel::borrow::{Borrow, Came};
use crate::channel::crma::Answer;
use crate::channel::frame::{BULK_BYTES_MAX, parse};
use proptest::prelude::*;

const BYTES: usize = 3 * 64 * 1024;

impl Memory for Vec<u8> {
    fn get(&self, offset: u64, length: usize) -> Option<&[u8]> {
        self.as_slice().get(offset as usize..)?.get(..length)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let to = self.as_mut_slice().get_mut(offset as usize..);
        let to = to.and_then(|to| to.get_mut(..bytes.len()));
        to.map(|to| to.copy_from_slice(bytes)).is_some()
    }

    fn free(&mut self, offset: u64, length: u64) -> bool {
        self.put(offset, &vec![0; length as usize])
    }
}

/// Two loans, of which the second is another borrower's.
struct Two([Vec<u8>; 2]);

impl Loans for Two {
    fn map(&mut self, map: &Map) -> Result<(usize, u64), String> {
        match map.key.0 == [1; 32] {
            true => Ok((0, BYTES as u64)),
            false => Err("no such loan".into()),
        }
    }

    fn access(&mut self, number: usize, act: Act<'_>) -> Result<bool, String> {
        Ok(act(&mut self.0[number]))
    }

    fn is_used(&self) -> bool {
        true
    }
}

fn map(key: u8) -> Map {
    Map {
        loan: LoanId(1),
        key: LoanKey([key; 32]),
        session: 2,
        bytes: BYTES as u64,
    }
}

/// The donor executes the bytes, cut where `cuts` says.
fn execute(
    serve: &mut Serve,
    loans: &mut Two,
    bytes: &[u8],
    cuts: &[usize],
) -> Result<Vec<u8>, Broken> {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(cuts.next().map_or(1, |cut| *cut).min(rest.len()));
        rest = after;
        input.extend_from_slice(piece);
        let mut start = 0;
        while let Some((frame, used)) = parse(&input[start..])? {
            serve.came(&frame, loans, &mut out)?;
            start += used;
        }
        input.drain(..start);
        let most = out.len() + 1;
        serve.stream(loans, &mut out, most)?;
    }
    while serve.is_streaming() {
        let most = out.len() + 1;
        serve.stream(loans, &mut out, most)?;
    }
    Ok(out)
}

fn mapped(borrow: &mut Borrow, serve: &mut Serve, loans: &mut Two) -> u64 {
    let mut out = Vec::new();
    borrow.crma.map(&mut out, &map(1).payload());
    let answer = execute(serve, loans, &out, &[7]).unwrap();
    let (frame, _) = parse(&answer).unwrap().unwrap();
    match borrow.came(&frame).unwrap() {
        Came::Operation(0, Answer::Mapped(address, bytes)) if bytes == BYTES as u64 => address,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn operations_and_transfers_are_as_on_an_array(
        steps in prop::collection::vec(
            (0usize..6, 0usize..BYTES, 1usize..9000, any::<u8>()),
            1..40,
        ),
        cuts in prop::collection::vec(1usize..20_000, 1..9),
    ) {
        let mut loans = Two([vec![0; BYTES], vec![5; BYTES]]);
        let mut plain = vec![0; BYTES];
        let (mut borrow, mut serve) = (Borrow::default(), Serve::default());
        let base = mapped(&mut borrow, &mut serve, &mut loans);
        for (what, at, length, byte) in steps {
            let at = if what == 4 { at / 8 * 8 } else { at };
            let most = if what < 3 { 4096 } else { 140_000 };
            let bytes = (length * 16).min(most).min(BYTES - at);
            let (mut out, address) = (Vec::new(), base + at as u64);
            let buffer = vec![byte; bytes];
            let mut wanted = Vec::new();
            match what {
                0 | 1 => drop(borrow.crma.read(&mut out, address, bytes as u32)),
                2 => {
                    borrow.crma.write(&mut out, address, &buffer);
                    plain[at..at + bytes].fill(byte);
                }
                3 => drop(borrow.rdma.read(&mut out, address, bytes)),
                4 => {
                    let there = u64_at(&plain, at);
                    let expected = there ^ u64::from(byte % 2);
                    borrow.crma.compare_and_swap(&mut out, address, expected, u64::from(byte));
                    if expected == there {
                        plain[at..at + 8].copy_from_slice(&u64::from(byte).to_le_bytes());
                    }
                    wanted = there.to_le_bytes().to_vec();
                }
                _ => {
                    let id = borrow.rdma.write(bytes);
                    let mut from = 0;
                    while from < bytes {
                        from = borrow.rdma.put_chunk(&mut out, id, address, &buffer, from);
                    }
                    plain[at..at + bytes].fill(byte);
                }
            }
            if matches!(what, 0 | 1 | 3) {
                wanted = plain[at..at + bytes].to_vec();
            }
            let answers = execute(&mut serve, &mut loans, &out, &cuts).unwrap();
            let (mut rest, mut got) = (&answers[..], Vec::new());
            while let Some((frame, used)) = parse(rest).unwrap() {
                match borrow.came(&frame).unwrap() {
                    Came::Operation(_, Answer::Data(bytes)) => got.extend_from_slice(bytes),
                    Came::Operation(_, Answer::Swapped(was)) => got.extend(was.to_le_bytes()),
                    Came::Operation(..) => {}
                    Came::Transfer(chunk) => {
                        prop_assert!(chunk.bytes.is_empty() || chunk.at == got.len());
                        got.extend_from_slice(chunk.bytes);
                    }
                }
                rest = &rest[used..];
            }
            prop_assert!(!borrow.is_waiting() && rest.is_empty());
            prop_assert!(got == wanted, "step {what} at {at}, {bytes} bytes");
            prop_assert!(loans.0[0] == plain);
        }
        prop_assert!(loans.0[1].iter().all(|byte| *byte == 5));
    }

    #[test]
    fn borrowers_that_lie_reach_nothing_else(
        lies in prop::collection::vec(
            (0usize..8, any::<u64>(), 0u64..2 * BYTES as u64, 1usize..200),
            1..40,
        ),
        near in any::<bool>(),
    ) {
        let mut loans = Two([vec![0; BYTES], vec![5; BYTES]]);
        let (mut borrow, mut serve) = (Borrow::default(), Serve::default());
        let base = mapped(&mut borrow, &mut serve, &mut loans);
        for (what, id, at, bytes) in lies {
            let address = if near { base.wrapping_add(at) } else { id };
            let mut out = Vec::new();
            let text = vec![9; bytes];
            match what {
                0 => frame::put_want(&mut out, Kind::Read, id, address, bytes as u32),
                1 => frame::put(&mut out, Kind::Write, id, address, &text),
                2 => frame::put(&mut out, Kind::CompareAndSwap, id, address, &[0; 16]),
                3 => frame::put(&mut out, Kind::Free, id, address, &id.to_le_bytes()),
                4 => frame::put_want(&mut out, Kind::BulkRead, id, address, BULK_BYTES_MAX as u32),
                5 => frame::put(&mut out, Kind::BulkLast, id, address, &text),
                6 => frame::put(&mut out, Kind::Map, id, address, &map(2).payload()),
                _ => frame::put(&mut out, Kind::Data, id, address, &text),
            }
            let end = if what == 2 { at + 8 } else { at + bytes as u64 };
            let within = near && end <= BYTES as u64;
            let said = execute(&mut serve, &mut loans, &out, &[33]);
            match what {
                0 | 1 | 5 => prop_assert_eq!(said.is_ok(), within),
                2 => prop_assert_eq!(said.is_ok(), within && at % 8 == 0),
                _ => prop_assert!(said.is_err() || id == 0),
            }
        }
        prop_assert!(loans.0[1].iter().all(|byte| *byte == 5));
    }
}

#[test]
fn a_transfer_takes_no_more_than_a_chunk_and_keeps_nobody_waiting() {
    let mut loans = Two([vec![3; BYTES], Vec::new()]);
    let (mut borrow, mut serve) = (Borrow::default(), Serve::default());
    let base = mapped(&mut borrow, &mut serve, &mut loans);
    let (mut asked, mut out) = (Vec::new(), Vec::new());
    borrow.rdma.read(&mut asked, base, BYTES);
    borrow.crma.read(&mut asked, base + 5, 2);
    let mut rest = &asked[..];
    while let Some((frame, used)) = parse(rest).unwrap() {
        serve.came(&frame, &mut loans, &mut out).unwrap();
        rest = &rest[used..];
    }
    assert_eq!(out.len(), HEAD_BYTES + 2, "the small read is answered");
    serve.stream(&mut loans, &mut out, 1000).unwrap();
    assert_eq!(out.len(), 2 * HEAD_BYTES + 2 + PAYLOAD_BYTES_MAX);
    assert!(serve.is_streaming());
    for _ in 0..BULK_REQUESTS_MAX - 1 {
        let mut more = Vec::new();
        frame::put_want(&mut more, Kind::BulkRead, 0, base, 1);
        let (frame, _) = parse(&more).unwrap().unwrap();
        serve.came(&frame, &mut loans, &mut out).unwrap();
    }
    let mut more = Vec::new();
    frame::put_want(&mut more, Kind::BulkRead, 0, base, 1);
    let (frame, _) = parse(&more).unwrap().unwrap();
    let crowded = serve.came(&frame, &mut loans, &mut out);
    assert_eq!(crowded, Err(Broken::Crowded(BULK_REQUESTS_MAX)));
}

#[test]
fn donors_that_lie_are_refused() {
    let (mut borrow, mut out) = (Borrow::default(), Vec::new());
    borrow.crma.read(&mut out, 0, 3);
    let transfer = borrow.rdma.read(&mut out, 0, 100);
    let answers = [
        (Kind::Data, 0, 0, vec![0; 4]),
        (Kind::Data, 1, 0, vec![0; 3]),
        (Kind::Done, 0, 0, vec![]),
        (Kind::Chunk, transfer, 1, vec![0; 3]),
        (Kind::Chunk, transfer, 0, vec![0; 101]),
        (Kind::Chunk, transfer + 1, 0, vec![0; 3]),
        (Kind::Done, transfer, 0, vec![]),
    ];
    for (kind, id, address, payload) in answers {
        let mut borrow = Borrow::default();
        borrow.crma.read(&mut out, 0, 3);
        borrow.rdma.read(&mut out, 0, 100);
        let frame = Frame {
            kind,
            id,
            address,
            length: 0,
            payload: &payload,
        };
        assert_eq!(borrow.came(&frame), Err(Broken::Unasked), "{frame:?}");
    }
}
