//! Which of a node's own contributions each version of a fragment contains, as seen from outside.

use std::collections::BTreeMap;
use std::rc::Rc;

use atoll_protocol::chain::History;
use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, Version};
use atoll_protocol::outer::Cut;

use super::shadow::Payloads;

/// What of a node's own work is in one fragment's outer state.
#[derive(Debug, Default)]
pub(super) struct Ownership {
    /// Every own contribution.
    own: BTreeMap<ContributionId, ContentId>,
    /// In the base, with their rounds.
    stable: BTreeMap<ContributionId, (ContentId, Version)>,
    /// In a round above the base.
    recent: Vec<(ContributionId, ContentId, Version)>,
    base: Version,
    /// Own contributions whose content returned to fresh, and the one that holds it since. From
    /// then on their content counts there, even if a history that holds them comes back.
    again: BTreeMap<ContributionId, Option<ContributionId>>,
}

impl Ownership {
    /// What the records of `own` say about `fragment`. Records of own contributions are pruned
    /// one day, so what was known `before` the restart is still needed, but not what the crash
    /// `lost`.
    pub(super) fn restore(
        before: Option<&Self>,
        records: &[Record],
        lost: &[Record],
        own: NodeId,
        fragment: FragmentId,
    ) -> Self {
        let mut ownership = Self::default();
        if let Some(before) = before {
            ownership.own.clone_from(&before.own);
            ownership.again.clone_from(&before.again);
        }
        for record in lost {
            if let Record::Contribution(signed) = record {
                ownership.own.remove(&signed.body.id());
            }
        }
        let kept = &ownership.own;
        ownership.again.retain(|_, holder| holder.is_some_and(|id| kept.contains_key(&id)));
        for record in records {
            ownership.remember(record, own, fragment);
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
        self.remember(record, own, fragment);
        if let Record::Contribution(signed) = record
            && signed.body.author == own
            && signed.body.fragment == fragment
        {
            for holder in self.again.values_mut() {
                holder.get_or_insert(signed.body.id());
            }
        }
    }

    /// These own payloads return to fresh, for the next capture.
    pub(super) fn reissued(&mut self, payloads: &[ContentId]) {
        for payload in payloads {
            let with_payload = self.own.iter().filter(|(_, known)| *known == payload);
            let free = with_payload
                .map(|(id, _)| *id)
                .find(|id| !self.again.contains_key(id) && !self.holds(id));
            // One that was never signed is unknown here, and no history can hold it.
            if let Some(id) = free {
                self.again.insert(id, None);
            }
        }
    }

    /// The head is the base and these cuts.
    pub(super) fn folded(&mut self, cuts: &[Cut], own: NodeId) {
        self.recent.clear();
        for cut in cuts {
            let members = cut.members.iter().filter(|member| member.author == own);
            self.recent.extend(members.map(|member| (member.id, member.payload, cut.round)));
        }
    }

    /// Rounds up to `version` are in the base now.
    pub(super) fn stabilised(&mut self, version: Version) {
        self.base = version;
        for (id, payload, round) in &self.recent {
            if *round <= version {
                self.stable.insert(*id, (*payload, *round));
            }
        }
    }

    /// Own payloads that the head contains, without those that count elsewhere.
    pub(super) fn contained(&self) -> Rc<Payloads> {
        let stable = self.stable.iter().map(|(id, (payload, _))| (id, payload));
        let recent = self.recent.iter().filter(|(_, _, round)| *round > self.base);
        let all = stable.chain(recent.map(|(id, payload, _)| (id, payload)));
        // What another node signed with our key never was this island's.
        let ours = all.filter(|(id, _)| self.own.contains_key(id) && !self.again.contains_key(id));
        Rc::new(count(ours.map(|(_, payload)| *payload)))
    }

    /// Own payloads that were signed for and never issued again, merged or not.
    pub(super) fn issued(&self) -> Payloads {
        let once = self.own.iter().filter(|(id, _)| !self.again.contains_key(id));
        count(once.map(|(_, payload)| *payload))
    }

    fn holds(&self, id: &ContributionId) -> bool {
        self.stable.contains_key(id)
            || self.recent.iter().any(|(known, _, round)| known == id && *round > self.base)
    }

    fn remember(&mut self, record: &Record, own: NodeId, fragment: FragmentId) {
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

    fn installed(&mut self, history: &History) {
        self.recent.clear();
        self.stable.retain(|_, (_, round)| *round <= history.root);
        self.base = history.root;
        for entry in &history.entries {
            self.base += 1;
            self.stabilise_entry(&entry.cut, self.base);
        }
    }

    fn stabilise_entry(&mut self, cut: &[ContributionId], round: Version) {
        for id in cut {
            if let Some(payload) = self.own.get(id) {
                self.stable.insert(*id, (*payload, round));
            }
        }
    }
}

/// An island that starts over makes the same payload again, so each may be there more than once.
fn count(payloads: impl Iterator<Item = ContentId>) -> Payloads {
    let mut counts = Payloads::new();
    payloads.for_each(|payload| *counts.entry(payload).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use atoll_protocol::chain::HistoryEntry;
    use atoll_protocol::contribution::Header;
    use atoll_protocol::crypto::Key;
    use atoll_protocol::engine::Settled;
    use atoll_protocol::id::RunId;

    use super::*;

    const FRAGMENT: FragmentId = FragmentId(0);
    const SAME: ContentId = ContentId([7; 32]);
    const OTHER: ContentId = ContentId([8; 32]);

    fn key() -> Key {
        Key::from_secret([1; 32])
    }

    fn contribution(round: Version, payload: ContentId) -> (ContributionId, Record) {
        let author = key().node();
        let (base, tokens, steps, payload_bytes) = (0, 1, 1, 1);
        let header = Header {
            author,
            fragment: FRAGMENT,
            round,
            base,
            tokens,
            steps,
            payload,
            payload_bytes,
        };
        (header.id(), Record::Contribution(key().sign(RunId([0; 32]), header)))
    }

    fn stable(cut: Vec<ContributionId>) -> Record {
        let entry = HistoryEntry { cut, weight: 1, digest: ContentId([0; 32]) };
        Record::Stable { fragment: FRAGMENT, entry, settled: Settled::default() }
    }

    fn restore(before: Option<&Ownership>, records: &[Record], lost: &[Record]) -> Ownership {
        Ownership::restore(before, records, lost, key().node(), FRAGMENT)
    }

    #[test]
    fn equal_payloads_of_two_contributions_are_two() {
        let ((one, first), (two, second)) = (contribution(1, SAME), contribution(2, SAME));
        let records = [first, second, stable(vec![one])];
        assert_eq!(restore(None, &records, &[]).contained().get(&SAME), Some(&1));
        let records = [&records[..], &[stable(vec![two])]].concat();
        assert_eq!(restore(None, &records, &[]).contained().get(&SAME), Some(&2));
    }

    #[test]
    fn what_was_issued_again_counts_in_its_successor_only() {
        let ((one, first), (_, second)) = (contribution(1, SAME), contribution(2, OTHER));
        let mut ownership = restore(None, std::slice::from_ref(&first), &[]);
        ownership.reissued(&[SAME]);
        assert!(ownership.issued().is_empty());
        ownership.persisted(&second, key().node(), FRAGMENT);
        let records = [first.clone(), second.clone(), stable(vec![one])];
        let after = restore(Some(&ownership), &records, &[]);
        assert!(after.contained().is_empty());
        assert_eq!(after.issued(), count([OTHER].into_iter()));
        // The successor did not reach the disk: it holds nothing.
        let records = [first, stable(vec![one])];
        let after = restore(Some(&ownership), &records, &[second]);
        assert_eq!(after.contained().get(&SAME), Some(&1));
        assert_eq!(after.issued(), count([SAME].into_iter()));
    }
}
