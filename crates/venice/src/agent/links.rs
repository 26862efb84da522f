//! Tests of the links to other nodes: each is asked for an answer once in a heartbeat, and one of
//! them gets a short burst.
//!
//! Latency is the time to there and back, smoothed as TCP does (RFC 6298 section 2: an eighth of
//! each new one); loss is the share of tests without an answer before the next, smoothed likewise.
//! Bandwidth is what of a burst was answered by the time that took, less the latency: a lower
//! bound, since a burst is short, and the agents' own time is in it.

use crate::name::NodeName;
use crate::secret::Secret;
use crate::wire::probe::{BURST, Kind, LONG, Probe};
use crate::wire::{LinkReport, NODES_MAX, PeerNode};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A link.
#[derive(Clone, Debug)]
struct Link {
    probe: SocketAddr,
    /// The test that is under way, and when it began.
    asked: Option<(u64, Time)>,
    burst: Option<Burst>,
    /// Nanoseconds; 0: not known.
    latency: u64,
    /// Bytes a second; 0: not known.
    bandwidth: u64,
    /// Of 1000, in sixteenths.
    loss: u32,
    seen: Option<Time>,
}

/// A burst under way.
#[derive(Clone, Copy, Debug)]
struct Burst {
    sequence: u64,
    began: Time,
    /// Which were answered, a bit each, and when the last was.
    answered: u32,
    last: Time,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Links {
    secret: Secret,
    links: BTreeMap<NodeName, Link>,
    sequence: u64,
    /// Which gets the next burst.
    next: usize,
}

impl Links {
    /// No links yet. Tests have numbers from `sequence` on.
    pub(super) fn new(secret: Secret, sequence: u64) -> Links {
        Links {
            secret,
            links: BTreeMap::new(),
            sequence,
            next: 0,
        }
    }

    /// Datagrams are proven by this from now on.
    pub(super) fn prove_by(&mut self, secret: Secret) {
        self.secret = secret;
    }

    /// These are the other nodes.
    pub(super) fn set_peers(&mut self, peers: Vec<PeerNode>) {
        let mut known = std::mem::take(&mut self.links);
        for PeerNode { name, probe } in peers.into_iter().take(NODES_MAX) {
            let before = known.remove(&name).filter(|link| link.probe == probe);
            let link = before.unwrap_or(Link {
                probe,
                asked: None,
                burst: None,
                latency: 0,
                bandwidth: 0,
                loss: 0,
                seen: None,
            });
            self.links.insert(name, link);
        }
    }

    /// Tests all links, once more: datagrams and where they go.
    pub(super) fn test(&mut self, now: Time, out: &mut Vec<(SocketAddr, Vec<u8>)>) {
        self.next = (self.next + 1) % self.links.len().max(1);
        for (index, link) in self.links.values_mut().enumerate() {
            link.judge();
            self.sequence = self.sequence.wrapping_add(1);
            let mut probe = Probe {
                kind: Kind::Ask,
                sequence: self.sequence,
                number: 0,
            };
            link.asked = Some((self.sequence, now));
            out.push((link.probe, probe.bytes(&self.secret)));
            if index == self.next {
                probe.kind = Kind::Burst;
                link.burst = Some(Burst {
                    sequence: self.sequence,
                    began: now,
                    answered: 0,
                    last: now,
                });
                for number in 0..BURST {
                    probe.number = number;
                    out.push((link.probe, probe.bytes(&self.secret)));
                }
            }
        }
    }

    /// A datagram came: what it is answered with, if with anything.
    pub(super) fn received(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        now: Time,
    ) -> Option<Vec<u8>> {
        let probe = Probe::read(bytes, &self.secret)?;
        if let Some(answer) = probe.answer() {
            return Some(answer.bytes(&self.secret));
        }
        let link = self.links.values_mut().find(|link| link.probe == from)?;
        match probe.kind {
            Kind::Answer => link.answered(probe.sequence, now),
            _ => link.burst_answered(probe, now),
        }
        None
    }

    /// How the links are.
    pub(super) fn reports(&self, now: Time) -> Vec<LinkReport> {
        let report = |(name, link): (&NodeName, &Link)| LinkReport {
            to: name.clone(),
            latency_ns: link.latency,
            bandwidth: link.bandwidth,
            loss_permille: (link.loss / 16).min(1000) as u16,
            silent_ms: link.seen.map_or(u32::MAX, |seen| {
                u32::try_from(now.since(seen).as_millis()).unwrap_or(u32::MAX)
            }),
        };
        self.links.iter().map(report).collect()
    }
}

impl Link {
    /// What came of the last test, before the next.
    fn judge(&mut self) {
        if self.asked.take().is_some() {
            self.lose(1000);
        }
        if let Some(burst) = self.burst.take() {
            let count = burst.answered.count_ones();
            let took = burst.last.since(burst.began).as_nanos() as u64;
            let took = took.saturating_sub(self.latency).max(took / 8).max(1);
            // Of one that is half lost nothing is learned but that.
            if count >= u32::from(BURST) / 2 {
                let bytes = u64::from(count) * LONG as u64;
                self.bandwidth = bytes.saturating_mul(1_000_000_000) / took;
            }
        }
    }

    fn lose(&mut self, permille: u32) {
        self.loss = self.loss - self.loss / 8 + permille * 16 / 8;
    }

    fn answered(&mut self, sequence: u64, now: Time) {
        let Some((_, began)) = self.asked.take_if(|(asked, _)| *asked == sequence) else {
            return;
        };
        let took = (now.since(began).as_nanos() as u64).max(1);
        self.latency = match self.latency {
            0 => took,
            latency => (latency - latency / 8 + took / 8).max(1),
        };
        self.lose(0);
        self.seen = Some(now);
    }

    fn burst_answered(&mut self, probe: Probe, now: Time) {
        if let Some(burst) = &mut self.burst
            && burst.sequence == probe.sequence
            && probe.number < BURST
        {
            burst.answered |= 1 << probe.number;
            burst.last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Two agents, of which the first tests its link to the second; what goes there and back takes
    /// a millisecond each way, and each of a burst a tenth more.
    fn test(links: &mut Links, other: &mut Links, second: u64, is_lost: impl Fn(usize) -> bool) {
        let (here, there) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        let mut out = Vec::new();
        links.test(at(second * 1000), &mut out);
        for (index, (to, bytes)) in out.into_iter().enumerate() {
            assert_eq!(to, there);
            let way = Duration::from_micros(2000 + 100 * index as u64);
            if !is_lost(index) {
                let answer = other.received(here, &bytes, at(second * 1000 + 1));
                let answer = answer.expect("an answer");
                let came = at(second * 1000) + way;
                assert_eq!(links.received(there, &answer, came), None);
            }
        }
    }

    fn pair() -> (Links, Links) {
        let secret = Secret::of(b"0123456789abcdef");
        let mut links = Links::new(secret.clone(), 0);
        links.set_peers(vec![PeerNode {
            name: "other".parse().expect("a name"),
            probe: ([127, 0, 0, 1], 2).into(),
        }]);
        (links, Links::new(secret, 99))
    }

    #[test]
    fn a_link_that_answers_has_a_latency_and_a_bandwidth() {
        let (mut links, mut other) = pair();
        for second in 0..4 {
            test(&mut links, &mut other, second, |_| false);
        }
        let report = &links.reports(at(3500))[0];
        assert_eq!(report.latency_ns, 2_000_000);
        assert_eq!((report.loss_permille, report.silent_ms), (0, 498));
        // 32 datagrams in 3.2 ms beyond the latency.
        assert_eq!(report.bandwidth, 32 * 1200 * 1_000_000 / 3200);
    }

    #[test]
    fn what_is_lost_is_told_and_forgotten_again() {
        let (mut links, mut other) = pair();
        for second in 0..40 {
            test(&mut links, &mut other, second, |_| true);
        }
        let report = &links.reports(at(40_000))[0];
        assert!(report.loss_permille > 950, "{report:?}");
        assert_eq!(
            (report.latency_ns, report.bandwidth, report.silent_ms),
            (0, 0, u32::MAX)
        );
        for second in 40..80 {
            test(&mut links, &mut other, second, |_| false);
        }
        assert!(links.reports(at(80_000))[0].loss_permille < 50);
    }

    #[test]
    fn answers_of_others_and_of_before_say_nothing() {
        let (mut links, _) = pair();
        let mut out = Vec::new();
        links.test(at(0), &mut out);
        let secret = Secret::of(b"0123456789abcdef");
        let answer = Probe {
            kind: Kind::Answer,
            sequence: 99,
            number: 0,
        }
        .bytes(&secret);
        let there = ([127, 0, 0, 1], 2).into();
        assert_eq!(links.received(there, &answer, at(1)), None);
        let right = Probe {
            kind: Kind::Answer,
            sequence: 1,
            number: 0,
        }
        .bytes(&secret);
        assert_eq!(
            links.received(([127, 0, 0, 1], 3).into(), &right, at(1)),
            None
        );
        assert_eq!(links.reports(at(1))[0].latency_ns, 0);
        assert_eq!(links.received(there, &right, at(1)), None);
        assert_eq!(links.reports(at(1))[0].latency_ns, 1_000_000);
    }
}
