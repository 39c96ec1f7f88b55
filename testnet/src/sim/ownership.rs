//! Which of a node's own payloads each version of a fragment contains, as seen from outside.

use std::collections::BTreeMap;
use std::rc::Rc;

use atoll_protocol::chain::History;
use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, Version};
use atoll_protocol::outer::Cut;

use super::shadow::Member;

/// What of a node's own work is in one fragment's outer state.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    /// Every own contribution, by id.
    own: BTreeMap<ContributionId, ContentId>,
    /// In the base, with their rounds.
    stable: BTreeMap<ContentId, Version>,
    /// In a round above the base.
    recent: Vec<(ContentId, Version)>,
    base: Version,
    /// How often own payloads were told to return to fresh.
    reissues: u64,
}

impl Ownership {
    /// What the records of `own` say about `fragment`. Records of own contributions are pruned
    /// one day, so what was known `before` the restart is still needed.
    pub(super) fn restore(
        before: Option<&Self>,
        records: &[Record],
        own: NodeId,
        fragment: FragmentId,
    ) -> Self {
        let (own_known, reissues) = match before {
            Some(before) => (before.own.clone(), before.reissues),
            None => (BTreeMap::new(), 0),
        };
        let mut ownership = Self { own: own_known, reissues, ..Self::default() };
        for record in records {
            ownership.persisted(record, own, fragment);
            if let Record::Stable { fragment: of, entry, .. } = record
                && *of == fragment
            {
                ownership.base += 1;
                ownership.stabilise_entry(&entry.cut, ownership.base);
            }
        }
        ownership
    }

    /// A record is being written.
    pub(super) fn persisted(&mut self, record: &Record, own: NodeId, fragment: FragmentId) {
        match record {
            Record::Contribution(signed)
                if signed.body.author == own && signed.body.fragment == fragment =>
            {
                self.own.insert(signed.body.id(), signed.body.payload);
            }
            Record::Installed { history, .. } if history.fragment == fragment => {
                self.installed(history);
            }
            _ => {}
        }
    }

    /// So many own payloads are to return to fresh.
    pub(super) fn reissued(&mut self, count: usize) {
        self.reissues += count as u64;
    }

    /// How often own payloads were told to return to fresh, over all lives.
    pub(super) fn reissues(&self) -> u64 {
        self.reissues
    }

    /// The head is the base and these cuts.
    pub(super) fn folded(&mut self, cuts: &[Cut], own: NodeId) {
        self.recent.clear();
        for cut in cuts {
            let members = cut.members.iter().filter(|member| member.author == own);
            self.recent.extend(members.map(|member| (member.payload, cut.round)));
        }
    }

    /// Rounds up to `version` are in the base now.
    pub(super) fn stabilised(&mut self, version: Version) {
        self.base = version;
        for (payload, round) in &self.recent {
            if *round <= version {
                self.stable.insert(*payload, *round);
            }
        }
    }

    /// Own payloads that the head contains.
    pub(super) fn contained(&self) -> Rc<Member> {
        let recent = self.recent.iter().filter(|(_, round)| *round > self.base);
        Rc::new(self.stable.keys().copied().chain(recent.map(|(id, _)| *id)).collect())
    }

    fn installed(&mut self, history: &History) {
        self.recent.clear();
        self.stable.retain(|_, round| *round <= history.root);
        self.base = history.root;
        for entry in &history.entries {
            self.base += 1;
            self.stabilise_entry(&entry.cut, self.base);
        }
    }

    fn stabilise_entry(&mut self, cut: &[ContributionId], round: Version) {
        for payload in cut.iter().filter_map(|id| self.own.get(id)) {
            self.stable.insert(*payload, round);
        }
    }
}
