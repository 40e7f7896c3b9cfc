// SPDX-License-Identifier: GPL-2.0-only

//! The NUMA nodes on which a session has its pages, estimated from its puts.
//!
//! When a node of the host is short of memory, pages on other nodes do not help it. A put takes
//! pages of the node on which its vCPU runs, as long as this node has idle ones, so that most VMs
//! have most of their pages on one node. Counting each page would cost as much as the counters of
//! a pool. The node of the first page of a put is noted instead, and older notes count less: pages
//! are evicted about in the order in which they were put.

use crate::number::Number;

/// Nodes that are distinguished. Pages of further nodes are not noted.
pub const MAX_NODES: usize = 16;

/// Counters of a word, of eight bits each.
const IN_WORD: usize = 8;

/// The counters of all nodes are halved when one of them has reached this. The rest of its range is
/// for processors that add at the same time.
const FULL: u64 = 0xf0;

/// The bits that remain of the counters of a word when all are halved.
const HALVES: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Notes of the nodes of pages.
#[derive(Debug)]
pub struct Nodes<N> {
    words: [N; MAX_NODES / IN_WORD],
}

impl<N: Number> Nodes<N> {
    /// Creates notes of no page.
    pub fn new() -> Self {
        Self {
            words: core::array::from_fn(|_| N::new(0)),
        }
    }

    /// Notes a page on a node. Notes may be lost if two processors write at the same time.
    pub fn note(&self, node: usize) {
        let Some(word) = self.words.get(node / IN_WORD) else {
            return;
        };
        let shift = node % IN_WORD * 8;
        if word.load() >> shift & 0xff >= FULL {
            for word in &self.words {
                word.swap(word.load() >> 1 & HALVES);
            }
        }
        word.add(1 << shift);
    }

    /// Returns whether at least half of the noted pages are on a node.
    pub fn are_mostly_on(&self, node: usize) -> bool {
        let words = self.words.each_ref().map(N::load);
        let counts = words.iter().flat_map(|word| word.to_le_bytes());
        let all: u32 = counts.clone().map(u32::from).sum();
        let there = counts.map(u32::from).nth(node).unwrap_or(0);
        there > 0 && there * 2 >= all
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
        for _ in 0..100 {
            nodes.note(9);
        }
        assert!(nodes.are_mostly_on(9) && !nodes.are_mostly_on(1));
        // The VM moved to another node, and after some hundred puts most of its pages are there.
        for _ in 0..10_000 {
            nodes.note(1);
        }
        assert!(nodes.are_mostly_on(1) && !nodes.are_mostly_on(9));
    }

    #[test]
    fn pages_on_many_nodes_are_mostly_on_none() {
        let nodes = Nodes::<Plain>::new();
        for page in 0..10_000 {
            nodes.note(page % 3);
            nodes.note(MAX_NODES + page);
        }
        assert!((0..2 * MAX_NODES).all(|node| !nodes.are_mostly_on(node)));
    }

    #[test]
    fn counters_do_not_run_into_each_other() {
        let nodes = Nodes::<Plain>::new();
        for _ in 0..1000 {
            nodes.note(0);
        }
        for node in 1..MAX_NODES {
            assert!(!nodes.are_mostly_on(node), "{node}");
        }
    }
}
