//! Streams over Ethernet by themselves: two nodes that send each other long and short frames
//! through a network that loses, doubles, damages, delays and reorders pieces, and of which one
//! begins anew now and then, in half of the seeds, by a clock that was set back or not. What comes
//! is what was sent, in order; some is lost only when one begins anew, and where so much is untaken
//! that no more is to be kept.

use crate::network::{self, Weather};
use crate::random::Random;
use rhythm_kv::ring::ether::{Came, Ether};
use rhythm_kv::ring::{SESSIONS, Terms};
use rhythm_net::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How long they are at it, in microseconds, and how long what is under way may take then.
const BUSY: u64 = 3_000_000;
const CALM_WITHIN: u64 = 20_000_000;
/// Bytes that may be untaken, where that is bounded.
const UNTAKEN_MAX: usize = 1 << 17;
/// The session of a first life.
const FIRST: u64 = 1_000_000 * SESSIONS;
/// Bytes in front of a frame's others: its number, and how many there are.
const HEAD: usize = 16;

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) came: u64,
    pub(crate) lives: u64,
    pub(crate) dropped: u64,
}

/// When it comes, its number, to whom, and the piece.
type UnderWay = (u64, u64, usize, Vec<u8>);

struct End {
    ether: Ether,
    send_at: u64,
    /// The numbers of the frames that were sent, and of the last that came.
    sent: u64,
    came: u64,
}

fn frame(number: u64, length: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + length);
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&(length as u64).to_le_bytes());
    frame.extend((0..length).map(|at| (number as usize * 31 + at * 7) as u8));
    frame
}

pub(crate) fn run(seed: u64) -> Counts {
    let mut random = Random::new(seed);
    let mut weather = Weather::new(&mut random);
    let bytes_max = [100, 1500, 9000][random.below(3) as usize];
    let is_steady = random.percent(50);
    let untaken_max = if is_steady { usize::MAX } else { UNTAKEN_MAX };
    let mut counts = Counts::default();
    let terms = Terms::new("node", []);
    let end = |me: usize| End {
        ether: Ether::new(&terms, 2, me, FIRST, bytes_max, Time::ZERO),
        send_at: 0,
        sent: 0,
        came: 0,
    };
    let mut ends = [end(0), end(1)];
    let mut under_way = BinaryHeap::<Reverse<UnderWay>>::new();
    let (mut now, mut number, mut restarts_at) = (0, 0, BUSY / 2);
    loop {
        let time = Time::from_nanos(1000 * now);
        let is_busy = now < BUSY;
        if !is_busy {
            weather = network::CALM;
        }
        while let Some(Reverse((at, ..))) = under_way.peek()
            && *at <= now
            && let Some(Reverse((_, _, to, bytes))) = under_way.pop()
        {
            take(&mut ends, to, &bytes, time, is_steady, &mut counts);
        }
        if is_busy && !is_steady && now >= restarts_at {
            // One of them knows nothing any more.
            restarts_at = now + 100_000 + random.below(BUSY);
            let who = random.below(2) as usize;
            counts.lives += 1;
            let session = SESSIONS * (1 + random.below(2 * FIRST / SESSIONS));
            ends[who].ether = Ether::new(&terms, 2, who, session, bytes_max, time);
        }
        for (me, end) in ends.iter_mut().enumerate() {
            if is_busy && now >= end.send_at {
                end.send_at = now + random.below(20_000);
                let length = random.below(40) * random.below(40) * random.below(40);
                end.sent += 1;
                end.ether
                    .send(1 - me, &frame(end.sent, length as usize), untaken_max);
            }
            end.ether.flush(0, time, |to, _, piece| {
                for (late, is_damaged) in network::arrivals(weather, &mut random) {
                    let mut piece = piece.to_vec();
                    if is_damaged {
                        let at = random.below(piece.len() as u64) as usize;
                        piece[at] ^= 1 << random.below(8);
                    }
                    number += 1;
                    under_way.push(Reverse((now + late, number, to, piece)));
                }
            });
        }
        let wakes = ends
            .iter()
            .map(|end| end.ether.wake_at().as_nanos() / 1000 + 1);
        let wakes = wakes.chain(under_way.peek().map(|Reverse((at, ..))| *at));
        let next = wakes.min().unwrap_or(u64::MAX).max(now + 1);
        now = if is_busy { next.min(now + 2000) } else { next };
        if !is_busy && under_way.is_empty() && next == u64::MAX / 1000 + 1 {
            break;
        }
        assert!(now < BUSY + CALM_WITHIN, "they do not come to rest");
    }
    for me in 0..2 {
        let half = ends[me].ether.coming(1 - me);
        assert!(half.is_empty(), "half a frame is left at {me}: {half:?}");
        let (sent, came) = (ends[1 - me].sent, ends[me].came);
        assert!(!is_steady || came == sent, "{came} of {sent} came to {me}");
    }
    counts
}

/// A piece comes: the frames that are whole with it are the next that were sent.
fn take(
    ends: &mut [End; 2],
    to: usize,
    piece: &[u8],
    now: Time,
    is_steady: bool,
    counts: &mut Counts,
) {
    let from = 1 - to;
    let sent = ends[from].sent;
    let end = &mut ends[to];
    let (Came::From(whose) | Came::Met(whose)) = end.ether.take(piece, now) else {
        return;
    };
    assert_eq!(whose, from, "there is nobody else");
    let coming = end.ether.coming(from);
    while let Some((number, rest)) = coming.split_first_chunk::<8>()
        && let Some((length, rest)) = rest.split_first_chunk::<8>()
        && let length = u64::from_le_bytes(*length) as usize
        && rest.len() >= length
    {
        let number = u64::from_le_bytes(*number);
        assert!(
            end.came < number && number <= sent,
            "{number} after {}",
            end.came
        );
        // The first may have been sent before they knew of each other.
        assert!(
            !is_steady || end.came == 0 || number == end.came + 1,
            "{number} after {}",
            end.came
        );
        counts.dropped += number - end.came - 1;
        assert!(
            rest[..length] == frame(number, length)[HEAD..],
            "frame {number} is another"
        );
        (end.came, counts.came) = (number, counts.came + 1);
        coming.drain(..HEAD + length);
    }
}

fn ether(me: usize, life: u64, now: Time) -> Ether {
    Ether::new(&Terms::new("node", []), 2, me, life * SESSIONS, 1500, now)
}

/// What one says to the other, each piece by itself.
fn said(by: &mut Ether, now: Time) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    by.flush(0, now, |_, _, piece| pieces.push(piece.to_vec()));
    pieces
}

/// Whose clock is behind or ahead, it is the same.
#[test]
fn a_second_node_of_a_name_is_told_so_and_counts_when_the_first_is_silent() {
    for life in [1, 9] {
        let at = |milliseconds: u64| Time::from_nanos(1_000_000 * milliseconds);
        let mut first = ether(0, 5, at(0));
        let mut second = ether(0, life, at(0));
        let mut other = ether(1, 3, at(0));
        let calls = said(&mut first, at(0));
        assert_eq!(other.take(&calls[0], at(0)), Came::Met(0));
        for piece in said(&mut other, at(0)) {
            assert_eq!(first.take(&piece, at(0)), Came::Met(1));
        }
        let session = life * SESSIONS;
        let another = Came::Another { from: 0, session };
        let calls = said(&mut second, at(400));
        assert_eq!(other.take(&calls[0], at(400)), another);
        let refusal = other.refusal(0, b"there");
        let refused = Came::Refused {
            by: 1,
            session: 5 * SESSIONS,
            at: b"there",
        };
        assert_eq!(second.take(&refusal, at(400)), refused);
        assert_eq!(first.take(&refusal, at(400)), Came::Nothing);
        // The first goes on.
        first.send(1, b"frame", usize::MAX);
        for piece in said(&mut first, at(450)) {
            assert_eq!(other.take(&piece, at(450)), Came::From(0));
        }
        assert_eq!(other.coming(0), b"frame");
        // It is sent what it does not take, until it is silent for long: then the node is called.
        other.send(0, &[0; 100_000], usize::MAX);
        assert_eq!(said(&mut other, at(940)).len(), 32);
        assert_eq!(other.take(&calls[0], at(940)), another);
        let all = |time: u64, by: &mut Ether| said(by, at(time)).len();
        assert_eq!(
            [950, 960, 1050].map(|time| all(time, &mut other)),
            [1, 0, 1]
        );
        assert!(other.is_empty());
        let calls = said(&mut second, at(1060));
        assert_eq!(other.take(&calls[0], at(1060)), Came::Met(0));
        for piece in said(&mut other, at(1060)) {
            assert_eq!(second.take(&piece, at(1060)), Came::Met(1));
        }
    }
}
