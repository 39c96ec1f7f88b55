//! The outer state (stand-in).

use serde::{Deserialize, Serialize};

use crate::id::{ContentId, ContributionId, NodeId, Version};

/// The exact, ordered set a round merges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Which round.
    pub round: Version,
    /// What it merges, sorted by author.
    pub members: Vec<CutMember>,
}

/// One contribution of a cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutMember {
    /// Its id.
    pub id: ContributionId,
    /// Who trained.
    pub author: NodeId,
    /// Tokens it stands for.
    pub tokens: u64,
    /// Its payload.
    pub payload: ContentId,
}
