//! Only what its author signed for this run is merged, once, in canonical order, at its weight.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::Signed;
use atoll_protocol::engine::{Output, Record};
use atoll_protocol::id::{ContributionId, FragmentId, NodeId, RoundId, RunId};
use atoll_protocol::outer::{Cut, CutMember};

use super::lineage::capped_weight;
use super::{Checker, Event, NodeIndex, World, shares_key};

/// Nothing but verified contributions of admitted authors enters a cut.
#[derive(Debug)]
pub struct Admission {
    run: RunId,
    /// Headers whose signature this checker verified itself.
    verified: BTreeMap<ContributionId, Header>,
    /// Whom each node has reason to refuse.
    refused: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    /// The same, where the write that says so may still be lost.
    unwritten: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    slots: BTreeMap<NodeIndex, BTreeMap<(RoundId, NodeId), ContributionId>>,
    checks: u64,
}

impl Admission {
    /// For contributions to `run`.
    pub fn new(run: RunId) -> Self {
        Self {
            run,
            verified: BTreeMap::new(),
            refused: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            slots: BTreeMap::new(),
            checks: 0,
        }
    }
}

impl Checker for Admission {
    fn name(&self) -> &'static str {
        "admission"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Output(node, output) if world.is_honest(*node) => {
                self.output(world, *node, output)
            }
            // What was written last may be lost, and is then not known to the node any more.
            Event::Crashed(node) => {
                self.slots.remove(node);
                self.unwritten.remove(node);
                Ok(())
            }
            Event::Folded(node, fragment, params) if world.is_honest(*node) => {
                self.checks += 1;
                match params.iter().position(|value| !value.is_finite()) {
                    None => Ok(()),
                    Some(place) => Err(format!(
                        "node {node} folded {} into element {place} of {fragment}",
                        params[place]
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Admission {
    fn output(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        output: &Output,
    ) -> Result<(), String> {
        // Nothing but another write goes out before a write is durable.
        if !matches!(output, Output::Persist(_))
            && let Some(written) = self.unwritten.remove(&node)
        {
            self.refused.entry(node).or_default().extend(written);
        }
        match output {
            Output::Persist(Record::Contribution(signed)) => self.persisted(world, node, signed),
            Output::Persist(Record::Evidence(evidence)) => {
                self.checks += 1;
                let author = evidence.author();
                if !evidence.holds(self.run) {
                    return Err(format!("node {node} believed forged evidence against {author}"));
                }
                self.unwritten.entry(node).or_default().insert(author);
                Ok(())
            }
            Output::Persist(Record::Revocation(revocation)) => {
                self.unwritten.entry(node).or_default().insert(revocation.body.node);
                Ok(())
            }
            Output::Persist(Record::Stable { fragment, entry, .. }) => {
                self.weight(world, node, *fragment, &entry.cut, entry.weight)
            }
            Output::Materialise { fragment, cuts } => {
                cuts.iter().try_for_each(|cut| self.cut(node, *fragment, cut))
            }
            Output::Prune { fragment, through, .. } => {
                if let Some(slots) = self.slots.get_mut(&node) {
                    slots.retain(|(round, _), _| {
                        round.fragment != *fragment || round.number > *through
                    });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn persisted(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        signed: &Signed<Header>,
    ) -> Result<(), String> {
        let header = signed.body;
        let id = header.id();
        if !self.verified.contains_key(&id) {
            self.checks += 1;
            if signed.clone().verify(self.run).is_none() {
                return Err(format!(
                    "node {node} admitted {id} to {}, which {} did not sign for this run",
                    header.round_id(),
                    header.author
                ));
            }
            self.verified.insert(id, header);
        }
        let slot = (header.round_id(), header.author);
        let known = *self.slots.entry(node).or_default().entry(slot).or_insert(id);
        if known != id && !shares_key(world, node) {
            self.refused.entry(node).or_default().insert(header.author);
        }
        Ok(())
    }

    fn cut(&mut self, node: NodeIndex, fragment: FragmentId, cut: &Cut) -> Result<(), String> {
        let round = RoundId { fragment, number: cut.round };
        let sorted = cut.members.windows(2).all(|pair| pair[0].author < pair[1].author);
        if !sorted {
            return Err(format!(
                "node {node} folds a cut of {round} that is not sorted by author, or has one twice"
            ));
        }
        for member in &cut.members {
            self.checks += 1;
            self.member(node, round, member)?;
        }
        Ok(())
    }

    fn member(&self, node: NodeIndex, round: RoundId, member: &CutMember) -> Result<(), String> {
        let (id, author) = (member.id, member.author);
        let Some(header) = self.verified.get(&id) else {
            return Err(format!("node {node} folds {id} into {round}, which nobody admitted"));
        };
        let same = header.round_id() == round
            && header.author == author
            && header.tokens == member.tokens
            && header.payload == member.payload;
        if !same {
            return Err(format!("node {node} folds {id} into {round} as what it is not"));
        }
        if self.refused.get(&node).is_some_and(|refused| refused.contains(&author)) {
            return Err(format!("node {node} folds {id} of {author}, whom it has to refuse"));
        }
        Ok(())
    }

    fn weight(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
        cut: &[ContributionId],
        weight: u64,
    ) -> Result<(), String> {
        self.checks += 1;
        let tokens: Option<Vec<u64>> =
            cut.iter().map(|id| self.verified.get(id).map(|header| header.tokens)).collect();
        let Some(tokens) = tokens else {
            return Err(format!(
                "node {node} made a round of {fragment} stable that nobody admitted"
            ));
        };
        let capped = capped_weight(&tokens, world.genesis().merge.weight_cap);
        if capped == weight {
            return Ok(());
        }
        Err(format!(
            "node {node} weighs a round of {fragment} {weight}, its capped tokens make {capped}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use atoll_protocol::ledger::Evidence;

    use super::*;
    use crate::check::fake::{FakeWorld, RUN};

    fn member(header: &Header) -> CutMember {
        CutMember {
            id: header.id(),
            author: header.author,
            tokens: header.tokens,
            payload: header.payload,
        }
    }

    fn fold(mut members: Vec<CutMember>, sort: bool) -> Output {
        members.sort_by_key(|member| member.author);
        if !sort {
            members.reverse();
        }
        Output::Materialise { fragment: FragmentId(0), cuts: vec![Cut { round: 1, members }] }
    }

    fn seen(world: &FakeWorld) -> Admission {
        let mut checker = Admission::new(RUN);
        for node in 0..2 {
            let output = world.persist(node, 1, 100);
            assert_eq!(checker.observe(world, &Event::Output(0, &output)), Ok(()));
        }
        checker
    }

    #[test]
    fn a_sorted_cut_of_signed_contributions_passes() {
        let world = FakeWorld::new(2);
        let mut checker = seen(&world);
        let members: Vec<CutMember> =
            (0..2).map(|node| member(&world.signed(node, 1, 100, RUN).body)).collect();
        let good = fold(members.clone(), true);
        assert_eq!(checker.observe(&world, &Event::Output(0, &good)), Ok(()));
        let unsorted = fold(members.clone(), false);
        assert!(checker.observe(&world, &Event::Output(0, &unsorted)).is_err());
        let twice = fold(vec![members[0].clone(), members[0].clone()], true);
        assert!(checker.observe(&world, &Event::Output(0, &twice)).is_err());
    }

    #[test]
    fn a_stranger_a_replay_and_an_equivocator_are_seen() {
        let world = FakeWorld::new(2);
        let mut checker = seen(&world);
        let stranger = fold(vec![member(&world.signed(0, 1, 999, RUN).body)], true);
        assert!(checker.observe(&world, &Event::Output(0, &stranger)).is_err());
        let replay = world.signed(0, 2, 100, RunId([1; 32]));
        let replay = Output::Persist(Record::Contribution(replay));
        assert!(checker.observe(&world, &Event::Output(0, &replay)).is_err());
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Evidence::between(&one, &other).unwrap();
        let evidence = Output::Persist(Record::Evidence(evidence));
        assert_eq!(checker.observe(&world, &Event::Output(0, &evidence)), Ok(()));
        let cut = fold(vec![member(&one.body)], true);
        assert!(checker.observe(&world, &Event::Output(0, &cut)).is_err());
        assert_eq!(checker.observe(&world, &Event::Output(1, &cut)), Ok(()));
    }

    #[test]
    fn evidence_that_was_never_written_binds_nobody() {
        let world = FakeWorld::new(2);
        let mut checker = seen(&world);
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Evidence::between(&one, &other).unwrap();
        let evidence = Output::Persist(Record::Evidence(evidence));
        assert_eq!(checker.observe(&world, &Event::Output(0, &evidence)), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
        let cut = fold(vec![member(&one.body)], true);
        assert_eq!(checker.observe(&world, &Event::Output(0, &cut)), Ok(()));
    }

    #[test]
    fn uncapped_weights_and_nan_are_seen() {
        let world = FakeWorld::new(3);
        let mut checker = Admission::new(RUN);
        let mut cut = Vec::new();
        for (node, tokens) in [(0, 100), (1, 120), (2, 1_000_000)] {
            let signed = world.signed(node, 1, tokens, RUN);
            cut.push(signed.body.id());
            let output = Output::Persist(Record::Contribution(signed));
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
        assert_eq!(checker.weight(&world, 0, FragmentId(0), &cut, 100 + 120 + 480), Ok(()));
        assert!(checker.weight(&world, 0, FragmentId(0), &cut, 1_000_220).is_err());
        let good = Event::Folded(0, FragmentId(0), &[1.0, 2.0]);
        assert_eq!(checker.observe(&world, &good), Ok(()));
        let bad = Event::Folded(0, FragmentId(0), &[1.0, f32::NAN]);
        assert!(checker.observe(&world, &bad).is_err());
    }
}
