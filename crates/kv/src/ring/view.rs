//! What workers see of the ring: who serves a key now, and whether there is room for writes.

use super::Placement;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// No node: commands wait in front of the range until it is known who serves it.
const NOBODY: u8 = u8::MAX;

/// Shared by a node, which writes it, and the workers.
#[derive(Debug)]
pub struct View {
    placement: Placement,
    me: u8,
    routes: Box<[AtomicU8]>,
    is_full: AtomicBool,
}

impl View {
    /// For this node of the ring. Nobody serves anything yet.
    pub fn new(placement: Placement, me: usize) -> View {
        View {
            routes: (0..placement.nodes())
                .map(|_| AtomicU8::new(NOBODY))
                .collect(),
            placement,
            me: me as u8,
            is_full: AtomicBool::new(false),
        }
    }

    /// Who owns what.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// This node.
    pub fn me(&self) -> usize {
        self.me.into()
    }

    /// The range of a key that another node serves, or none as yet; none: this node serves it.
    #[inline]
    pub fn elsewhere(&self, key: &[u8]) -> Option<usize> {
        let range = self.placement.range(key);
        // Pairs with `set_route`: who sees that a range came here sees its items.
        (self.routes[range].load(Ordering::Acquire) != self.me).then_some(range)
    }

    /// Who serves a range.
    pub(super) fn route(&self, range: usize) -> Option<usize> {
        let node = self.routes[range].load(Ordering::Relaxed);
        (node != NOBODY).then_some(node.into())
    }

    pub(super) fn set_route(&self, range: usize, node: Option<usize>) {
        let node = node.map_or(NOBODY, |node| node as u8);
        self.routes[range].store(node, Ordering::Release);
    }

    /// Neighbors take less than is written: writes are to wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}
