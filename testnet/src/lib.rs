//! Swarms on one machine.

pub mod check;
