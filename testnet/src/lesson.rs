//! What the islands of a simulated swarm learn: the toy, or the model that real nodes train.

use std::fmt;

use atoll_node::island::{Island, IslandError};
use atoll_protocol::outer::OuterState;

/// What the islands of a simulated swarm learn.
pub trait Lesson: fmt::Debug + Send + Sync {
    /// An island with the parameters of version 0, at the beginning of data of its own: those of
    /// the island with this number in the run of `seed`.
    fn island(&self, seed: u64, number: u64) -> Result<Box<dyn Island>, IslandError>;

    /// Tokens that an island learns from in one step.
    fn batch(&self) -> u64;

    /// Pieces of one step: between them an island captures and adopts.
    fn pieces(&self) -> u32 {
        1
    }

    /// The inner learning rate once the swarm has merged so many tokens.
    fn rate(&self, tokens: u64) -> f32;

    /// The held-out loss of outer states, one for each fragment.
    fn loss(&self, states: &[&OuterState]) -> f64;
}
