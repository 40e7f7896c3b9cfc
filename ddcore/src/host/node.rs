// SPDX-License-Identifier: GPL-2.0-only

//! The NUMA nodes on which a session has its pages, estimated from its puts and from promotion.
//!
//! When a node of the host is short of memory, pages on other nodes do not help it. A put takes
//! pages of the node on which its vCPU runs, as long as this node has idle ones, so that most VMs
//! have most of their pages on one node. Counting each page that leaves would cost as much as the
//! counters of a pool. The pages of a put are noted for the node of the first one instead, and the
//! notes are halved when there are twice as many as the session has pages: pages are evicted about
//! in the order in which they were put.

use crate::number::Number;

/// Maximum number of nodes. Pages on nodes with higher numbers are not noted.
pub const MAX_NODES: usize = 16;

/// Each time that a node has this many more pages, the sum of all notes is compared with the number
/// of pages of the session.
const STEP: u64 = 1 << 12;

/// The number of pages that were noted for each node.
#[derive(Debug)]
pub struct Nodes<N> {
    pages: [N; MAX_NODES],
}

impl<N: Number> Nodes<N> {
    /// Creates notes without pages.
    pub fn new() -> Self {
        Self {
            pages: core::array::from_fn(|_| N::new(0)),
        }
    }

    /// Notes that a put or a promotion has stored `pages` pages on a node. `used` returns the
    /// number of pages of the session. Pages that are noted while another processor halves the
    /// notes may be lost.
    pub fn note(&self, node: usize, pages: u64, used: impl FnOnce() -> u64) {
        let Some(there) = self.pages.get(node) else {
            return;
        };
        let before = there.load();
        there.add(pages);
        if before / STEP != (before + pages) / STEP && self.all() > 2 * used() + STEP {
            for pages in &self.pages {
                pages.swap(pages.load() / 2);
            }
        }
    }

    fn all(&self) -> u64 {
        self.pages.iter().map(N::load).sum()
    }

    /// Returns whether at least half of the noted pages are on a node.
    pub fn are_mostly_on(&self, node: usize) -> bool {
        let there = self.pages.get(node).map_or(0, N::load);
        there > 0 && there * 2 >= self.all()
    }
}

impl<N: Number> Default for Nodes<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Plain;

    #[test]
    fn the_node_of_most_pages_is_known_and_changes() {
        let nodes = Nodes::<Plain>::new();
        assert!((0..MAX_NODES).all(|node| !nodes.are_mostly_on(node)));
        nodes.note(9, 100, || 100);
        assert!(nodes.are_mostly_on(9) && !nodes.are_mostly_on(1));
        // The VM moved to another node, and after twice its pages were put, most are there.
        for _ in 0..3000 {
            nodes.note(1, 64, || 1 << 16);
        }
        assert!(nodes.are_mostly_on(1) && !nodes.are_mostly_on(9));
    }

    /// A guest that puts single pages from a vCPU on another node does not hide where its pages
    /// are.
    #[test]
    fn small_puts_count_as_little_as_they_are() {
        let nodes = Nodes::<Plain>::new();
        for _ in 0..10_000 {
            nodes.note(0, 1024, || 1 << 22);
            nodes.note(1, 1, || 1 << 22);
            nodes.note(1, 1, || 1 << 22);
        }
        assert!(nodes.are_mostly_on(0) && !nodes.are_mostly_on(1));
    }

    /// A vCPU that visits another node for a while does not move the pages of a large VM.
    #[test]
    fn notes_last_as_long_as_the_pages() {
        let nodes = Nodes::<Plain>::new();
        let used = 1 << 20;
        for _ in 0..used / 64 {
            nodes.note(0, 64, || used);
        }
        for _ in 0..used / 64 / 2 {
            nodes.note(1, 64, || used);
        }
        assert!(nodes.are_mostly_on(0) && !nodes.are_mostly_on(1));
    }

    #[test]
    fn pages_on_many_nodes_are_mostly_on_none() {
        let nodes = Nodes::<Plain>::new();
        for page in 0..30_000 {
            nodes.note(page % 3, 1, || 1000);
            nodes.note(MAX_NODES + page, 1, || 1000);
        }
        assert!((0..2 * MAX_NODES).all(|node| !nodes.are_mostly_on(node)));
    }
}
