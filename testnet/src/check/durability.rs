//! No honest node signs twice for one slot, and nothing that was durable is lost.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::contribution::Header;
use atoll_protocol::engine::{Output, Record};
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, NodeId, RoundId, Version};
use atoll_protocol::message::Message;
use atoll_protocol::outer::Cut;

use super::{Checker, Event, NodeIndex, World, fragments, shares_key, waited_for_records};

/// One signature for each slot; acknowledged records survive.
#[derive(Debug, Default)]
pub struct Durability {
    signed: BTreeMap<(NodeId, RoundId), ContributionId>,
    kept: BTreeMap<NodeIndex, Kept>,
    checks: u64,
}

/// What one node's disk must hold.
#[derive(Debug, Default)]
struct Kept {
    contributions: BTreeMap<(RoundId, NodeId), ContributionId>,
    captures: BTreeMap<FragmentId, ContentId>,
    /// Whom it was written, or begun to be written, that the node refuses.
    refused: BTreeSet<NodeId>,
    /// Whom it refuses unless it crashes: folds do not wait for the record that says so.
    unwritten: BTreeSet<NodeId>,
    bases: BTreeMap<FragmentId, Version>,
    /// Being written: durable once an output is executed that waited for that.
    waiting: Vec<Header>,
    /// Being written when the node crashed.
    in_doubt: Vec<Header>,
}

impl Checker for Durability {
    fn name(&self) -> &'static str {
        "durability"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        let Some(node) = event.node().filter(|&node| world.is_honest(node)) else { return Ok(()) };
        match event {
            Event::Crashed(_) => {
                let kept = self.kept.entry(node).or_default();
                // The disk may have them or not.
                kept.in_doubt = std::mem::take(&mut kept.waiting);
                kept.unwritten.clear();
                Ok(())
            }
            Event::Started(_) => self.restarted(world, node),
            Event::Decided(_, Output::Persist(record)) => {
                let refused = refused(record);
                self.kept.entry(node).or_default().unwritten.extend(refused);
                Ok(())
            }
            Event::Output(_, output) => self.output(world, node, output),
            _ => Ok(()),
        }
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Durability {
    fn output(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        output: &Output,
    ) -> Result<(), String> {
        let own = world.node_id(node);
        let kept = self.kept.entry(node).or_default();
        if waited_for_records(output) {
            for header in std::mem::take(&mut kept.waiting) {
                kept.contributions.insert((header.round_id(), header.author), header.id());
                if header.author == own {
                    kept.captures.insert(header.fragment, header.payload);
                }
            }
        }
        if let Output::Persist(record) = output {
            kept.refused.extend(refused(record));
        }
        match output {
            Output::Persist(Record::Contribution(signed)) => kept.waiting.push(signed.body),
            Output::Persist(Record::Stable { fragment, .. }) => {
                *kept.bases.entry(*fragment).or_default() += 1;
            }
            Output::Persist(Record::Installed { history, .. }) => {
                let entries = Version::try_from(history.entries.len()).unwrap_or(Version::MAX);
                kept.bases.insert(history.fragment, history.root.saturating_add(entries));
            }
            Output::Prune { fragment, through, .. } => {
                kept.contributions
                    .retain(|(round, _), _| round.fragment != *fragment || round.number > *through);
            }
            Output::Materialise { fragment, cuts } => return self.folded(node, *fragment, cuts),
            Output::Publish(bytes) | Output::Send { bytes, .. } if is_announcement(bytes) => {
                return self.announced(world, node, bytes);
            }
            _ => {}
        }
        Ok(())
    }

    fn announced(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        bytes: &[u8],
    ) -> Result<(), String> {
        let Ok(Message::Announce(signed)) = Message::decode(bytes) else { return Ok(()) };
        let header = signed.body;
        if header.author != world.node_id(node) || shares_key(world, node) {
            return Ok(());
        }
        self.checks += 1;
        let kept = self.kept.entry(node).or_default();
        if kept.contributions.get(&(header.round_id(), header.author)) != Some(&header.id()) {
            return Err(format!(
                "node {node} announced {} to {} before it was durable",
                header.id(),
                header.round_id()
            ));
        }
        let slot = (header.author, header.round_id());
        let first = *self.signed.entry(slot).or_insert(header.id());
        if first == header.id() {
            return Ok(());
        }
        Err(format!("node {node} signed {first} and {} for {}", header.id(), header.round_id()))
    }

    /// Every durable contribution to a round that is folded must be in it.
    fn folded(
        &mut self,
        node: NodeIndex,
        fragment: FragmentId,
        cuts: &[Cut],
    ) -> Result<(), String> {
        let Some(kept) = self.kept.get(&node) else { return Ok(()) };
        let base = kept.bases.get(&fragment).copied().unwrap_or(0);
        for cut in cuts.iter().filter(|cut| cut.round > base) {
            let round = RoundId { fragment, number: cut.round };
            let members: BTreeSet<NodeId> =
                cut.members.iter().map(|member| member.author).collect();
            let first = (round, NodeId([0; 32]));
            let last = (round, NodeId([255; 32]));
            for ((_, author), id) in kept.contributions.range(first..=last) {
                self.checks += 1;
                let refused = kept.refused.contains(author) || kept.unwritten.contains(author);
                if !members.contains(author) && !refused {
                    return Err(format!(
                        "node {node} folds {round} without {id} of {author}, which was durable"
                    ));
                }
            }
        }
        Ok(())
    }

    fn restarted(&mut self, world: &dyn World, node: NodeIndex) -> Result<(), String> {
        let own = world.node_id(node);
        let Some(kept) = self.kept.get_mut(&node) else { return Ok(()) };
        let mut in_doubt = std::mem::take(&mut kept.in_doubt);
        in_doubt.retain(|header| header.author == own);
        for fragment in fragments(world) {
            let Some(status) = world.status(node, fragment) else { continue };
            kept.bases.insert(fragment, status.base);
            let mut newer = in_doubt.iter().filter(|header| header.fragment == fragment);
            if let Some(newer) = newer.find(|it| status.last_capture == Some(it.payload)) {
                kept.captures.insert(fragment, newer.payload);
            }
            let Some(&payload) = kept.captures.get(&fragment) else { continue };
            self.checks += 1;
            if status.last_capture.is_some_and(|last| last != payload) {
                return Err(format!(
                    "node {node} restarts without its durable contribution {payload} to {fragment}"
                ));
            }
        }
        Ok(())
    }
}

/// Whom a record makes the node refuse.
fn refused(record: &Record) -> Option<NodeId> {
    match record {
        Record::Evidence(evidence) => Some(evidence.author()),
        Record::Revocation(revocation) => Some(revocation.body.node),
        _ => None,
    }
}

/// Announcements are the first kind of message.
fn is_announcement(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use atoll_protocol::ledger::Evidence;

    use super::*;
    use crate::check::fake::{FakeWorld, RUN, status};

    fn announce(world: &FakeWorld, round: Version, tokens: u64) -> Output {
        Output::Publish(Message::Announce(world.signed(0, round, tokens, RUN)).encode())
    }

    #[test]
    fn persist_then_announce_passes_once_for_each_slot() {
        let world = FakeWorld::new(1);
        let mut checker = Durability::default();
        for output in [world.persist(0, 1, 100), announce(&world, 1, 100)] {
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
        assert!(checker.observe(&world, &Event::Output(0, &announce(&world, 2, 100))).is_err());
        // After a crash that lost nothing it must not sign another header.
        let again = world.persist(0, 1, 200);
        assert_eq!(checker.observe(&world, &Event::Output(0, &again)), Ok(()));
        assert!(checker.observe(&world, &Event::Output(0, &announce(&world, 1, 200))).is_err());
    }

    #[test]
    fn a_crash_takes_only_what_no_later_output_followed() {
        let world = FakeWorld::new(1);
        let mut checker = Durability::default();
        assert_eq!(checker.observe(&world, &Event::Output(0, &world.persist(0, 1, 100))), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
        for output in [world.persist(0, 1, 200), announce(&world, 1, 200)] {
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
    }

    #[test]
    fn a_fold_without_a_durable_contribution_is_seen() {
        let mut world = FakeWorld::new(2);
        let mut checker = Durability::default();
        let publish = Output::Publish(Vec::new());
        for output in [world.persist(1, 1, 100), world.persist(0, 1, 100), publish] {
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
        let cuts = vec![Cut { round: 1, members: Vec::new() }];
        let fold = Output::Materialise { fragment: FragmentId(0), cuts };
        assert!(checker.observe(&world, &Event::Output(0, &fold)).is_err());
        let mut restarted = status(FragmentId(0), 1, 7, 1);
        restarted.last_capture = Some(ContentId([1; 32]));
        world.set(0, FragmentId(0), restarted);
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        restarted.last_capture = Some(ContentId([8; 32]));
        world.set(0, FragmentId(0), restarted);
        assert!(checker.observe(&world, &Event::Started(0)).is_err());
    }

    #[test]
    fn who_is_refused_only_until_a_crash_belongs_into_the_fold_after_it() {
        let world = FakeWorld::new(2);
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Record::Evidence(Evidence::between(&one, &other).unwrap());
        let evidence = Output::Persist(evidence);
        let cuts = vec![Cut { round: 1, members: Vec::new() }];
        let fold = Output::Materialise { fragment: FragmentId(0), cuts };
        for (written, fine) in [(false, false), (true, true)] {
            let mut checker = Durability::default();
            for output in [world.persist(1, 1, 100), Output::Publish(Vec::new())] {
                assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
            }
            assert_eq!(checker.observe(&world, &Event::Decided(0, &evidence)), Ok(()));
            assert_eq!(checker.observe(&world, &Event::Output(0, &fold)), Ok(()));
            if written {
                assert_eq!(checker.observe(&world, &Event::Output(0, &evidence)), Ok(()));
            }
            assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
            assert_eq!(checker.observe(&world, &Event::Output(0, &fold)).is_ok(), fine);
        }
    }

    #[test]
    fn what_was_being_written_in_a_crash_may_survive_it_and_then_stays() {
        let mut world = FakeWorld::new(1);
        let mut checker = Durability::default();
        let Output::Persist(Record::Contribution(mut second)) = world.persist(0, 2, 200) else {
            panic!("a contribution")
        };
        second.body.payload = ContentId([5; 32]);
        for output in [world.persist(0, 1, 100), Output::Persist(Record::Contribution(second))] {
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
        assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
        let mut restarted = status(FragmentId(0), 1, 7, 1);
        restarted.last_capture = Some(ContentId([5; 32]));
        world.set(0, FragmentId(0), restarted);
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        restarted.last_capture = Some(ContentId([8; 32]));
        world.set(0, FragmentId(0), restarted);
        assert!(checker.observe(&world, &Event::Started(0)).is_err());
    }
}
