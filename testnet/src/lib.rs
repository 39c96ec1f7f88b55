//! Swarms on one machine.

pub mod check;
pub mod toy;
