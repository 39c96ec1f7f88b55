//! A node's disk: what is written survives a crash only once it is durable.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use atoll_protocol::engine::Record;
use atoll_protocol::id::{ContentId, FragmentId, NodeId, Version};
use atoll_protocol::outer::{Norms, OuterState, Payloads};
use atoll_protocol::rng::Rng;

use super::island::Checkpoint;

/// Everything a node has stored.
#[derive(Debug, Default)]
pub(super) struct Disk {
    records: Vec<Record>,
    /// Writes under way, oldest first.
    writing: VecDeque<Vec<Record>>,
    /// What the last crash took.
    lost: Vec<Record>,
    /// The last round of each fragment that was signed for, as a small file beside the records
    /// has it: it is durable before they are.
    signed: BTreeMap<FragmentId, Version>,
    payloads: BTreeMap<ContentId, Stored>,
    bases: BTreeMap<FragmentId, VecDeque<(ContentId, Rc<OuterState>)>>,
    checkpoint: Option<Rc<Checkpoint>>,
    /// A checkpoint on its way to the disk.
    next_checkpoint: Option<Rc<Checkpoint>>,
    incarnation: u64,
}

/// Content on disk.
#[derive(Clone, Debug)]
struct Stored {
    bytes: Rc<[u8]>,
    /// What checks measured, for each fragment it was announced for; content that nobody checked
    /// is not served.
    norms: BTreeMap<FragmentId, Norms>,
    durable: bool,
}

impl Disk {
    /// Counts a start.
    pub(super) fn start(&mut self) -> u64 {
        self.incarnation += 1;
        self.incarnation
    }

    /// Begins to write `records`, all in one.
    pub(super) fn write(&mut self, records: Vec<Record>) {
        self.writing.push_back(records);
    }

    /// For each fragment, the last round that `own` signed for if no record knows of it.
    pub(super) fn unrecorded(&self, own: NodeId, fragments: &[FragmentId]) -> Vec<Version> {
        let mut recorded = BTreeMap::new();
        self.records.iter().for_each(|record| sign(&mut recorded, own, record));
        let newer = |fragment| {
            let floor = self.signed.get(fragment).copied().unwrap_or(0);
            if recorded.get(fragment).is_some_and(|newest| *newest >= floor) { 0 } else { floor }
        };
        fragments.iter().map(newer).collect()
    }

    /// Payloads that records of contributions name and that are not here.
    pub(super) fn missing(&self) -> BTreeSet<ContentId> {
        let named = self.records.iter().filter_map(|record| match record {
            Record::Contribution(signed) => Some(signed.body.payload),
            _ => None,
        });
        named.filter(|payload| !self.payloads.contains_key(payload)).collect()
    }

    /// The oldest write is durable, and so are the payloads of its contributions.
    pub(super) fn written(&mut self) {
        for record in self.writing.pop_front().unwrap_or_default() {
            self.keep(record);
        }
    }

    /// Whether a write is under way.
    pub(super) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Finishes every write, as a node does that stops in good order.
    pub(super) fn flush(&mut self) {
        while self.is_writing() {
            self.written();
        }
        self.checkpoint_written();
    }

    /// Loses what is not durable. If `torn`, a part of the oldest write had reached the disk; if
    /// not, only what it says that `own` signed for. True if a write was really cut in two.
    pub(super) fn crash(&mut self, own: NodeId, torn: Option<&mut Rng>) -> bool {
        let mut cut = false;
        self.lost.clear();
        if torn.is_none() {
            let records = self.writing.front().into_iter().flatten();
            records.for_each(|record| sign(&mut self.signed, own, record));
        }
        if let Some(rng) = torn
            && let Some(mut records) = self.writing.pop_front()
        {
            let kept = usize::try_from(rng.below(records.len() as u64)).expect("below a usize");
            self.lost = records.split_off(kept);
            records.into_iter().for_each(|record| self.keep(record));
            cut = true;
        }
        self.lost.extend(self.writing.drain(..).flatten());
        self.next_checkpoint = None;
        self.payloads.retain(|_, stored| stored.durable);
        cut
    }

    /// The durable records, in the order they were written.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Records that the last crash took before they were durable.
    pub(super) fn lost(&self) -> &[Record] {
        &self.lost
    }

    /// Notes records that did not even come to be written.
    pub(super) fn lose(&mut self, records: impl Iterator<Item = Record>) {
        self.lost.extend(records);
    }

    /// Stores content that was fetched or captured; a record makes it durable.
    pub(super) fn store(&mut self, content: ContentId, bytes: Rc<[u8]>) {
        let fresh = Stored { bytes, norms: BTreeMap::new(), durable: false };
        self.payloads.entry(content).or_insert(fresh);
    }

    /// Notes what the check measured.
    pub(super) fn measure(&mut self, content: &ContentId, fragment: FragmentId, norms: Norms) {
        if let Some(stored) = self.payloads.get_mut(content) {
            stored.norms.insert(fragment, norms);
        }
    }

    /// Stored content, checked or not.
    pub(super) fn content(&self, content: &ContentId) -> Option<&Rc<[u8]>> {
        self.payloads.get(content).map(|stored| &stored.bytes)
    }

    /// A checked payload, to serve.
    pub(super) fn checked(&self, content: &ContentId) -> Option<&Rc<[u8]>> {
        self.payloads
            .get(content)
            .filter(|stored| !stored.norms.is_empty())
            .map(|stored| &stored.bytes)
    }

    /// Makes a base state durable and forgets all but the newest of its fragment.
    pub(super) fn store_base(&mut self, digest: ContentId, state: Rc<OuterState>) {
        let bases = self.bases.entry(state.fragment()).or_default();
        bases.retain(|(known, _)| *known != digest);
        bases.push_back((digest, state));
        if bases.len() > BASES_KEPT {
            bases.pop_front();
        }
    }

    /// A durable base state.
    pub(super) fn base(&self, digest: &ContentId) -> Option<&Rc<OuterState>> {
        let mut all = self.bases.values().flatten();
        all.find(|(known, _)| known == digest).map(|(_, state)| state)
    }

    /// Begins to write a checkpoint.
    pub(super) fn write_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.next_checkpoint = Some(Rc::new(checkpoint));
    }

    /// The checkpoint replaced the one before.
    pub(super) fn checkpoint_written(&mut self) {
        if let Some(next) = self.next_checkpoint.take() {
            self.checkpoint = Some(next);
        }
    }

    /// The last durable checkpoint.
    pub(super) fn checkpoint(&self) -> Option<&Rc<Checkpoint>> {
        self.checkpoint.as_ref()
    }

    /// Forgets what `Output::Prune` names, for the node `own`.
    pub(super) fn prune(
        &mut self,
        own: NodeId,
        fragment: FragmentId,
        through: Version,
        own_through: Version,
        payloads: &[ContentId],
    ) {
        self.records.retain(|record| {
            let Some(round) = record.contribution_round() else { return true };
            let ours = matches!(record, Record::Contribution(signed) if signed.body.author == own);
            round.fragment != fragment || round.number > if ours { own_through } else { through }
        });
        for payload in payloads {
            self.payloads.remove(payload);
        }
    }

    fn keep(&mut self, record: Record) {
        if let Record::Contribution(signed) = &record
            && let Some(stored) = self.payloads.get_mut(&signed.body.payload)
        {
            stored.durable = true;
        }
        self.records.push(record);
    }
}

impl Payloads for Disk {
    fn payload(
        &self,
        id: &ContentId,
        fragment: FragmentId,
    ) -> Option<(Cow<'_, [u8]>, Cow<'_, Norms>)> {
        let stored = self.payloads.get(id)?;
        let norms = stored.norms.get(&fragment)?;
        Some((Cow::Borrowed(&stored.bytes), Cow::Borrowed(norms)))
    }
}

/// Notes the round of a contribution by `own`.
fn sign(signed: &mut BTreeMap<FragmentId, Version>, own: NodeId, record: &Record) {
    if let Record::Contribution(contribution) = record
        && contribution.body.author == own
    {
        let newest = signed.entry(contribution.body.fragment).or_default();
        *newest = contribution.body.round.max(*newest);
    }
}

/// Base states kept for each fragment: the one that records speak of and the one before or after.
const BASES_KEPT: usize = 2;

#[cfg(test)]
mod tests {
    use atoll_protocol::contribution::Header;
    use atoll_protocol::crypto::{Key, content_id};
    use atoll_protocol::id::{RoundId, RunId};

    use super::*;

    fn contribution(key: &Key, round: Version, bytes: &[u8]) -> Record {
        let header = Header {
            author: key.node(),
            fragment: FragmentId(0),
            round,
            base: 0,
            tokens: 1,
            steps: 1,
            payload: content_id(bytes),
            payload_bytes: 1,
        };
        Record::Contribution(key.sign(RunId([0; 32]), header))
    }

    #[test]
    fn what_is_not_durable_is_lost_in_a_crash() {
        let key = Key::from_secret([1; 32]);
        let mut disk = Disk::default();
        disk.store(content_id(b"a"), Rc::from(*b"a"));
        disk.store(content_id(b"b"), Rc::from(*b"b"));
        disk.write(vec![contribution(&key, 1, b"a")]);
        disk.written();
        disk.write(vec![contribution(&key, 2, b"b")]);
        assert!(!disk.crash(key.node(), None));
        assert_eq!(disk.records().len(), 1);
        assert_eq!(disk.lost(), [contribution(&key, 2, b"b")], "and it is known that it was");
        assert_eq!(disk.unrecorded(key.node(), &[FragmentId(0), FragmentId(1)]), [2, 0]);
        assert!(disk.content(&content_id(b"a")).is_some());
        assert!(disk.content(&content_id(b"b")).is_none());
        assert!(!disk.is_writing());
    }

    #[test]
    fn a_torn_write_loses_its_tail() {
        let round = |number| RoundId { fragment: FragmentId(0), number };
        for seed in 0..20 {
            let mut disk = Disk::default();
            disk.write((1..=4).map(|number| Record::Closed(round(number))).collect());
            assert!(disk.crash(NodeId([0; 32]), Some(&mut Rng::new(seed))));
            let kept = disk.records().len();
            assert!(kept < 4);
            let whole: Vec<Record> = (1..=4).map(|number| Record::Closed(round(number))).collect();
            assert_eq!(disk.records(), &whole[..kept]);
        }
    }

    #[test]
    fn prune_keeps_own_contributions_longer() {
        let (own, peer) = (Key::from_secret([1; 32]), Key::from_secret([2; 32]));
        let mut disk = Disk::default();
        disk.write(vec![
            contribution(&own, 1, b"a"),
            contribution(&own, 3, b"b"),
            contribution(&peer, 3, b"c"),
            contribution(&peer, 5, b"d"),
        ]);
        disk.written();
        disk.prune(own.node(), FragmentId(0), 4, 2, &[]);
        let rounds: Vec<Version> = disk
            .records()
            .iter()
            .filter_map(|record| record.contribution_round().map(|round| round.number))
            .collect();
        assert_eq!(rounds, [3, 5]);
    }

    #[test]
    fn two_bases_are_kept() {
        let mut disk = Disk::default();
        let digest = |n| ContentId([n; 32]);
        for n in 0..4 {
            disk.store_base(digest(n), Rc::new(OuterState::new(FragmentId(0), &[f32::from(n)])));
        }
        assert!(disk.base(&digest(1)).is_none());
        assert!(disk.base(&digest(2)).is_some() && disk.base(&digest(3)).is_some());
    }
}
