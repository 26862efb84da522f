//! Which node owns a key: consistent hashing as libmemcached's weighted ketama does it, so that
//! ordinary clients ask the owner of a key.
//!
//! Each node has 160 points on a circle of 32 bits: four from each MD5 of `HOST:PORT-i`, for i from
//! 0 to 39, where HOST and PORT are as clients write them (memcached's own port, 11211, is left
//! out). A key belongs to the node of the first point at or behind the key's own, which is the
//! first four bytes of its MD5. The keys of one node are its *range*.
//!
//! Where nodes come and go, ranges must not: then they are [`SLOTS`] arcs of that circle, all as
//! long, and which node is to serve which says a [`Roster`](super::Roster).

use super::NODES_MAX;
use md5::{Digest, Md5};

/// Digests for the points of a node.
const DIGESTS: usize = 40;
/// Points of a digest.
const PER_DIGEST: usize = 4;
/// Ranges of a ring whose nodes come and go: sets of them are words, too.
pub const SLOTS: usize = 64;
/// memcached's port, which libmemcached leaves out of the names of points.
const USUAL_PORT: u16 = 11211;

/// The circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Points in order, and the range in front of each.
    points: Vec<(u32, u8)>,
    ranges: usize,
}

impl Placement {
    /// The circle of nodes that clients know by these hosts and ports, [`NODES_MAX`] at most.
    pub fn new<'a>(nodes: impl IntoIterator<Item = (&'a str, u16)>) -> Placement {
        let mut points = Vec::new();
        let mut count = 0;
        for (index, (host, port)) in nodes.into_iter().enumerate() {
            assert!(index < NODES_MAX, "a ring has {NODES_MAX} nodes at most");
            count += 1;
            for i in 0..DIGESTS {
                let name = match port {
                    USUAL_PORT => format!("{host}-{i}"),
                    _ => format!("{host}:{port}-{i}"),
                };
                let digest = Md5::digest(name);
                for part in 0..PER_DIGEST {
                    points.push((word(&digest, part), index as u8));
                }
            }
        }
        points.sort_unstable();
        let ranges = count;
        Placement { points, ranges }
    }

    /// The circle in equal slots.
    pub fn slots() -> Placement {
        let each = u32::MAX / SLOTS as u32;
        let points = (0..SLOTS as u32).map(|slot| ((slot + 1) * each, slot as u8));
        Placement {
            points: points.collect(),
            ranges: SLOTS,
        }
    }

    /// The circle in one piece.
    pub fn whole() -> Placement {
        Placement {
            points: vec![(u32::MAX, 0)],
            ranges: 1,
        }
    }

    /// How many ranges there are.
    pub fn ranges(&self) -> usize {
        self.ranges
    }

    /// The range that a key is in; of a circle of nodes, the node whose own it is.
    #[inline]
    pub fn range(&self, key: &[u8]) -> usize {
        let at = word(&Md5::digest(key), 0);
        let behind = self.points.partition_point(|(point, _)| *point < at);
        let (_, range) = self.points[behind % self.points.len()];
        range.into()
    }
}

/// A word of a digest, the first byte lowest.
fn word(digest: &[u8], part: usize) -> u32 {
    let bytes = &digest[part * 4..part * 4 + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libmemcached 1.1.4 (`memcached_server_by_key`, weighted ketama) says of the keys `key0`
    /// to `key63` and these servers.
    #[test]
    fn owners_are_those_of_libmemcached() {
        let said = "1002020001002000021112212221121222011211202101000020002000221012";
        let servers = [("10.0.0.1", 11211), ("10.0.0.2", 11212), ("cache-3", 11213)];
        let placement = Placement::new(servers);
        let ours: String = (0..64)
            .map(|number| placement.range(format!("key{number}").as_bytes()))
            .map(|range| range.to_string())
            .collect();
        assert_eq!(ours, said);
    }

    #[test]
    fn slots_are_even() {
        let placement = Placement::slots();
        let mut keys = [0; SLOTS];
        for number in 0..64_000 {
            keys[placement.range(format!("key{number}").as_bytes())] += 1;
        }
        let [least, most] = [keys.iter().min(), keys.iter().max()];
        assert!(least > Some(&800) && most < Some(&1200), "{keys:?}");
    }
}
