//! Commands between two ticks of both servers' clocks: each counts seconds from a moment of its
//! own, so that in a part of each second one has ticked and the other has not yet.

use crate::pair::{Pair, ask};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long is looked for the longer part of a second.
const LOOK: Duration = Duration::from_millis(1200);
/// Who does not tick so that they are as far apart for so long ticks at other moments by now: on a
/// busy machine those of memcached wander.
const WANDERED: Duration = Duration::from_secs(5);

/// How many seconds a server has counted.
fn count(stream: &mut TcpStream) -> i64 {
    let answer = ask(stream, b"stats\r\n", b"mn\r\n", b"MN\r\n");
    let text = String::from_utf8_lossy(&answer);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("STAT uptime "));
    line.and_then(|number| number.parse().ok())
        .expect("it tells")
}

impl Pair {
    /// Compares commands one by one, all answered within a second of both. False: one ticked
    /// meanwhile, or no such second was found, so that nothing was compared.
    pub(crate) fn compare_in_a_second(&mut self, commands: &[Vec<u8>]) -> bool {
        let mut clocks = [self.connect(0), self.connect(1)];
        let mut counts = || clocks.each_mut().map(count);
        let apart = |[ours, theirs]: [i64; 2]| theirs - ours;
        // By how much they are apart for the longer part of a second.
        let longer = *self.apart.get_or_insert_with(|| {
            let first = apart(counts());
            let (mut same, mut all) = (0, 0);
            let other = {
                let mut other = first;
                let until = Instant::now() + LOOK;
                while Instant::now() < until {
                    let now = apart(counts());
                    same += i32::from(now == first);
                    all += 1;
                    if now != first {
                        other = now;
                    }
                }
                other
            };
            if 2 * same >= all { first } else { other }
        });
        // From where that part begins.
        let until = Instant::now() + WANDERED;
        let mut before = counts();
        let begun = loop {
            if Instant::now() >= until {
                return false;
            }
            let now = counts();
            if now != before && apart(now) == longer {
                break now;
            }
            before = now;
        };
        let mut streams = [self.connect(0), self.connect(1)];
        let mark = b"mn\r\n";
        let answers: Vec<_> = (commands.iter())
            .map(|command| {
                streams
                    .each_mut()
                    .map(|stream| ask(stream, command, mark, b"MN\r\n"))
            })
            .collect();
        if counts() != begun {
            return false;
        }
        for (command, [ours, theirs]) in commands.iter().zip(&answers) {
            self.assert_same(command, ours, theirs);
        }
        true
    }
}
