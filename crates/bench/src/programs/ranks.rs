//! PageRank, a few rounds of it.

use super::graph::Graph;
use super::number::number;

const ROUNDS: usize = 3;
const DAMPING: f64 = 0.85;
/// How far the ranks' sum may be from 1.
const NEAR: f64 = 1e-6;

/// A number of all ranks; `full` is called while all that they are made of is in memory.
pub(super) fn ranks(graph: &Graph, full: &mut dyn FnMut()) -> Result<u64, String> {
    let vertices = graph.vertices();
    let mut edges_out = vec![0_u32; vertices];
    for vertex in 0..vertices {
        for from in graph.of(vertex) {
            edges_out[*from as usize] += 1;
        }
    }
    let mut ranks = vec![1.0 / vertices as f64; vertices];
    let mut parts = vec![0.0; vertices];
    for _ in 0..ROUNDS {
        // Who has no edges gives its rank to all.
        let mut lost = 0.0;
        for ((part, rank), out) in parts.iter_mut().zip(&ranks).zip(&edges_out) {
            *part = rank / f64::from((*out).max(1));
            if *out == 0 {
                lost += rank;
            }
        }
        let base = (1.0 - DAMPING + DAMPING * lost) / vertices as f64;
        for (vertex, rank) in ranks.iter_mut().enumerate() {
            let sum: f64 = graph
                .of(vertex)
                .iter()
                .map(|from| parts[*from as usize])
                .sum();
            *rank = base + DAMPING * sum;
        }
    }
    let sum: f64 = ranks.iter().sum();
    if (sum - 1.0).abs() > NEAR {
        return Err(format!("all ranks together are {sum}, not 1"));
    }
    full();
    let bits: Vec<u64> = ranks.iter().map(|rank| rank.to_bits()).collect();
    Ok(number(bits))
}
