//! A toy that is really trained: a small network learns a generated language.
//!
//! The simulator needs thousands of steps each second on one core, a loss without sampling
//! noise, and runs that replay. So the model has 2608 parameters, the language
//! is known exactly (its entropy is the floor of the loss), and the arithmetic is plain `f32`
//! in a fixed order.

pub mod language;
pub mod layout;
pub mod learner;
mod network;
pub mod pupil;
pub mod task;

pub use language::Language;
pub use layout::Layout;
pub use learner::Learner;
pub use pupil::Toy;
pub use task::Task;

/// The shard of one island in a run with this seed: islands `0..8` between them see every part
/// of the language equally often, and no two runs see the same stream.
pub fn shard(seed: u64, island: u64) -> u64 {
    (seed << 16) | (island & 0xffff)
}

/// The inner learning rate for a few hundred steps at a batch of 32: twice as much goes a little
/// further, but the data's order then moves the final loss twice as far.
pub const LEARNING_RATE: f32 = 0.01;
