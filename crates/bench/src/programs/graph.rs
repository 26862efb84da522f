//! Graphs as Graph500 makes them: R-MAT, 14 edges a vertex as in the paper, by rows.

use crate::load::Rng;

/// Edges a vertex.
const EDGE_FACTOR: usize = 14;
/// Of each bit of an edge's two ends, in 1/65536: that both are 0, that the second alone is 1, that
/// the first alone is. Graph500's 0.57, 0.19 and 0.19.
const PARTS: [u32; 3] = [37_356, 12_452, 12_452];
const SEED: u64 = 2016;
/// In so many parts a graph is made.
const PARTS_OF_GRAPH: usize = 8;

/// For each vertex those that its edges come from; in both directions where it is undirected.
pub(super) struct Graph {
    /// Where each vertex's are, and the end of the last.
    starts: Vec<u32>,
    from: Vec<u32>,
}

impl Graph {
    pub(super) fn directed(scale: u32) -> Graph {
        Graph::new(scale, false)
    }

    pub(super) fn undirected(scale: u32) -> Graph {
        Graph::new(scale, true)
    }

    /// Edges are drawn again and again, once to count them and then for each part of the vertices,
    /// so that nothing but the graph takes memory, and what is written at a time is a small part of
    /// it: this makes the data, and is not to be slow where they are far away.
    fn new(scale: u32, both: bool) -> Graph {
        let vertices = 1_usize << scale;
        let mut starts = vec![0_u32; vertices + 1];
        let ends = |from: u32, to: u32| [(from, to)].into_iter().chain(both.then_some((to, from)));
        edges(scale, |from, to| {
            ends(from, to).for_each(|(_, to)| starts[to as usize + 1] += 1);
        });
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let mut next = starts.clone();
        let mut sources = vec![0_u32; starts[vertices] as usize];
        let part = vertices.div_ceil(PARTS_OF_GRAPH);
        for first in (0..vertices).step_by(part) {
            edges(scale, |from, to| {
                for (from, to) in ends(from, to) {
                    if (first..first + part).contains(&(to as usize)) {
                        let next = &mut next[to as usize];
                        sources[*next as usize] = from;
                        *next += 1;
                    }
                }
            });
        }
        Graph {
            starts,
            from: sources,
        }
    }

    pub(super) fn vertices(&self) -> usize {
        self.starts.len() - 1
    }

    /// Those that the vertex's edges come from.
    pub(super) fn of(&self, vertex: usize) -> &[u32] {
        &self.from[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

/// Calls with each edge. The ends are scattered over all numbers, as Graph500 has it: otherwise
/// the busy ones would all be in the first pages.
fn edges(scale: u32, mut edge: impl FnMut(u32, u32)) {
    let mut rng = Rng::new(SEED);
    let mask = (1_u32 << scale) - 1;
    let scattered = |end: u32| end.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a) & mask;
    for _ in 0..EDGE_FACTOR << scale {
        let (mut from, mut to) = (0, 0);
        for _ in 0..scale {
            let drawn = rng.below(1 << 16);
            let both = [
                PARTS[0],
                PARTS[0] + PARTS[1],
                PARTS[0] + PARTS[1] + PARTS[2],
            ];
            let (high, low) = match both.iter().position(|below| drawn < *below) {
                Some(0) => (0, 0),
                Some(1) => (0, 1),
                Some(_) => (1, 0),
                None => (1, 1),
            };
            (from, to) = (from << 1 | high, to << 1 | low);
        }
        edge(scattered(from), scattered(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_is_there_and_some_vertices_have_many() {
        let mut all = Vec::new();
        edges(7, |from, to| all.push((from, to)));
        assert_eq!(all.len(), EDGE_FACTOR << 7);
        let (directed, undirected) = (Graph::directed(7), Graph::undirected(7));
        let degrees = |graph: &Graph| (0..128).map(|at| graph.of(at).len()).collect::<Vec<_>>();
        assert_eq!(degrees(&directed).iter().sum::<usize>(), all.len());
        assert_eq!(degrees(&undirected).iter().sum::<usize>(), 2 * all.len());
        for (from, to) in all {
            assert!(directed.of(to as usize).contains(&from));
            assert!(undirected.of(from as usize).contains(&to));
        }
        let most = degrees(&directed).into_iter().max();
        assert!(most > Some(4 * EDGE_FACTOR), "{most:?}");
    }
}
