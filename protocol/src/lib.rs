//! The pure core of Atoll.
//!
//! Everything the swarm must agree on is decided here, without IO: time, randomness and bytes
//! come in, outputs go out, and equal inputs give equal outputs on every machine.

pub mod chain;
pub mod codec;
pub mod contribution;
pub mod crypto;
pub mod divergence;
pub mod engine;
pub mod fault;
pub mod fetch;
pub mod fragment;
pub mod frontier;
pub mod genesis;
pub mod id;
pub mod island;
pub mod ledger;
pub mod limits;
pub mod message;
pub mod outer;
pub mod peers;
pub mod planted;
pub mod pool;
pub mod rng;
pub mod roster;
pub mod round;
pub mod testkit;
pub mod time;
pub mod wire;
