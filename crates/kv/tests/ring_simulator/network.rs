//! The backbone: frames under way, each lost, repeated or late by chance.

use crate::random::Random;
use rhythm_kv::ring::wire;

/// What the backbone does to frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Percent of frames that are lost, come twice, or come damaged.
    pub(crate) lost: u64,
    pub(crate) twice: u64,
    pub(crate) damaged: u64,
    /// The longest that one is under way, in microseconds.
    pub(crate) late: u64,
}

pub(crate) const CALM: Weather = Weather {
    lost: 0,
    twice: 0,
    damaged: 0,
    late: 100,
};

impl Weather {
    pub(crate) fn new(random: &mut Random) -> Weather {
        let mut some = |most: u64| match random.below(3) {
            0 => 0,
            _ => random.below(most + 1),
        };
        Weather {
            lost: some(15),
            twice: some(10),
            damaged: some(3),
            late: 50 + some(3) * some(30_000),
        }
    }
}

/// Frames one behind the other, as far as they are whole, each by itself.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some(length) = wire::length(bytes, 1 << 24).expect("frames of ours")
        && let Some((frame, rest)) = bytes.split_at_checked(length)
    {
        frames.push(frame.to_vec());
        bytes = rest;
    }
    frames
}

/// Whether a frame is more than a sign of life.
pub(crate) fn has_messages(frame: &[u8]) -> bool {
    wire::read(frame).is_ok_and(|(head, _)| head.seq > 0)
}

/// How a frame arrives: after how many microseconds, and whether damaged; none: not at all.
pub(crate) fn arrivals(weather: Weather, random: &mut Random) -> Vec<(u64, bool)> {
    let mut arrivals = Vec::new();
    if !random.percent(weather.lost) {
        let copies = 1 + u64::from(random.percent(weather.twice));
        for _ in 0..copies {
            let late = 5 + random.below(weather.late);
            arrivals.push((late, random.percent(weather.damaged)));
        }
    }
    arrivals
}
