//! Every history that any honest node ever held, recomputed by the checkers themselves.

use std::collections::BTreeMap;

use atoll_protocol::crypto;
use atoll_protocol::engine::{Output, Record};
use atoll_protocol::id::{ContributionId, FragmentId, Trail, Version};
use atoll_protocol::ledger::cut_digest;
use atoll_protocol::outer::Cut;
use atoll_protocol::wire::tag::Domain;

use super::{NodeIndex, World, fragments};

/// For each trail, the round it ends with and the trail before.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    rounds: BTreeMap<(FragmentId, Trail), (Trail, Vec<ContributionId>)>,
    bases: BTreeMap<(NodeIndex, FragmentId), (Version, Trail)>,
}

impl Lineage {
    /// Takes in what a node persists or folds.
    pub(super) fn observe(&mut self, node: NodeIndex, output: &Output, cap: u32) {
        match output {
            Output::Persist(Record::Stable { fragment, entry, .. }) => {
                let (version, trail) = self.base(node, *fragment);
                let next = self.extend(*fragment, trail, &entry.cut, entry.weight);
                self.bases.insert((node, *fragment), (version + 1, next));
            }
            Output::Persist(Record::Installed { history, .. }) => {
                let fragment = history.fragment;
                let (mut version, mut trail) = (history.root, history.root_trail);
                for entry in &history.entries {
                    trail = self.extend(fragment, trail, &entry.cut, entry.weight);
                    version += 1;
                }
                self.bases.insert((node, fragment), (version, trail));
            }
            Output::Materialise { fragment, cuts } => self.fold(node, *fragment, cuts, cap),
            _ => {}
        }
    }

    /// The base a node has by the records it persisted.
    pub(super) fn base(&self, node: NodeIndex, fragment: FragmentId) -> (Version, Trail) {
        self.bases.get(&(node, fragment)).copied().unwrap_or((0, root_trail(fragment)))
    }

    /// Takes a node's own word for its base after a restart: a crash may have taken the record
    /// that was just being written.
    pub(super) fn restart(&mut self, world: &dyn World, node: NodeIndex) {
        for fragment in fragments(world) {
            if let Some(status) = world.status(node, fragment) {
                self.bases.insert((node, fragment), (status.base, status.base_trail));
            }
        }
    }

    /// Whether the history that ends with `trail` goes through `earlier`.
    pub(super) fn descends(&self, fragment: FragmentId, mut trail: Trail, earlier: Trail) -> bool {
        while trail != earlier {
            let Some((before, _)) = self.rounds.get(&(fragment, trail)) else { return false };
            trail = *before;
        }
        true
    }

    /// Every contribution in the history that ends with `trail`; none if its beginning is not
    /// known.
    pub(super) fn contents(
        &self,
        fragment: FragmentId,
        mut trail: Trail,
    ) -> Option<Vec<ContributionId>> {
        let mut contents = Vec::new();
        while trail != root_trail(fragment) {
            let (before, cut) = self.rounds.get(&(fragment, trail))?;
            contents.extend_from_slice(cut);
            trail = *before;
        }
        Some(contents)
    }

    fn fold(&mut self, node: NodeIndex, fragment: FragmentId, cuts: &[Cut], cap: u32) {
        let (version, mut trail) = self.base(node, fragment);
        // Rounds that became stable while this fold waited for its turn are folded in already.
        for cut in cuts.iter().filter(|cut| cut.round > version) {
            let ids: Vec<ContributionId> = cut.members.iter().map(|member| member.id).collect();
            let tokens: Vec<u64> = cut.members.iter().map(|member| member.tokens).collect();
            trail = self.extend(fragment, trail, &ids, capped_weight(&tokens, cap));
        }
    }

    fn extend(
        &mut self,
        fragment: FragmentId,
        trail: Trail,
        cut: &[ContributionId],
        weight: u64,
    ) -> Trail {
        let parts: [&[u8]; 3] = [&trail.0, &cut_digest(cut).0, &weight.to_le_bytes()];
        let next = Trail(crypto::hash(Domain::Trail, &parts));
        self.rounds.entry((fragment, next)).or_insert_with(|| (trail, cut.to_vec()));
        next
    }
}

/// The trail of a fragment that was never merged into.
pub(super) fn root_trail(fragment: FragmentId) -> Trail {
    Trail(crypto::hash(Domain::Trail, &[&fragment.0.to_le_bytes()]))
}

/// Tokens of a cut, each at most `cap` times their lower median: written a second time here, so
/// that a mistake in the protocol's own does not go unseen.
pub(super) fn capped_weight(tokens: &[u64], cap: u32) -> u64 {
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    let Some(median) = sorted.get(sorted.len().saturating_sub(1) / 2) else { return 0 };
    let most = median.saturating_mul(u64::from(cap));
    tokens.iter().fold(0, |sum: u64, &tokens| sum.saturating_add(tokens.min(most)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_capped_at_the_lower_median() {
        assert_eq!(capped_weight(&[100, 1_000_000, 120, 80], 3), 600);
        assert_eq!(capped_weight(&[10, u64::MAX], 2), 30);
        assert_eq!(capped_weight(&[], 2), 0);
    }
}
