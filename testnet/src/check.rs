//! Checkers: one file for each invariant, called after every event of a simulated swarm.

use atoll_protocol::engine::{FragmentStatus, Input, Output};
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{FragmentId, NodeId};
use atoll_protocol::time::Time;

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
    /// An output is being executed.
    Output(NodeIndex, &'a Output),
    /// A fragment of a node's outer state was folded; these are its parameters.
    Folded(NodeIndex, FragmentId, &'a [f32]),
    /// Every fault has ended: the liveness phase begins.
    Healed,
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
    fn genesis(&self) -> &atoll_protocol::genesis::Genesis;
    /// Sizes of a running engine's bounded structures, with their limits: (name, size, limit).
    fn sizes(&self, node: NodeIndex) -> Vec<(&'static str, usize, usize)>;
}

/// One invariant.
pub trait Checker {
    /// What people call it.
    fn name(&self) -> &'static str;
    /// Looks at one event. An error is a violation, in words.
    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String>;
    /// Looks at the end of the run.
    fn finish(&mut self, _world: &dyn World) -> Result<(), String> {
        Ok(())
    }
    /// How often it compared something that could have been wrong.
    fn checks(&self) -> u64;
}
