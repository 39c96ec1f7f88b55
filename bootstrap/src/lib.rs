//! The bootstrap server: where nodes find their first peers.
//!
//! Nodes register under their run and find the others (rendezvous, kad), learn whether they can
//! be reached (autonat), and talk through it if they cannot reach each other (relay).
//!
//! **Invariant:** it holds no training state, signs nothing and orders nothing. A restart keeps its
//! identity, and nodes register again. Killing it after nodes have met stops no round.

mod behaviour;
pub mod cli;
pub mod config;
pub mod observe;
pub mod policy;
pub mod server;
