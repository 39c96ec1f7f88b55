//! The version every signature, message and vector is bound to, and the names by which nodes
//! and bootstrap servers know each other.

/// Raised whenever any encoded byte changes its meaning; old and new nodes do not mix.
pub const WIRE_VERSION: u16 = 1;

/// What a node and a bootstrap server say they are when they identify themselves.
pub const IDENTIFY_PROTOCOL: &str = "/atoll/1";

/// The routing table nodes and bootstrap servers share: nobody else's peers end up in it.
pub const KAD_PROTOCOL: &str = "/atoll/kad/1";
