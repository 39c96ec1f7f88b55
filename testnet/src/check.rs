//! Checkers: one file for each invariant, called after every event of a simulated swarm.

mod accounting;
mod admission;
mod agreement;
mod bounds;
mod donor;
mod durability;
#[cfg(test)]
mod fake;
mod heard;
mod learning;
mod lineage;
mod liveness;
mod monotone;
mod quorum;
mod stability;

use atoll_protocol::engine::{FragmentStatus, Input, Output};
use atoll_protocol::frontier::Standing;
use atoll_protocol::genesis::Genesis;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, RunId};
use atoll_protocol::time::Time;

pub use accounting::Accounting;
pub use admission::Admission;
pub use agreement::Agreement;
pub use bounds::Bounds;
pub use donor::Donor;
pub use durability::Durability;
pub use learning::{Band, Learning};
pub use liveness::{Expect, Liveness};
pub use monotone::Monotone;
pub use quorum::Quorum;
pub use stability::Stability;

/// A node's place in the simulated world.
pub type NodeIndex = usize;

/// Something that happened in the world.
#[derive(Debug)]
pub enum Event<'a> {
    /// A node was started, fresh or from what its disk still holds.
    Started(NodeIndex),
    /// A node stopped at once; writes that were not durable are lost.
    Crashed(NodeIndex),
    /// An input is about to be handled.
    Input(NodeIndex, &'a Input),
    /// An output left the engine. It is executed in its turn, perhaps after a write.
    Decided(NodeIndex, &'a Output),
    /// An output is being executed.
    Output(NodeIndex, &'a Output),
    /// A fragment of a node's outer state was folded; these are its parameters.
    Folded(NodeIndex, FragmentId, &'a [f32]),
    /// A node served a snapshot to a peer.
    Served(NodeIndex, ContentId),
    /// Every fault has ended: the liveness phase begins.
    Healed,
}

impl Event<'_> {
    /// The node it happened to.
    pub fn node(&self) -> Option<NodeIndex> {
        match self {
            Self::Started(node)
            | Self::Crashed(node)
            | Self::Input(node, _)
            | Self::Decided(node, _)
            | Self::Output(node, _)
            | Self::Folded(node, _, _)
            | Self::Served(node, _) => Some(*node),
            Self::Healed => None,
        }
    }
}

/// What a checker may look at: the whole world, read-only.
pub trait World {
    /// The virtual time.
    fn now(&self) -> Time;
    /// How many nodes there ever were, down ones and liars included.
    fn nodes(&self) -> usize;
    /// A node's public key. Two nodes may share one.
    fn node_id(&self, node: NodeIndex) -> NodeId;
    /// Whether it runs.
    fn is_up(&self, node: NodeIndex) -> bool;
    /// Whether it follows the protocol.
    fn is_honest(&self, node: NodeIndex) -> bool;
    /// A running node's view of a fragment.
    fn status(&self, node: NodeIndex, fragment: FragmentId) -> Option<FragmentStatus>;
    /// A running node's standing.
    fn standing(&self, node: NodeIndex) -> Option<Standing>;
    /// What everyone shares.
    fn genesis(&self) -> &Genesis;
    /// Sizes of a running engine's bounded structures, with their limits: (name, size, limit).
    fn sizes(&self, node: NodeIndex) -> Vec<(&'static str, usize, usize)>;
    /// Whether an island trains behind a node.
    fn trains(&self, node: NodeIndex) -> bool {
        let _ = node;
        true
    }
    /// How far an island's parameters are from where they must be, relative to how far it has
    /// moved: |local - outer - unmerged| / |moved|.
    ///
    /// `outer` is the version last adopted. `unmerged` is kept apart from the island's own
    /// accounting: the sum of every inner step's movement since the start, less the decoded
    /// content of every own payload that the adopted version contains. None while nothing has
    /// moved, or where it is not kept.
    fn conservation(&self, node: NodeIndex, fragment: FragmentId) -> Option<f64> {
        let _ = (node, fragment);
        None
    }
    /// Whether a payload that a node holds is well-formed, finite and within the genesis' limits.
    /// None where that cannot be told.
    fn is_good(&self, node: NodeIndex, payload: ContentId, fragment: FragmentId) -> Option<bool> {
        let _ = (node, payload, fragment);
        None
    }
    /// The held-out loss of a node's outer state. None where it is not known.
    fn loss(&self, node: NodeIndex) -> Option<f64> {
        let _ = node;
        None
    }
    /// The held-out loss of the initial parameters.
    fn first_loss(&self) -> Option<f64> {
        None
    }
    /// The held-out loss of a fault-free central run that merged as many tokens.
    fn central_loss(&self) -> Option<f64> {
        None
    }
}

/// One invariant.
pub trait Checker {
    /// What people call it.
    fn name(&self) -> &'static str;
    /// What kind of promise it checks.
    fn kind(&self) -> Kind {
        Kind::Safety
    }
    /// Looks at one event. An error is a violation, in words.
    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String>;
    /// Looks at the end of the run.
    fn finish(&mut self, _world: &dyn World) -> Result<(), String> {
        Ok(())
    }
    /// How often it compared something that could have been wrong.
    fn checks(&self) -> u64;
}

/// What kind of promise a checker checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing bad happens, ever.
    Safety,
    /// Something good happens, once faults have ended.
    Liveness,
}

/// Every checker, for a run of `run`.
pub fn all(run: RunId, expect: Expect, band: Band) -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(Agreement::new(expect.heaviest)),
        Box::new(Admission::new(run)),
        Box::new(Quorum::new(run)),
        Box::new(Stability::new(run)),
        Box::new(Monotone::default()),
        Box::new(Accounting::default()),
        Box::new(Bounds::default()),
        Box::new(Durability::default()),
        Box::new(Donor::default()),
        Box::new(Liveness::new(expect)),
        Box::new(Learning::new(band)),
    ]
}

/// The kind of promise that the checker called `name` checks.
pub fn kind_of(name: &str) -> Kind {
    if name == "liveness" || name == "learning" { Kind::Liveness } else { Kind::Safety }
}

/// Every fragment of the run.
fn fragments(world: &dyn World) -> impl Iterator<Item = FragmentId> + use<> {
    (0..world.genesis().fragments).map(FragmentId)
}

/// Nodes that run, follow the protocol and are caught up.
fn settled(world: &dyn World) -> Vec<NodeIndex> {
    (0..world.nodes())
        .filter(|&node| world.is_up(node) && world.is_honest(node))
        .filter(|&node| world.standing(node) == Some(Standing::CaughtUp))
        .collect()
}

/// Whether an output is only executed once all records before it are durable.
fn waited_for_records(output: &Output) -> bool {
    !matches!(output, Output::Persist(_)) && !output.promises_nothing()
}

/// Whether another node runs with the same key.
fn shares_key(world: &dyn World, node: NodeIndex) -> bool {
    let id = world.node_id(node);
    (0..world.nodes()).any(|other| other != node && world.node_id(other) == id)
}
