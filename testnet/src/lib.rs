//! Swarms on one machine.

pub mod check;
pub mod sim;
pub mod toy;
