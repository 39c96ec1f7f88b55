//! What the engine keeps on disk. An engine is rebuilt from these and nothing else.

use serde::{Deserialize, Serialize};

use crate::chain::{History, HistoryEntry};
use crate::contribution::Header;
use crate::crypto::Signed;
use crate::id::{ContributionId, FragmentId, RoundId, Version};
use crate::ledger::Evidence;
use crate::roster::{Invite, Revocation};

/// One durable fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// An admitted contribution, our own or a peer's. Its payload is durable with it.
    Contribution(Signed<Header>),
    /// A round was closed here.
    Closed(RoundId),
    /// A round became stable.
    Stable {
        /// Which fragment.
        fragment: FragmentId,
        /// The round; its number is one more than the last.
        entry: HistoryEntry,
        /// Own tokens settled so far, this round included.
        settled: Settled,
    },
    /// A snapshot was installed: this history replaces the one before.
    Installed {
        /// The surviving history.
        history: History,
        /// Own tokens settled so far.
        settled: Settled,
    },
    /// An author signed two headers for one slot.
    Evidence(Evidence),
    /// A steward admitted a node.
    Invite(Signed<Invite>),
    /// A steward excluded a node.
    Revocation(Signed<Revocation>),
    /// Own contributions that no history holds wait to be captured again.
    ///
    /// Persisted before the record that makes them so, and true until the next own contribution
    /// to the fragment: a capture takes with it whatever waited.
    Waiting {
        /// Which fragment.
        fragment: FragmentId,
        /// All of them.
        own: Vec<ContributionId>,
    },
}

impl Record {
    /// The fragment and round of a contribution's record, which `Output::Prune` names.
    pub fn contribution_round(&self) -> Option<RoundId> {
        match self {
            Self::Contribution(signed) => Some(signed.body.round_id()),
            Self::Closed(round) => Some(*round),
            _ => None,
        }
    }
}

/// Own tokens whose fate no longer changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// In the stable history.
    pub merged: u64,
    /// Trained, captured, and lost for good.
    pub orphaned: u64,
    /// Rounds up to here are never signed for again: what was signed then is forgotten.
    pub signed_floor: Version,
}
