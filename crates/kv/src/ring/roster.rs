//! Who stands in the ring now, and in which order nodes are to serve each range.
//!
//! The first of a range's order that is there is to serve it, and the next of them are to have
//! copies. Nodes may know of a change at different times: a range is handed over by who serves it,
//! so it is served by one at any time, whatever each takes for the order.

use super::NODES_MAX;
use crate::checksum::checksum;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// The nodes in it, a bit each.
    members: u64,
    /// Numbers of nodes are below this, now and later.
    places: usize,
    order: Vec<Vec<u8>>,
}

impl Roster {
    /// Nodes that stay; the first ones have a range of their own each, and the others behind them
    /// round the ring.
    pub fn round(nodes: usize, ranges: usize) -> Roster {
        let order =
            (0..ranges).map(|range| (range..range + nodes).map(|node| (node % nodes) as u8));
        Roster {
            members: u64::MAX >> (NODES_MAX - nodes),
            places: nodes,
            order: order.map(Iterator::collect).collect(),
        }
    }

    /// Nodes that come and go, by number and name, with so many ranges: each node has a rank for
    /// each range by a hash of both (rendezvous hashing), so that one who comes gets its share of
    /// ranges from all others, and one who goes leaves them to all others.
    pub fn ranked<'a>(nodes: impl Iterator<Item = (usize, &'a str)>, ranges: usize) -> Roster {
        let nodes: Vec<(usize, &str)> = nodes.filter(|(node, _)| *node < NODES_MAX).collect();
        let rank = |range: usize, name: &str| {
            checksum([0, 0], &[name.as_bytes(), &[range as u8]].concat())
        };
        let order = (0..ranges).map(|range| {
            let mut ranked: Vec<_> = (nodes.iter())
                .map(|(node, name)| (rank(range, name), *node as u8))
                .collect();
            ranked.sort_unstable();
            ranked.into_iter().map(|(_, node)| node).collect()
        });
        Roster {
            members: nodes.iter().fold(0, |set, (node, _)| set | 1 << node),
            places: NODES_MAX,
            order: order.collect(),
        }
    }

    /// The nodes in it, a bit each.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// How many nodes there can be: their numbers are below that.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The nodes in the order in which they are to serve a range.
    pub fn around(&self, range: usize) -> impl Iterator<Item = usize> + Clone {
        self.order[range].iter().map(|node| usize::from(*node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_after_goes_round() {
        let roster = Roster::round(3, 3);
        assert_eq!(roster.around(1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!((roster.members(), roster.places()), (0b111, 3));
    }

    #[test]
    fn who_comes_takes_from_all_and_changes_nothing_else() {
        let names = [(0, "a"), (3, "b"), (7, "c"), (63, "d")];
        let before = Roster::ranked(names[..3].iter().copied(), 64);
        let after = Roster::ranked(names.iter().copied(), 64);
        assert_eq!(after.members(), 1 | 1 << 3 | 1 << 7 | 1 << 63);
        let mut taken = [0; NODES_MAX];
        for range in 0..64 {
            let rest: Vec<_> = after.around(range).filter(|node| *node != 63).collect();
            assert_eq!(before.around(range).collect::<Vec<_>>(), rest);
            if after.around(range).next() == Some(63) {
                taken[rest[0]] += 1;
            }
        }
        assert!([0, 3, 7].iter().all(|node| taken[*node] > 0), "{taken:?}");
        assert!((8..=24).contains(&taken.iter().sum()), "{taken:?}");
    }
}
