//! The ledger: a grow-only set of admitted contributions and of evidence. It is the CRDT.
//!
//! Union is commutative, associative and idempotent. What a round merges, its cut, is a pure
//! function of the set; the outer state is folded from cuts and never merged itself.

mod evidence;

use std::collections::BTreeMap;

pub use evidence::Evidence;

use crate::contribution::Admitted;
use crate::crypto;
use crate::id::{ContributionId, CutDigest, FragmentId, NodeId, RoundId, Version};
use crate::wire::tag::Domain;

/// All contributions a node knows of that are not yet folded into the base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    rounds: BTreeMap<RoundId, BTreeMap<NodeId, Admitted>>,
    evidence: BTreeMap<NodeId, Evidence>,
}

/// What an insertion did.
#[expect(clippy::large_enum_variant, reason = "returned once and matched at once")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is new.
    New,
    /// It was there.
    Known,
    /// Its author signed something else for the slot; the proof is in the ledger now.
    Equivocation(Evidence),
}

impl Ledger {
    /// Adds a contribution.
    pub fn insert(&mut self, contribution: Admitted) -> Inserted {
        let author = contribution.header().author;
        let slots = self.rounds.entry(contribution.header().round_id()).or_default();
        let Some(known) = slots.get(&author) else {
            slots.insert(author, contribution);
            return Inserted::New;
        };
        if known.id() == contribution.id() {
            return Inserted::Known;
        }
        let evidence = Evidence::between(known.signed(), contribution.signed())
            .expect("one slot and two ids are an equivocation");
        // The smaller header keeps the slot, so that union commutes; the author's are left out
        // of every cut anyway.
        if contribution.header() < known.header() {
            slots.insert(author, contribution);
        }
        self.accuse(evidence.clone());
        Inserted::Equivocation(evidence)
    }

    /// Adds evidence. True if its author was not known as an equivocator.
    pub fn accuse(&mut self, evidence: Evidence) -> bool {
        match self.evidence.get_mut(&evidence.author()) {
            Some(known) => {
                if evidence < *known {
                    *known = evidence;
                }
                false
            }
            None => {
                self.evidence.insert(evidence.author(), evidence);
                true
            }
        }
    }

    /// Adds everything `other` has.
    pub fn union(&mut self, other: &Self) {
        for contribution in other.rounds.values().flat_map(BTreeMap::values) {
            self.insert(contribution.clone());
        }
        for evidence in other.evidence.values() {
            self.accuse(evidence.clone());
        }
    }

    /// Forgets rounds of `fragment` up to `through` and returns what was in them.
    pub fn prune(&mut self, fragment: FragmentId, through: Version) -> Vec<Admitted> {
        let first = RoundId { fragment, number: 0 };
        let last = RoundId { fragment, number: through };
        let old: Vec<RoundId> = self.rounds.range(first..=last).map(|(round, _)| *round).collect();
        old.iter()
            .filter_map(|round| self.rounds.remove(round))
            .flat_map(BTreeMap::into_values)
            .collect()
    }

    /// The contributions to `round`, by author, equivocators among them.
    pub fn round(&self, round: RoundId) -> impl Iterator<Item = &Admitted> {
        self.rounds.get(&round).into_iter().flat_map(BTreeMap::values)
    }

    /// Who contributed to `round`, in order.
    pub fn contributors(&self, round: RoundId) -> impl Iterator<Item = &NodeId> {
        self.rounds.get(&round).into_iter().flat_map(BTreeMap::keys)
    }

    /// The contribution of `author` to `round`.
    pub fn slot(&self, round: RoundId, author: &NodeId) -> Option<&Admitted> {
        self.rounds.get(&round)?.get(author)
    }

    /// What `round` merges now: by author, without those who signed twice or whom `excluded`
    /// names.
    pub fn cut(&self, round: RoundId, excluded: impl Fn(&NodeId) -> bool) -> Vec<&Admitted> {
        self.round(round)
            .filter(|admitted| {
                let author = &admitted.header().author;
                !self.evidence.contains_key(author) && !excluded(author)
            })
            .collect()
    }

    /// The author of each contribution, as often as it contributed.
    pub fn authors(&self) -> impl Iterator<Item = &NodeId> {
        self.rounds.values().flat_map(BTreeMap::keys)
    }

    /// The newest round of `fragment` that has any contribution.
    pub fn newest(&self, fragment: FragmentId) -> Option<Version> {
        let first = RoundId { fragment, number: 0 };
        let last = RoundId { fragment, number: Version::MAX };
        self.rounds.range(first..=last).next_back().map(|(round, _)| round.number)
    }

    /// Evidence against each equivocator.
    pub fn evidence(&self) -> impl Iterator<Item = &Evidence> {
        self.evidence.values()
    }

    /// Whether `author` signed twice.
    pub fn equivocated(&self, author: &NodeId) -> bool {
        self.evidence.contains_key(author)
    }

    /// Number of contributions.
    pub fn len(&self) -> usize {
        self.rounds.values().map(BTreeMap::len).sum()
    }

    /// Whether there is no contribution.
    pub fn is_empty(&self) -> bool {
        self.rounds.values().all(BTreeMap::is_empty)
    }
}

/// The identity of a cut: a hash over its contributions in canonical order.
pub fn cut_digest(ids: &[ContributionId]) -> CutDigest {
    let count = (ids.len() as u64).to_le_bytes();
    let mut parts: Vec<&[u8]> = vec![&count];
    parts.extend(ids.iter().map(|id| id.0.as_slice()));
    CutDigest(crypto::hash(Domain::Cut, &parts))
}
