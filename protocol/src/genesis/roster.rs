//! Who may contribute.

use serde::{Deserialize, Serialize};

use crate::id::NodeId;

/// Who may contribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RosterPolicy {
    /// Anyone. Caps and robust merging carry the weight.
    Open,
    /// The listed nodes.
    Closed {
        /// Who, in ascending order.
        nodes: Vec<NodeId>,
        /// Keys that may revoke, in ascending order; none means that nobody may.
        stewards: Vec<NodeId>,
    },
    /// Whoever holds an invitation signed by a steward.
    Invite {
        /// Keys that may invite and revoke, in ascending order.
        stewards: Vec<NodeId>,
    },
}
