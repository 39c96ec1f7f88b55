//! Only what its author signed for this run is merged, once, in canonical order, at its weight.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::contribution::Header;
use atoll_protocol::crypto::{Body, Signed};
use atoll_protocol::engine::{Output, Record};
use atoll_protocol::genesis::RosterPolicy;
use atoll_protocol::id::{ContributionId, FragmentId, NodeId, RoundId, RunId, Version};
use atoll_protocol::ledger::Evidence;
use atoll_protocol::outer::{Cut, CutMember};

use super::lineage::capped_weight;
use super::{Checker, Event, NodeIndex, World, shares_key, waited_for_records};

/// Nothing but verified contributions of admitted authors enters a cut.
#[derive(Debug)]
pub struct Admission {
    run: RunId,
    /// Headers whose signature this checker verified itself.
    verified: BTreeMap<ContributionId, Header>,
    /// Whom each node has reason to refuse, whatever happens to it.
    refused: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    /// Whom it has reason to refuse unless it crashes.
    unwritten: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    /// The same, and the write that says so has begun.
    writing: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    /// The last round that each node knows another to be invited to. A crash may take what was
    /// written last; then this knows of more invitations than the node.
    invited: BTreeMap<NodeIndex, BTreeMap<NodeId, Version>>,
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
            writing: BTreeMap::new(),
            invited: BTreeMap::new(),
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
            // Folds may be executed before the records they follow are durable: what counts is the
            // order in which they were decided on.
            Event::Decided(node, output) if world.is_honest(*node) => {
                self.decided(world, *node, output)
            }
            Event::Output(node, output) if world.is_honest(*node) => {
                self.executed(*node, output);
                Ok(())
            }
            // What was written last may be lost, and is then not known to the node any more.
            Event::Crashed(node) => {
                self.slots.remove(node);
                self.unwritten.remove(node);
                self.writing.remove(node);
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
    /// What is executed tells what is durable.
    fn executed(&mut self, node: NodeIndex, output: &Output) {
        if waited_for_records(output)
            && let Some(written) = self.writing.remove(&node)
        {
            self.refused.entry(node).or_default().extend(written);
        }
        let author = match output {
            Output::Persist(Record::Evidence(evidence)) => evidence.author(),
            Output::Persist(Record::Revocation(revocation)) => revocation.body.node,
            _ => return,
        };
        self.writing.entry(node).or_default().insert(author);
    }

    fn decided(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        output: &Output,
    ) -> Result<(), String> {
        match output {
            Output::Persist(Record::Contribution(signed)) => self.persisted(world, node, signed),
            Output::Persist(Record::Evidence(evidence)) => self.evidence(world, node, evidence),
            Output::Persist(Record::Revocation(revocation)) => {
                self.steward(world, node, revocation)?;
                self.unwritten.entry(node).or_default().insert(revocation.body.node);
                Ok(())
            }
            Output::Persist(Record::Invite(invite)) => {
                self.steward(world, node, invite)?;
                let invited = self.invited.entry(node).or_default();
                let last = invited.entry(invite.body.node).or_default();
                *last = invite.body.last_round.max(*last);
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

    fn evidence(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        evidence: &Evidence,
    ) -> Result<(), String> {
        self.checks += 1;
        let author = evidence.author();
        // Said first, and without a look at the evidence: who is honest never signs twice, so
        // whatever passes for a proof of it is none.
        if is_one_honest_node(world, &author) {
            return Err(format!("node {node} believed evidence against {author}, who is honest"));
        }
        if !evidence.holds(self.run) {
            return Err(format!("node {node} believed forged evidence against {author}"));
        }
        self.unwritten.entry(node).or_default().insert(author);
        Ok(())
    }

    /// What changes the roster is signed by a steward of the genesis, for this run.
    fn steward<T: Body + Clone>(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        signed: &Signed<T>,
    ) -> Result<(), String> {
        self.checks += 1;
        let signer = signed.body.signer();
        let stewards: &[NodeId] = match &world.genesis().roster {
            RosterPolicy::Open => &[],
            RosterPolicy::Closed { stewards, .. } | RosterPolicy::Invite { stewards } => stewards,
        };
        if stewards.contains(&signer) && is_signed(signed, self.run) {
            return Ok(());
        }
        Err(format!("node {node} changed its roster for {signer}, whom it has no reason to obey"))
    }

    /// Whether the genesis, or an invitation that `node` wrote down, admits an author.
    fn admits(&self, world: &dyn World, node: NodeIndex, header: &Header) -> bool {
        match &world.genesis().roster {
            RosterPolicy::Open => true,
            RosterPolicy::Closed { nodes, .. } => nodes.contains(&header.author),
            RosterPolicy::Invite { .. } => {
                let invited = self.invited.get(&node);
                let last = invited.and_then(|invited| invited.get(&header.author));
                last.is_some_and(|last| header.round <= *last)
            }
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
            if !is_signed(signed, self.run) {
                return Err(format!(
                    "node {node} admitted {id} to {}, which {} did not sign for this run",
                    header.round_id(),
                    header.author
                ));
            }
            if world.is_good(node, header.payload, header.fragment) == Some(false) {
                return Err(format!(
                    "node {node} admitted {id} to {} with payload {}, which is not a good one",
                    header.round_id(),
                    header.payload
                ));
            }
            self.verified.insert(id, header);
        }
        self.checks += 1;
        if !self.admits(world, node, &header) {
            return Err(format!(
                "node {node} admitted {id} to {}, but the roster does not admit {}",
                header.round_id(),
                header.author
            ));
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
        let known = [&self.refused, &self.unwritten];
        if known.iter().any(|it| it.get(&node).is_some_and(|refused| refused.contains(&author))) {
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
        let headers: Option<Vec<&Header>> = cut.iter().map(|id| self.verified.get(id)).collect();
        let Some(headers) = headers else {
            return Err(format!(
                "node {node} made a round of {fragment} stable that nobody admitted"
            ));
        };
        if !headers.windows(2).all(|pair| pair[0].author < pair[1].author) {
            return Err(format!(
                "node {node} made a round of {fragment} stable whose cut is not sorted by author"
            ));
        }
        let tokens: Vec<u64> = headers.iter().map(|header| header.tokens).collect();
        let capped = capped_weight(&tokens, world.genesis().merge.weight_cap);
        if capped == weight {
            return Ok(());
        }
        Err(format!(
            "node {node} weighs a round of {fragment} {weight}, its capped tokens make {capped}"
        ))
    }
}

/// Whether a signature holds for `run`, and for no run but that.
fn is_signed<T: Body + Clone>(signed: &Signed<T>, run: RunId) -> bool {
    let mut other = run;
    other.0[0] ^= 1;
    signed.clone().verify(run).is_some() && signed.clone().verify(other).is_none()
}

/// Whether exactly one node has this key, and follows the protocol.
fn is_one_honest_node(world: &dyn World, id: &NodeId) -> bool {
    let mut with_key = (0..world.nodes()).filter(|&node| world.node_id(node) == *id);
    with_key.next().is_some_and(|node| world.is_honest(node)) && with_key.next().is_none()
}

#[cfg(test)]
mod tests {
    use atoll_protocol::roster::{Invite, Revocation};

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
            assert_eq!(checker.observe(world, &Event::Decided(0, &output)), Ok(()));
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
        assert_eq!(checker.observe(&world, &Event::Decided(0, &good)), Ok(()));
        let unsorted = fold(members.clone(), false);
        assert!(checker.observe(&world, &Event::Decided(0, &unsorted)).is_err());
        let twice = fold(vec![members[0].clone(), members[0].clone()], true);
        assert!(checker.observe(&world, &Event::Decided(0, &twice)).is_err());
    }

    #[test]
    fn a_stranger_a_replay_and_an_equivocator_are_seen() {
        let mut world = FakeWorld::new(2);
        world.honest[1] = false;
        let mut checker = seen(&world);
        let stranger = fold(vec![member(&world.signed(0, 1, 999, RUN).body)], true);
        assert!(checker.observe(&world, &Event::Decided(0, &stranger)).is_err());
        let replay = world.signed(0, 2, 100, RunId([1; 32]));
        let replay = Output::Persist(Record::Contribution(replay));
        assert!(checker.observe(&world, &Event::Decided(0, &replay)).is_err());
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Evidence::between(&one, &other).unwrap();
        let evidence = Output::Persist(Record::Evidence(evidence));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &evidence)), Ok(()));
        let cut = fold(vec![member(&one.body)], true);
        assert!(checker.observe(&world, &Event::Decided(0, &cut)).is_err());
        assert_eq!(checker.observe(&world, &Event::Decided(1, &cut)), Ok(()));
    }

    #[test]
    fn evidence_that_was_never_written_binds_nobody() {
        let mut world = FakeWorld::new(2);
        world.honest[1] = false;
        let mut checker = seen(&world);
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Evidence::between(&one, &other).unwrap();
        let evidence = Output::Persist(Record::Evidence(evidence));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &evidence)), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
        let cut = fold(vec![member(&one.body)], true);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &cut)), Ok(()));
    }

    #[test]
    fn evidence_that_was_written_binds_after_a_crash() {
        let mut world = FakeWorld::new(2);
        world.honest[1] = false;
        let mut checker = seen(&world);
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Evidence::between(&one, &other).unwrap();
        let evidence = Output::Persist(Record::Evidence(evidence));
        for output in [evidence, Output::Publish(vec![])] {
            assert_eq!(checker.observe(&world, &Event::Decided(0, &output)), Ok(()));
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
        assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
        let cut = fold(vec![member(&one.body)], true);
        assert!(checker.observe(&world, &Event::Decided(0, &cut)).is_err());
    }

    #[test]
    fn evidence_against_an_honest_node_is_seen_and_twins_are_no_such() {
        let mut world = FakeWorld::new(3);
        let (one, other) = (world.signed(1, 1, 100, RUN), world.signed(1, 1, 200, RUN));
        let evidence = Evidence::between(&one, &other).unwrap();
        let evidence = Output::Persist(Record::Evidence(evidence));
        let framed = Admission::new(RUN).observe(&world, &Event::Decided(0, &evidence));
        assert!(framed.unwrap_err().contains("honest"));
        world.keys[2] = world.keys[1].clone();
        assert_eq!(Admission::new(RUN).observe(&world, &Event::Decided(0, &evidence)), Ok(()));
    }

    #[test]
    fn who_is_not_on_the_roster_is_seen() {
        let mut world = FakeWorld::new(3);
        let id = |node: usize| world.keys[node].node();
        let (nodes, stewards) = (vec![id(0), id(1)], vec![id(0)]);
        world.genesis.roster = RosterPolicy::Closed { nodes, stewards: stewards.clone() };
        let mut checker = Admission::new(RUN);
        let mut observe = |world: &FakeWorld, node, output: Output| {
            checker.observe(world, &Event::Decided(node, &output))
        };
        assert_eq!(observe(&world, 0, world.persist(1, 1, 100)), Ok(()));
        assert!(observe(&world, 0, world.persist(2, 1, 100)).is_err());
        world.genesis.roster = RosterPolicy::Invite { stewards };
        let invite = |steward: usize, run| {
            let (key, node) = (&world.keys[steward], world.keys[2].node());
            let invite = Invite { steward: key.node(), node, last_round: 3 };
            Output::Persist(Record::Invite(key.sign(run, invite)))
        };
        assert!(observe(&world, 0, invite(1, RUN)).is_err(), "no steward");
        assert!(observe(&world, 0, invite(0, RunId([1; 32]))).is_err(), "another run");
        assert_eq!(observe(&world, 0, invite(0, RUN)), Ok(()));
        assert_eq!(observe(&world, 0, world.persist(2, 3, 100)), Ok(()));
        assert!(observe(&world, 0, world.persist(2, 4, 100)).is_err(), "too late");
        assert!(observe(&world, 1, world.persist(2, 3, 100)).is_err(), "node 1 was not told");
        let revocation = Revocation { steward: world.node_id(1), node: world.node_id(2) };
        let revocation = world.keys[1].sign(RUN, revocation);
        assert!(observe(&world, 0, Output::Persist(Record::Revocation(revocation))).is_err());
    }

    #[test]
    fn uncapped_weights_unsorted_cuts_and_nan_are_seen() {
        let mut world = FakeWorld::new(3);
        let mut checker = Admission::new(RUN);
        let mut cut = BTreeMap::new();
        for (node, tokens) in [(0, 100), (1, 120), (2, 1_000_000)] {
            let signed = world.signed(node, 1, tokens, RUN);
            cut.insert(signed.body.author, signed.body.id());
            let output = Output::Persist(Record::Contribution(signed));
            assert_eq!(checker.observe(&world, &Event::Decided(0, &output)), Ok(()));
        }
        let mut cut: Vec<ContributionId> = cut.into_values().collect();
        assert_eq!(checker.weight(&world, 0, FragmentId(0), &cut, 100 + 120 + 480), Ok(()));
        assert!(checker.weight(&world, 0, FragmentId(0), &cut, 1_000_220).is_err());
        cut.reverse();
        assert!(checker.weight(&world, 0, FragmentId(0), &cut, 100 + 120 + 480).is_err());
        world.good = Some(false);
        let poison = world.persist(0, 2, 100);
        assert!(checker.observe(&world, &Event::Decided(0, &poison)).is_err());
        world.good = Some(true);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &poison)), Ok(()));
        let good = Event::Folded(0, FragmentId(0), &[1.0, 2.0]);
        assert_eq!(checker.observe(&world, &good), Ok(()));
        let bad = Event::Folded(0, FragmentId(0), &[1.0, f32::NAN]);
        assert!(checker.observe(&world, &bad).is_err());
    }
}
