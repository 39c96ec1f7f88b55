//! The last trust state: the only thing a ledger takes.

use crate::contribution::Header;
use crate::crypto::{Signed, Verified};
use crate::id::{ContentId, ContributionId};

/// The driver's word that it holds a payload and that [`crate::outer::check`] passed.
///
/// Only the engine makes one, from a `Checked` input or a restored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadProof(ContentId);

impl PayloadProof {
    /// For a payload that is on this node's disk and passed the check.
    pub(crate) fn checked(payload: ContentId) -> Self {
        Self(payload)
    }
}

/// A contribution that every rule admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    id: ContributionId,
    header: Verified<Header>,
}

impl Admitted {
    /// Joins a verified header with the proof that its payload is here and good.
    pub fn new(header: Verified<Header>, proof: PayloadProof) -> Option<Self> {
        (header.body().payload == proof.0).then(|| Self { id: header.body().id(), header })
    }

    /// Its id.
    pub fn id(&self) -> ContributionId {
        self.id
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        self.header.body()
    }

    /// The wire form, to pass on.
    pub fn signed(&self) -> &Signed<Header> {
        self.header.signed()
    }
}
