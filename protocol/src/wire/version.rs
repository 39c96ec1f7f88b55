//! The version every signature, message and vector is bound to.

/// Raised whenever any encoded byte changes its meaning; old and new nodes do not mix.
pub const WIRE_VERSION: u16 = 1;
