//! What an island trains on.

pub mod generated;
