//! What a node says about where it stands: per fragment its versions and digests.

use serde::{Deserialize, Serialize};

use crate::crypto::Body;
use crate::id::{FragmentId, NodeId, Short, Version};
use crate::wire::tag::Domain;

/// A node's heartbeat: signed, gossiped, under 1 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frontier {
    /// Who says so.
    pub node: NodeId,
    /// How often the node was started; orders frontiers across restarts.
    pub incarnation: u64,
    /// Counts up with each frontier of one incarnation.
    pub sequence: u64,
    /// Whether the node takes part.
    pub standing: Standing,
    /// Whether an island trains behind this node.
    pub trains: bool,
    /// Measured milliseconds of one step of its island; [`STEP_MS_RESTS`] if it makes none.
    pub step_ms: u32,
    /// Digest of the evidence, invitations and revocations it holds.
    pub roster: Short,
    /// The fragment of the first entry; a run with many fragments sends them in turns.
    pub first: FragmentId,
    /// Where it stands, one entry for each fragment from `first` on.
    pub entries: Vec<FrontierEntry>,
}

/// Where a node stands with one fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontierEntry {
    /// The version up to which rounds are stable.
    pub base: Version,
    /// The newest version.
    pub version: Version,
    /// The trail at `base`.
    pub base_trail: Short,
    /// The trail at `version - FRONTIER_MARK_ROUNDS`, but not below `base`: agreement on older
    /// rounds shows even while the newest cut still grows.
    pub mark_trail: Short,
    /// The trail at `version`.
    pub trail: Short,
    /// The digest of the outer state at `version`.
    pub digest: Short,
}

/// What a frontier says instead of a step's time if the island makes no steps.
pub const STEP_MS_RESTS: u32 = 0;

/// How far below the newest version a frontier's mark lies.
pub const FRONTIER_MARK_ROUNDS: Version = 2;

impl FrontierEntry {
    /// The version that `mark_trail` speaks of.
    pub fn mark(&self) -> Version {
        self.version.saturating_sub(FRONTIER_MARK_ROUNDS).max(self.base)
    }
}

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It is not caught up: it never donates, closes a round or contributes.
    Joining,
    /// It takes part.
    CaughtUp,
    /// Its own key was seen to sign twice, or was revoked: it follows and stays silent.
    Muted,
}

impl Body for Frontier {
    const DOMAIN: Domain = Domain::Frontier;

    fn signer(&self) -> NodeId {
        self.node
    }
}

/// A node's last word: do not wait for me.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goodbye {
    /// Who leaves.
    pub node: NodeId,
    /// See [`Frontier::incarnation`].
    pub incarnation: u64,
    /// See [`Frontier::sequence`].
    pub sequence: u64,
}

impl Body for Goodbye {
    const DOMAIN: Domain = Domain::Goodbye;

    fn signer(&self) -> NodeId {
        self.node
    }
}
