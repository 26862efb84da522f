//! Which node of a ring is asked for a key: weighted ketama, as libmemcached has it.
//!
//! Each node has 160 points on a circle of 32 bits: four from each MD5 of `HOST:PORT-i`, i from 0
//! to 39 (`HOST-i` where the port is memcached's own). A key is asked of the node whose point is
//! the first at or behind the key's, which is the front of its MD5.

use md5::{Digest, Md5};

/// Digests of a node, each of which has four points.
const DIGESTS: u32 = 40;

/// The points of all nodes, in order, each with its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Circle(Vec<(u32, usize)>);

impl Circle {
    /// The circle of nodes with these names, of which there is at least one.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Circle {
        let mut points = Vec::new();
        for (node, name) in names.enumerate() {
            for digest in 0..DIGESTS {
                let digest = Md5::digest(format!("{name}-{digest}"));
                let parts = digest.as_chunks::<4>().0.iter();
                points.extend(parts.map(|part| (u32::from_le_bytes(*part), node)));
            }
        }
        points.sort_unstable();
        Circle(points)
    }

    /// The node of a key.
    pub(super) fn node(&self, key: &[u8]) -> usize {
        let digest = Md5::digest(key);
        let at = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
        let behind = self.0.partition_point(|(point, _)| *point < at);
        self.0[behind % self.0.len()].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What libmemcached 1.1.4 (`memcached_server_by_key`, weighted ketama) says of `key0` to
    /// `key63`.
    #[test]
    fn keys_go_where_libmemcached_sends_them() {
        let said = "1002020001002000021112212221121222011211202101000020002000221012";
        let circle = Circle::new(["10.0.0.1", "10.0.0.2:11212", "cache-3:11213"].into_iter());
        let ours: String = (0..64)
            .map(|number| circle.node(format!("key{number}").as_bytes()))
            .map(|node| node.to_string())
            .collect();
        assert_eq!(ours, said);
    }
}
