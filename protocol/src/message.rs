//! Everything nodes say to each other. Heavy bytes are not among it: they are fetched by hash.

use serde::{Deserialize, Serialize};

use crate::chain::History;
use crate::contribution::Header;
use crate::crypto::Signed;
use crate::frontier::{Frontier, Goodbye};
use crate::id::{FragmentId, Short, Version};
use crate::ledger::Evidence;
use crate::limits::{GOSSIP_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::roster::{Invite, Revocation};
use crate::wire::{self, WireError};

/// One message. The first six are gossiped to all, the others go from node to node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A contribution exists.
    Announce(Signed<Header>),
    /// Where a node stands.
    Frontier(Signed<Frontier>),
    /// Proof that an author signed two headers for one slot.
    Evidence(Evidence),
    /// A node leaves.
    Goodbye(Signed<Goodbye>),
    /// A steward admits a node.
    Invite(Signed<Invite>),
    /// A steward excludes a node.
    Revocation(Signed<Revocation>),
    /// Ledger digests of one fragment, to find what differs.
    Summary(Summary),
    /// Headers the other side lacks, or may lack.
    Headers(Vec<Signed<Header>>),
    /// Please send your history of this fragment.
    AskHistory(FragmentId),
    /// The stable rounds of one fragment.
    History(History),
    /// Please send what you know of the roster.
    AskRoster,
    /// Invitations, revocations and evidence.
    Roster(RosterRecords),
}

impl Message {
    /// The message that `bytes` encode.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let message: Self = wire::decode(bytes, MESSAGE_BYTES_MAX)?;
        if message.is_gossip() && bytes.len() > GOSSIP_BYTES_MAX {
            return Err(WireError::TooLong { bytes: bytes.len(), max: GOSSIP_BYTES_MAX });
        }
        Ok(message)
    }

    /// The one encoding of this message.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Whether the message is for everyone.
    pub fn is_gossip(&self) -> bool {
        matches!(
            self,
            Self::Announce(_)
                | Self::Frontier(_)
                | Self::Evidence(_)
                | Self::Goodbye(_)
                | Self::Invite(_)
                | Self::Revocation(_)
        )
    }
}

/// Ledger digests of one fragment, a few bytes for each round that is not stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Which fragment.
    pub fragment: FragmentId,
    /// The sender's stable version: it takes nothing at or below.
    pub base: Version,
    /// Digests of the admitted contributions to rounds `base + 1`, `base + 2`, ...
    pub rounds: Vec<Short>,
}

/// What a steward and the equivocators have signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterRecords {
    /// Invitations.
    pub invites: Vec<Signed<Invite>>,
    /// Revocations.
    pub revocations: Vec<Signed<Revocation>>,
    /// Evidence of equivocation.
    pub evidence: Vec<Evidence>,
}
