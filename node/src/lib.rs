//! The node's library: an island that trains, and, around it, what makes it part of a swarm.
//!
//! A star: `net`, `store`, `island` and `observe` know nothing of each other, and `driver` all of
//! them.

pub mod config;
pub mod driver;
pub mod identity;
pub mod island;
pub mod net;
pub mod observe;
pub mod store;
pub mod ticket;
pub mod units;
