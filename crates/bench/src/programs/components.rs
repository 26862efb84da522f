//! Connected components: each vertex takes the least label around it, until none changes.

use super::graph::Graph;
use super::number::number;

/// A number of all labels; `full` is called while they are in memory.
pub(super) fn components(graph: &Graph, full: &mut dyn FnMut()) -> Result<u64, String> {
    let labels = labels(graph)?;
    full();
    Ok(number(labels))
}

fn labels(graph: &Graph) -> Result<Vec<u32>, String> {
    let vertices = graph.vertices();
    let mut labels: Vec<u32> = (0..).take(vertices).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for vertex in 0..vertices {
            let around = graph.of(vertex).iter().map(|other| labels[*other as usize]);
            let least = around.min().unwrap_or(u32::MAX);
            if least < labels[vertex] {
                labels[vertex] = least;
                changed = true;
            }
        }
    }
    for vertex in 0..vertices {
        let apart = |other: &&u32| labels[**other as usize] != labels[vertex];
        if let Some(other) = graph.of(vertex).iter().find(apart) {
            return Err(format!(
                "{vertex} and {other} are joined and have two labels"
            ));
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_least_that_a_search_reaches() {
        let graph = Graph::undirected(8);
        let labels = labels(&graph).expect("right");
        for (root, label) in labels.iter().enumerate() {
            let mut reached = vec![false; graph.vertices()];
            let mut open = vec![root];
            while let Some(vertex) = open.pop() {
                if !std::mem::replace(&mut reached[vertex], true) {
                    open.extend(graph.of(vertex).iter().map(|other| *other as usize));
                }
            }
            let least = reached.iter().position(|is| *is);
            assert_eq!(least, Some(*label as usize));
        }
    }
}
