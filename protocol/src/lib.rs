//! The pure core of Atoll.
//!
//! Everything the swarm must agree on is decided here, without IO: time, randomness and bytes
//! come in, outputs go out, and equal inputs give equal outputs on every machine.

pub mod codec;
pub mod crypto;
pub mod fault;
pub mod fragment;
pub mod genesis;
pub mod id;
pub mod island;
pub mod limits;
pub mod outer;
pub mod planted;
pub mod pool;
pub mod rng;
pub mod time;
pub mod wire;
