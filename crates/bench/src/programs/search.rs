//! Graph500's search: from a root, the vertex by which each other is reached first.

use super::graph::Graph;
use super::number::number;

/// Roots, each a search of its own.
const ROOTS: usize = 4;
const NOT_REACHED: u32 = u32::MAX;

/// A number of how far each vertex is from each root; `full` is called while all that a search has
/// is in memory.
pub(super) fn search(graph: &Graph, full: &mut dyn FnMut()) -> Result<u64, String> {
    let mut found = Vec::new();
    let mut open: Vec<u32> = Vec::with_capacity(graph.vertices());
    let has_edges = |vertex: &usize| !graph.of(*vertex).is_empty();
    let every = (graph.vertices() / ROOTS).max(1);
    let roots = (0..graph.vertices()).step_by(every);
    for root in roots.filter_map(|from| (from..graph.vertices()).find(has_edges)) {
        let steps = from(graph, root, &mut open)?;
        full();
        found.push(number(steps));
    }
    Ok(number(found))
}

/// Steps from the root to each vertex.
fn from(graph: &Graph, root: usize, open: &mut Vec<u32>) -> Result<Vec<u32>, String> {
    let mut steps = vec![NOT_REACHED; graph.vertices()];
    steps[root] = 0;
    open.clear();
    open.push(root as u32);
    let mut next = 0;
    while let Some(vertex) = open.get(next).copied() {
        next += 1;
        let step = steps[vertex as usize] + 1;
        for other in graph.of(vertex as usize) {
            if steps[*other as usize] == NOT_REACHED {
                steps[*other as usize] = step;
                open.push(*other);
            }
        }
    }
    // As Graph500 checks it: the ends of an edge are one step apart at most.
    for vertex in open.iter() {
        let own = steps[*vertex as usize];
        let far = |other: &&u32| steps[**other as usize].abs_diff(own) > 1;
        if let Some(other) = graph.of(*vertex as usize).iter().find(far) {
            return Err(format!("{vertex} and {other} are joined and far apart"));
        }
    }
    Ok(steps)
}
