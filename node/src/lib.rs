//! The node's library: an island that trains, and, around it, what makes it part of a swarm.

pub mod config;
pub mod identity;
pub mod island;
pub mod observe;
pub mod ticket;
pub mod units;
