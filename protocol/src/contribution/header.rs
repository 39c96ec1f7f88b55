//! What an author signs about one contribution.

use serde::{Deserialize, Serialize};

use crate::crypto::{self, Body};
use crate::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, Version};
use crate::wire;
use crate::wire::tag::Domain;

/// The header of a contribution: one for each author, fragment and round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Header {
    /// Who trained and signs.
    pub author: NodeId,
    /// Which fragment.
    pub fragment: FragmentId,
    /// The round it contributes to.
    pub round: Version,
    /// The version the island had adopted when it captured.
    pub base: Version,
    /// Tokens trained since the last capture of this fragment.
    pub tokens: u64,
    /// Steps since the last capture of this fragment.
    pub steps: u32,
    /// The hash its payload is fetched by.
    pub payload: ContentId,
    /// Exact length of the payload.
    pub payload_bytes: u32,
}

impl Header {
    /// The hash of this header.
    pub fn id(&self) -> ContributionId {
        ContributionId(crypto::hash(Domain::Header, &[&wire::encode(self)]))
    }

    /// The round it contributes to.
    pub fn round_id(&self) -> RoundId {
        RoundId { fragment: self.fragment, number: self.round }
    }
}

impl Body for Header {
    const DOMAIN: Domain = Domain::Header;

    fn signer(&self) -> NodeId {
        self.author
    }
}
