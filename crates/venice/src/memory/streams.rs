//! Which pages a program will want next: those that go on where its faults went, step by step.
//!
//! A few streams are followed at a time. The second equal step begins one; from then on each fault
//! that goes on with it doubles how far ahead pages are fetched, up to a bound.

/// Streams that are followed at a time.
const STREAMS: usize = 8;
/// The farthest that a step goes, in pages.
const STEP_MAX: i64 = 64;
/// Pages fetched ahead, at most.
const AHEAD_MAX: i64 = 32;

/// What is likely to be wanted after a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ahead {
    /// From one page to the next.
    pub(super) step: i64,
    /// How many pages.
    pub(super) count: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    last: i64,
    step: i64,
    /// What was fetched ahead of `last`.
    ahead: i64,
    used: u64,
}

/// The streams of one process.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    faults: u64,
}

impl Streams {
    /// Takes note of a fault.
    pub(super) fn fault(&mut self, page: u32) -> Ahead {
        let page = i64::from(page);
        self.faults += 1;
        let followed = self.streams.iter_mut().find(|stream| {
            let distance = page - stream.last;
            stream.step != 0
                && distance % stream.step == 0
                && (1..=stream.ahead + 1).contains(&(distance / stream.step))
        });
        if let Some(stream) = followed {
            let count = (stream.ahead * 2).clamp(2, AHEAD_MAX);
            let step = stream.step;
            *stream = Stream {
                last: page,
                step,
                ahead: count,
                used: self.faults,
            };
            return Ahead { step, count };
        }
        let near = self.streams.iter_mut().find(|stream| {
            stream.used > 0
                && stream.ahead == 0
                && (1..=STEP_MAX).contains(&(page - stream.last).abs())
        });
        if let Some(stream) = near {
            stream.step = page - stream.last;
            stream.last = page;
            stream.used = self.faults;
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = Stream {
                last: page,
                step: 0,
                ahead: 0,
                used: self.faults,
            };
        }
        Ahead::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_steps_are_followed_farther_each_time() {
        for step in [1i64, 3, -2] {
            let mut streams = Streams::default();
            let mut page = 10_000i64;
            let mut counts = Vec::new();
            for _ in 0..8 {
                let ahead = streams.fault(page as u32);
                assert!(ahead.count == 0 || ahead.step == step);
                counts.push(ahead.count);
                page += step * (ahead.count + 1);
            }
            assert_eq!(counts, [0, 0, 2, 4, 8, 16, 32, 32], "step {step}");
        }
    }

    #[test]
    fn several_at_a_time_are_told_apart() {
        let mut streams = Streams::default();
        let mut ahead = [Ahead::default(); 4];
        for round in 0..3 {
            for (which, ahead) in ahead.iter_mut().enumerate() {
                *ahead = streams.fault(1000 * (which as u32 + 1) + round);
            }
        }
        assert_eq!(ahead, [Ahead { step: 1, count: 2 }; 4]);
    }

    #[test]
    fn faults_all_over_are_no_stream() {
        let mut streams = Streams::default();
        let mut random = fastrand::Rng::with_seed(7);
        let ahead: i64 = (0..10_000)
            .map(|_| streams.fault(random.u32(..1 << 24)).count)
            .sum();
        assert!(ahead < 100, "{ahead} pages for nothing");
    }
}
