//! The node's library: an island that trains, and, around it, what makes it part of a swarm.

pub mod island;
pub mod net;
