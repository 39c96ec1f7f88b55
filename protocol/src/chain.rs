//! The stable rounds of one fragment, as a hash chain.
//!
//! The trail at a version names the whole history up to it: every cut and every weight, in
//! order. Two nodes with equal trails have folded the same sets and hold the same bits.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::crypto;
use crate::fault::Fault;
use crate::id::{ContentId, ContributionId, CutDigest, FragmentId, Trail, Version};
use crate::ledger::cut_digest;
use crate::limits::{HISTORY_ROUNDS_MAX, MESSAGE_BYTES_MAX, VERSION_MAX};
use crate::wire::tag::Domain;

/// The newest stable rounds of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    fragment: FragmentId,
    root: Version,
    root_trail: Trail,
    root_weight: u64,
    root_digest: ContentId,
    links: VecDeque<Link>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    entry: HistoryEntry,
    trail: Trail,
    /// Weight merged up to and with this round.
    weight: u64,
}

impl Chain {
    /// The chain of a fragment that was never merged into; `digest` is of its initial state.
    pub fn new(fragment: FragmentId, digest: ContentId) -> Self {
        let root_trail = Trail(crypto::hash(Domain::Trail, &[&fragment.0.to_le_bytes()]));
        Self {
            fragment,
            root: 0,
            root_trail,
            root_weight: 0,
            root_digest: digest,
            links: VecDeque::new(),
        }
    }

    /// Adds the next stable round and forgets the oldest beyond the limit.
    pub fn push(&mut self, entry: HistoryEntry) {
        let trail = next_trail(self.base_trail(), cut_digest(&entry.cut), entry.weight);
        let weight = self.base_weight().saturating_add(entry.weight);
        self.links.push_back(Link { entry, trail, weight });
        while self.links.len() > HISTORY_ROUNDS_MAX {
            self.forget_oldest();
        }
    }

    /// The version up to which rounds are stable.
    pub fn base(&self) -> Version {
        self.root + self.len()
    }

    /// The oldest version this chain can speak of.
    pub fn root(&self) -> Version {
        self.root
    }

    /// The trail at the base.
    pub fn base_trail(&self) -> Trail {
        self.links.back().map_or(self.root_trail, |link| link.trail)
    }

    /// Weight merged up to the base.
    pub fn base_weight(&self) -> u64 {
        self.links.back().map_or(self.root_weight, |link| link.weight)
    }

    /// The digest of the outer state at the base.
    pub fn base_digest(&self) -> ContentId {
        self.links.back().map_or(self.root_digest, |link| link.entry.digest)
    }

    /// The trail at `version`, if this chain goes there.
    pub fn trail_at(&self, version: Version) -> Option<Trail> {
        if version == self.root {
            return Some(self.root_trail);
        }
        self.link(version).map(|link| link.trail)
    }

    /// The trail at `version`, if this chain goes there or one of the rounds `above` its base
    /// does, whose trails follow that of the base.
    pub fn trail_with(&self, above: &[Trail], version: Version) -> Option<Trail> {
        match version.checked_sub(self.base() + 1) {
            Some(index) => above.get(usize::try_from(index).ok()?).copied(),
            None => self.trail_at(version),
        }
    }

    /// The stable round that made `version`.
    pub fn entry(&self, version: Version) -> Option<&HistoryEntry> {
        self.link(version).map(|link| &link.entry)
    }

    /// Whether the history has this trail, digest and merged weight at `version`.
    pub fn holds(&self, version: Version, trail: Trail, digest: ContentId, weight: u64) -> bool {
        self.link(version).is_some_and(|link| {
            link.trail == trail && link.entry.digest == digest && link.weight == weight
        })
    }

    /// Whether `round` merged `contribution`; none if the round is too old or not stable.
    pub fn contains(&self, round: Version, contribution: &ContributionId) -> Option<bool> {
        self.entry(round).map(|entry| entry.cut.contains(contribution))
    }

    /// The wire form: as many of the newest rounds as fit in a message.
    pub fn to_history(&self) -> History {
        let mut bytes = 256;
        let fits = self
            .links
            .iter()
            .rev()
            .take_while(|link| {
                bytes += 64 + 32 * link.entry.cut.len();
                bytes < MESSAGE_BYTES_MAX
            })
            .count();
        let mut shown = self.clone();
        while shown.links.len() > fits {
            shown.forget_oldest();
        }
        History {
            fragment: shown.fragment,
            root: shown.root,
            root_trail: shown.root_trail,
            root_weight: shown.root_weight,
            root_digest: shown.root_digest,
            entries: shown.links.into_iter().map(|link| link.entry).collect(),
        }
    }

    /// The chain that `history` describes; its trails are computed, not believed.
    pub fn from_history(history: &History) -> Result<Self, Fault> {
        let last = u64::from(history.root) + history.entries.len() as u64;
        if history.entries.len() > HISTORY_ROUNDS_MAX || last > u64::from(VERSION_MAX) {
            return Err(Fault::BadHistory);
        }
        let mut chain = Self {
            fragment: history.fragment,
            root: history.root,
            root_trail: history.root_trail,
            root_weight: history.root_weight,
            root_digest: history.root_digest,
            links: VecDeque::new(),
        };
        history.entries.iter().cloned().for_each(|entry| chain.push(entry));
        Ok(chain)
    }

    fn len(&self) -> Version {
        Version::try_from(self.links.len()).expect("at most HISTORY_ROUNDS_MAX links")
    }

    fn link(&self, version: Version) -> Option<&Link> {
        let index = version.checked_sub(self.root)?.checked_sub(1)?;
        self.links.get(usize::try_from(index).ok()?)
    }

    fn forget_oldest(&mut self) {
        if let Some(link) = self.links.pop_front() {
            self.root += 1;
            self.root_trail = link.trail;
            self.root_weight = link.weight;
            self.root_digest = link.entry.digest;
        }
    }
}

/// The newest stable rounds of one fragment, in wire form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Which fragment.
    pub fragment: FragmentId,
    /// The version below the first entry.
    pub root: Version,
    /// The trail at `root`.
    pub root_trail: Trail,
    /// Weight merged up to `root`.
    pub root_weight: u64,
    /// The digest of the outer state at `root`.
    pub root_digest: ContentId,
    /// Rounds `root + 1`, `root + 2`, ... up to the sender's base.
    pub entries: Vec<HistoryEntry>,
}

/// One stable round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// What was merged, sorted by author.
    pub cut: Vec<ContributionId>,
    /// The weight of the cut after caps.
    pub weight: u64,
    /// The digest of the outer state after it: the id its snapshot is fetched by.
    pub digest: ContentId,
}

/// The trail after one more round.
pub fn next_trail(trail: Trail, cut: CutDigest, weight: u64) -> Trail {
    Trail(crypto::hash(Domain::Trail, &[&trail.0, &cut.0, &weight.to_le_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u8) -> HistoryEntry {
        HistoryEntry {
            cut: vec![ContributionId([n; 32])],
            weight: u64::from(n),
            digest: ContentId([n; 32]),
        }
    }

    fn chain(rounds: u8) -> Chain {
        let mut chain = Chain::new(FragmentId(1), ContentId([0; 32]));
        (1..=rounds).for_each(|n| chain.push(entry(n)));
        chain
    }

    #[test]
    fn wire_form_gives_the_same_chain() {
        let chain = chain(200);
        assert_eq!(chain.base(), 200);
        assert_eq!(chain.base_weight(), (1..=200).sum());
        assert_eq!(chain.root(), 200 - 128);
        let again = Chain::from_history(&chain.to_history()).unwrap();
        assert_eq!(again, chain);
        assert_eq!(chain.contains(150, &ContributionId([150; 32])), Some(true));
        assert_eq!(chain.contains(150, &ContributionId([151; 32])), Some(false));
        assert_eq!(chain.contains(3, &ContributionId([3; 32])), None);
    }

    #[test]
    fn a_changed_weight_changes_every_later_trail() {
        let honest = chain(5);
        let mut history = honest.to_history();
        history.entries[1].weight += 1;
        let forged = Chain::from_history(&history).unwrap();
        assert_eq!(forged.trail_at(1), honest.trail_at(1));
        assert!((2..=5).all(|version| forged.trail_at(version) != honest.trail_at(version)));
    }
}
