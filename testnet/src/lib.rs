//! Swarms on one machine.

pub mod central;
pub mod check;
pub mod cli;
pub mod compare;
pub mod goodput;
pub mod lesson;
mod links;
pub mod plan;
pub mod planted;
pub mod race;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod sim;
pub mod study;
pub mod toy;
pub mod up;
