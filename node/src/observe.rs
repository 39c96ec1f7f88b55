//! What people see of a node.

pub mod clock;
pub mod logging;
