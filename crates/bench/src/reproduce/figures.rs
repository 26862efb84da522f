//! A server's own figures: how long its turns take, from its `/metrics`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take to tell.
const PATIENCE: Duration = Duration::from_secs(5);
const NAME: &str = "rhythm_kv_turn_seconds";
/// Bytes that a node has sent others: of a ring to each of them, of a keyspace to all.
const SENT: [&str; 2] = [
    "rhythm_kv_ring_sent_bytes_total",
    "rhythm_keyspace_sent_bytes_total",
];

/// All that the server with this admin listener tells.
pub(super) fn metrics(admin: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Bytes that the node with this admin listener has sent others.
pub(super) fn sent_bytes(admin: SocketAddr) -> io::Result<f64> {
    let sent = sent(&metrics(admin)?);
    sent.ok_or_else(|| io::Error::other("it does not tell what it sent"))
}

fn sent(text: &str) -> Option<f64> {
    let is_ours = |line: &&str| SENT.iter().any(|name| line.starts_with(name));
    let mut lines = text.lines().filter(is_ours).peekable();
    lines.peek()?;
    lines
        .map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

/// Turns of a server's loop since its start: from waking, with something to do, to answers sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Turns {
    seconds: f64,
    count: f64,
    /// Bounds in seconds, each with the turns that took no longer.
    buckets: Vec<(f64, f64)>,
}

impl Turns {
    /// What the server with this admin listener tells.
    pub(super) fn ask(admin: SocketAddr) -> io::Result<Turns> {
        let answer = metrics(admin)?;
        Turns::read(&answer).ok_or_else(|| io::Error::other("it tells no times of turns"))
    }

    fn read(text: &str) -> Option<Turns> {
        let mut turns = Turns::default();
        let mut is_told = false;
        for line in text.lines() {
            let Some((name, value)) = line
                .strip_prefix(NAME)
                .and_then(|rest| rest.rsplit_once(' '))
            else {
                continue;
            };
            let value: f64 = value.parse().ok()?;
            let name = name.trim_end_matches("{}");
            let bound = name.strip_prefix("_bucket{le=\"");
            match (name, bound.and_then(|bound| bound.strip_suffix("\"}"))) {
                ("_sum", _) => turns.seconds = value,
                ("_count", _) => (turns.count, is_told) = (value, true),
                (_, Some(bound)) => {
                    let bound = bound.parse().unwrap_or(f64::INFINITY);
                    turns.buckets.push((bound, value));
                }
                _ => {}
            }
        }
        is_told.then_some(turns)
    }

    /// Those since an earlier time.
    pub(super) fn since(&self, before: &Turns) -> Turns {
        let earlier = |at: usize| before.buckets.get(at).map_or(0.0, |(_, count)| *count);
        let buckets = self.buckets.iter().enumerate();
        Turns {
            seconds: self.seconds - before.seconds,
            count: self.count - before.count,
            buckets: buckets
                .map(|(at, (bound, count))| (*bound, count - earlier(at)))
                .collect(),
        }
    }

    /// These and another server's.
    pub(super) fn with(mut self, more: &Turns) -> Turns {
        self.seconds += more.seconds;
        self.count += more.count;
        self.buckets.resize(more.buckets.len(), (0.0, 0.0));
        for (to, (bound, count)) in self.buckets.iter_mut().zip(&more.buckets) {
            *to = (*bound, to.1 + count);
        }
        self
    }

    /// The average, in microseconds; `None` where there were none.
    pub(super) fn mean_us(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count * 1e6)
    }

    /// What this share of them did not exceed, in microseconds: the bound of its bucket.
    pub(super) fn at_most_us(&self, share: f64) -> Option<f64> {
        let enough = |(_, count): &&(f64, f64)| *count >= share * self.count;
        let bound = self
            .buckets
            .iter()
            .find(enough)
            .map(|(bound, _)| bound * 1e6);
        bound.filter(|bound| bound.is_finite() && self.count > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_since_a_time_have_a_mean_and_bounds() {
        let text = |sum: f64, counts: [u32; 3]| {
            format!(
                "HTTP/1.1 200 OK\r\n\r\n# TYPE {NAME} histogram\n{NAME}_sum{{}} {sum}\n\
                 {NAME}_count{{}} {2}\n{NAME}_bucket{{le=\"0.000002\"}} {0}\n\
                 {NAME}_bucket{{le=\"0.000004\"}} {1}\n{NAME}_bucket{{le=\"+Inf\"}} {2}\n",
                counts[0], counts[1], counts[2]
            )
        };
        let before = Turns::read(&text(1.0, [5, 5, 5])).unwrap();
        let now = Turns::read(&text(1.000_300, [55, 104, 105])).unwrap();
        let turns = now.since(&before);
        assert!((turns.mean_us().unwrap() - 3.0).abs() < 1e-6);
        assert!((turns.at_most_us(0.5).unwrap() - 2.0).abs() < 1e-9);
        assert!((turns.at_most_us(0.99).unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(turns.at_most_us(1.0), None);
        let both = Turns::default().with(&turns).with(&turns);
        assert_eq!(both.count, 200.0);
        assert_eq!(now.since(&now).mean_us(), None);
        assert_eq!(Turns::read("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }

    #[test]
    fn what_a_node_sent_is_summed_over_the_others() {
        let of = |name: &str| format!("# HELP {name} x\n{name}{{node=\"b\"}} 5\n{name}{{}} 7\n");
        for name in SENT {
            assert_eq!(sent(&of(name)), Some(12.0));
        }
        assert_eq!(sent("rhythm_kv_items 5\n"), None);
    }
}
