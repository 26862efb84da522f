//! Lengths of Huffman codes, none longer than a limit: the algorithm of packages and merges
//! (Larmore and Hirschberg, 1990).

/// Lengths of the codes of symbols that occur so often, 1 to `most` bits each; that of one that
/// never does is 0. There have to be two that do, and 2 to the power of `most` at most.
pub(crate) fn code_lengths(counts: &[u32], most: usize) -> Vec<u8> {
    let mut leaves = (counts.iter().enumerate())
        .filter(|(_, count)| **count > 0)
        .map(|(symbol, count)| Node {
            weight: u64::from(*count),
            symbols: vec![symbol as u16],
        })
        .collect::<Vec<_>>();
    debug_assert!((2..=1 << most).contains(&leaves.len()));
    leaves.sort_by_key(|leaf| leaf.weight);
    // Of each length the cheapest pairs of what is one bit longer compete with the symbols.
    let mut packages: Vec<Node> = Vec::new();
    for _ in 1..most {
        packages = pairs(merge(&leaves, packages));
    }
    let mut lengths = vec![0; counts.len()];
    let all = merge(&leaves, packages);
    for node in all.iter().take(2 * leaves.len() - 2) {
        for symbol in &node.symbols {
            lengths[usize::from(*symbol)] += 1;
        }
    }
    lengths
}

/// A symbol, or several that get longer by a bit together.
#[derive(Clone, Debug)]
struct Node {
    weight: u64,
    symbols: Vec<u16>,
}

/// Both, the light ones first.
fn merge(leaves: &[Node], packages: Vec<Node>) -> Vec<Node> {
    let mut all = leaves.to_vec();
    all.extend(packages);
    all.sort_by_key(|node| node.weight);
    all
}

/// Every two neighbors as one; the heaviest may be left over.
fn pairs(nodes: Vec<Node>) -> Vec<Node> {
    let mut nodes = nodes.into_iter();
    let mut pairs = Vec::new();
    while let (Some(mut first), Some(second)) = (nodes.next(), nodes.next()) {
        first.weight += second.weight;
        first.symbols.extend(second.symbols);
        pairs.push(first);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bits that a text of these counts takes without a limit: Huffman's own algorithm.
    fn best(counts: &[u32]) -> u64 {
        let mut weights: Vec<u64> = counts.iter().map(|count| u64::from(*count)).collect();
        weights.retain(|weight| *weight > 0);
        let mut bits = 0;
        while weights.len() > 1 {
            weights.sort_unstable_by(|a, b| b.cmp(a));
            let (Some(a), Some(b)) = (weights.pop(), weights.pop()) else {
                unreachable!()
            };
            bits += a + b;
            weights.push(a + b);
        }
        bits
    }

    proptest! {
        #[test]
        fn they_are_whole_and_as_short_as_huffmans(
            counts in prop::collection::vec(0..1000_u32, 2..286),
        ) {
            prop_assume!(counts.iter().filter(|count| **count > 0).count() >= 2);
            let lengths = code_lengths(&counts, 15);
            // Kraft's sum is one: no code is left unused.
            let used = lengths.iter().filter(|length| **length > 0);
            let sum: u64 = used.map(|length| 1 << (15 - length)).sum();
            prop_assert_eq!(sum, 1 << 15);
            let taken = |(length, count): (&u8, &u32)| u64::from(*length) * u64::from(*count);
            let bits: u64 = lengths.iter().zip(&counts).map(taken).sum();
            // Of so few counts no code is as long as the limit, but for extreme ones.
            if lengths.iter().all(|length| *length < 15) {
                prop_assert_eq!(bits, best(&counts));
            }
        }
    }

    #[test]
    fn none_is_longer_than_the_limit() {
        // Without one, these would be 1 to 29 bits long.
        let counts: Vec<u32> = (0..30).map(|at| 1 << at).collect();
        for most in [5, 7, 15] {
            let lengths = code_lengths(&counts, most);
            assert!(
                lengths
                    .iter()
                    .all(|length| (1..=most).contains(&usize::from(*length)))
            );
            let sum: u64 = lengths
                .iter()
                .map(|length| 1 << (most - usize::from(*length)))
                .sum();
            assert_eq!(sum, 1 << most);
        }
    }
}
