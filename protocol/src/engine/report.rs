//! What the engine tells people. Reports never change anything.

use serde::{Deserialize, Serialize};

use crate::frontier::Standing;
use crate::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, Version};
use crate::round::CloseReason;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The node's standing changed.
    Standing(Standing),
    /// The first contribution to a round is known here.
    Opened {
        /// Which round.
        round: RoundId,
        /// Who opened it.
        author: NodeId,
    },
    /// We signed a contribution.
    Contributed {
        /// To which round.
        round: RoundId,
        /// Its id.
        id: ContributionId,
        /// Tokens in it.
        tokens: u64,
        /// Steps in it.
        steps: u32,
        /// True if another island had opened the round.
        answer: bool,
    },
    /// A contribution entered the ledger.
    Admitted {
        /// To which round.
        round: RoundId,
        /// Its id.
        id: ContributionId,
        /// Who trained.
        author: NodeId,
        /// Tokens in it.
        tokens: u64,
        /// True if the round was closed here before: it is folded again.
        late: bool,
    },
    /// A round closed here.
    Closed {
        /// Which round.
        round: RoundId,
        /// Contributions in the cut.
        have: u32,
        /// Contributions that quorum asked for.
        need: u32,
        /// Why it closed now.
        reason: CloseReason,
    },
    /// A fragment was folded to this version.
    Materialised {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the head.
        version: Version,
        /// Its digest.
        digest: ContentId,
    },
    /// Rounds up to this version no longer change.
    Stable {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the base.
        version: Version,
        /// True if the horizon or enough peers decided, not agreement as this node sees it.
        forced: bool,
    },
    /// A peer has another stable history than we do, of rounds that we have.
    Diverged {
        /// Which fragment.
        fragment: FragmentId,
        /// One that differs.
        peer: NodeId,
    },
    /// A peer has the same history with other bits: a defect in somebody's arithmetic.
    BitsDiffer {
        /// Which fragment.
        fragment: FragmentId,
        /// At which version.
        version: Version,
        /// Whose digest differs.
        peer: NodeId,
    },
    /// A snapshot replaced our state of a fragment.
    Installed {
        /// Which fragment.
        fragment: FragmentId,
        /// The version of the new base.
        version: Version,
        /// Own contributions that return to fresh.
        reissued: u32,
        /// Own tokens lost for good.
        orphaned: u64,
    },
    /// How far one of our contributions has come.
    Receipt {
        /// The round it contributed to.
        round: RoundId,
        /// Peers that have merged it.
        merged_by: u32,
        /// Peers heard from.
        of: u32,
    },
    /// An author signed twice for one slot and is refused from now on.
    Equivocated(NodeId),
    /// Our own key signed something we did not: another node runs with it.
    SameKey,
    /// A payload that nobody serves; its contribution is left out.
    Withheld {
        /// Which payload.
        payload: ContentId,
        /// Who announced it.
        author: NodeId,
    },
}
