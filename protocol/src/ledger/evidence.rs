//! Proof that an author signed two headers for one slot. Anyone can check it.

use serde::{Deserialize, Serialize};

use crate::contribution::Header;
use crate::crypto::Signed;
use crate::id::{NodeId, RunId, Version};

/// Two headers of one author for one fragment and round, in canonical order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    first: Signed<Header>,
    second: Signed<Header>,
}

impl Evidence {
    /// The evidence in two headers, if they are one.
    pub fn between(one: &Signed<Header>, other: &Signed<Header>) -> Option<Self> {
        let (first, second) = if one.body < other.body { (one, other) } else { (other, one) };
        let evidence = Self { first: first.clone(), second: second.clone() };
        evidence.is_well_formed().then_some(evidence)
    }

    /// Who signed twice.
    pub fn author(&self) -> NodeId {
        self.first.body.author
    }

    /// The round it was signed twice for.
    pub fn round(&self) -> Version {
        self.first.body.round
    }

    /// Whether both signatures hold for `run` and the headers contradict each other.
    pub fn holds(&self, run: RunId) -> bool {
        self.is_well_formed()
            && self.first.clone().verify(run).is_some()
            && self.second.clone().verify(run).is_some()
    }

    /// Whether the headers contradict each other, whoever signed them.
    pub(crate) fn is_well_formed(&self) -> bool {
        let (first, second) = (&self.first.body, &self.second.body);
        first < second && first.author == second.author && first.round_id() == second.round_id()
    }
}

impl PartialOrd for Evidence {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Evidence {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |evidence: &Self| {
            (
                evidence.first.body,
                evidence.second.body,
                evidence.first.signature.0,
                evidence.second.signature.0,
            )
        };
        key(self).cmp(&key(other))
    }
}
