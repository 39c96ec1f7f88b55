//! Swarms on one machine.
