//! Ranks of a boundary exchange on several nodes, as threads.
//!
//! Each node has memory of its own, and between nodes there is memory of all.

use std::sync::Arc;

use umbra::boundary::{Agent, Attended, Extent, Fabric, Nodes};
use umbra::sys::segment::Segment;

/// What the ranks of a node share.
#[derive(Debug)]
struct Node {
    ranks: Vec<u32>,
    segment: Arc<Segment>,
    extent: Extent,
}

/// What all ranks share, and what those of each node do.
#[derive(Debug)]
pub struct Memory {
    all: Arc<Segment>,
    extent: Extent,
    nodes: Vec<Node>,
}

impl Memory {
    /// Of nodes with these ranks, in each of which an agent can look out for them.
    ///
    /// # Panics
    /// If there is no memory.
    #[must_use]
    pub fn new(extent: Extent, nodes: &[Vec<u32>]) -> Memory {
        let node = |ranks: &Vec<u32>| {
            let extent = Extent { ranks: ranks.len() as u32, ..extent };
            Node { ranks: ranks.clone(), segment: Arc::new(Agent::segment(extent).expect("memory")), extent }
        };
        let all = Arc::new(Fabric::segment(extent).expect("memory"));
        Memory { all, extent, nodes: nodes.iter().map(node).collect() }
    }

    /// Of so many nodes, to which the ranks are dealt in turn.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn dealt(extent: Extent, nodes: u32) -> Memory {
        let of = |node: u32| (node..extent.ranks).step_by(nodes as usize).collect();
        Memory::new(extent, &(0..nodes.min(extent.ranks)).map(of).collect::<Vec<_>>())
    }

    fn node(&self, rank: u32) -> (&Node, u32) {
        let seat = |node: &Node| node.ranks.iter().position(|&other| other == rank);
        let found = self.nodes.iter().find_map(|node| Some((node, seat(node)? as u32)));
        found.expect("each rank is on a node")
    }

    fn far(&self, rank: u32) -> Fabric {
        Fabric::attach(self.all.clone(), self.extent, rank).expect("the memory is large enough")
    }

    /// The end of a rank.
    ///
    /// # Panics
    /// If it is on no node.
    #[must_use]
    pub fn end(&self, rank: u32) -> Nodes<Fabric, Fabric> {
        let (node, seat) = self.node(rank);
        let near = Fabric::attach(node.segment.clone(), node.extent, seat).expect("the memory is large enough");
        Nodes::new(near, self.far(rank), &node.ranks).expect("ends of one rank")
    }

    /// The end of a rank that the agent of its node looks out for.
    ///
    /// # Panics
    /// If it is on no node.
    #[must_use]
    pub fn attended(&self, rank: u32) -> Nodes<Attended, Fabric> {
        let (node, seat) = self.node(rank);
        let near = Attended::attach(node.segment.clone(), node.extent, seat).expect("the memory is large enough");
        Nodes::new(near, self.far(rank), &node.ranks).expect("ends of one rank")
    }

    /// What the ranks of a node share, by the number of the node.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn of_node(&self, node: usize) -> (Arc<Segment>, Extent) {
        (self.nodes[node].segment.clone(), self.nodes[node].extent)
    }

    /// An agent for each node.
    ///
    /// # Panics
    /// If this process has too many.
    #[must_use]
    pub fn agents(&self) -> Vec<Agent> {
        let agent = |node: &Node| Agent::attach(node.segment.clone(), node.extent).expect("the memory is large enough");
        self.nodes.iter().map(agent).collect()
    }
}
