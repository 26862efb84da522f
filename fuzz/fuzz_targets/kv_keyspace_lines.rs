//! No bytes of a keyspace's client make it panic, or mean something else in pieces; and whatever a
//! node may answer, what is said of that is whole lines, as long as values are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_kv::consensus::text::{COMMAND_MAX, Parser, Wanted, rules};
use rhythm_kv::consensus::{Answer, Command, Item, Outcome, Read, Request};

/// Its connection's lease.
const LEASE: Option<u64> = Some(7);

/// All that is asked in these pieces, as a connection gets them, one behind the other.
fn asked(pieces: &[&[u8]]) -> (Vec<Wanted>, Vec<u8>) {
    let (rules, mut parser) = (rules(), Parser::default());
    let (mut input, mut all) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let before = all.len();
            let taken = parser.next(&rules, &input, LEASE, &mut all);
            assert!(taken <= input.len());
            // Who closes is read no more.
            if matches!(all.last(), Some(Wanted::Close)) {
                return (all, Vec::new());
            }
            if taken == 0 {
                assert_eq!(all.len(), before, "asked for, and not taken");
                break;
            }
            input.drain(..taken);
        }
        assert!(input.len() <= COMMAND_MAX || piece.len() > COMMAND_MAX);
    }
    (all, input)
}

/// One of the answers that a node may give.
fn answer(request: &Request, choice: u8) -> Answer {
    let outcome = match (request, choice % 8) {
        (_, 0) => return Answer::NothingDone,
        (_, 1) => return Answer::PerhapsDone,
        (_, 2) => return Answer::DiskFull,
        (Request::Read(Read::Revision), _) => return Answer::Revision(choice.into()),
        (Request::Read(Read::Item(_)), 3) => return Answer::Item(None),
        (Request::Read(Read::Item(_)), _) => {
            return Answer::Item(Some(Item {
                flags: choice.into(),
                value: vec![choice; choice.into()].into(),
                revision: choice.into(),
                lease: None,
            }));
        }
        (Request::Change(_), 3) => Outcome::LeaseOver,
        (Request::Change(Command::Open { .. } | Command::Renew { .. }), _) => {
            Outcome::Alive(choice.into())
        }
        (Request::Change(Command::End { .. }), 4) => Outcome::NotFound,
        (Request::Change(Command::End { .. }), _) => Outcome::Ended,
        (Request::Change(_), 4) => Outcome::Stored(choice.into()),
        (Request::Change(_), 5) => Outcome::NotFound,
        (Request::Change(_), 6) => Outcome::Number(choice.into(), choice.into()),
        (Request::Change(_), _) => Outcome::Full,
    };
    Answer::Done(outcome)
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let (all, rest) = asked(&[bytes]);
    let (first, second) = bytes.split_at(usize::from(choice).min(bytes.len()));
    let in_pieces = asked(&[first, second]);
    assert_eq!(format!("{in_pieces:?}"), format!("{:?}", (&all, rest)));
    let (mut said, mut in_error) = (Vec::new(), false);
    for (index, wanted) in all.iter().enumerate() {
        if let Wanted::Node(request, how) = wanted {
            let answer = answer(request, choice.wrapping_add(index as u8));
            how.say(&answer, &mut in_error, &mut said);
            assert!(said.is_empty() || said.ends_with(b"\r\n"), "{how:?}");
        }
    }
});
