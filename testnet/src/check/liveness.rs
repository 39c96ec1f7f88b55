//! Once faults have ended, everyone advances, takes part and is merged.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::engine::{Input, Output, Record, Report};
use atoll_protocol::frontier::Standing;
use atoll_protocol::genesis::RosterPolicy;
use atoll_protocol::id::{ContributionId, FragmentId, NodeId, RoundId, Version};

use super::{Checker, Event, Kind, NodeIndex, World, fragments, settled, shares_key};

/// What a run must have reached at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Rounds that each node closes in each fragment after the heal.
    pub rounds: Version,
    /// Whether the history that is the heaviest at the heal survives.
    pub heaviest: bool,
}

impl Default for Expect {
    fn default() -> Self {
        Self { rounds: 2, heaviest: false }
    }
}

/// The swarm goes on.
#[derive(Debug)]
pub struct Liveness {
    expect: Expect,
    healed: bool,
    versions: BTreeMap<(NodeIndex, FragmentId), Version>,
    closed: BTreeMap<(NodeIndex, FragmentId), Version>,
    /// Contributions to each fragment since the heal.
    contributed: BTreeMap<(NodeIndex, FragmentId), u64>,
    /// Which they are.
    since_heal: BTreeSet<ContributionId>,
    /// The newest round that each node ever signed for.
    signed: BTreeMap<(NodeIndex, FragmentId), Version>,
    /// Authors of whom somebody else folded what they contributed after the heal.
    merged: BTreeSet<NodeId>,
    refused: BTreeSet<NodeId>,
    invited: BTreeMap<NodeId, Version>,
    answers: Answers,
    checks: u64,
}

/// Whether rounds that others opened are answered.
#[derive(Debug, Default)]
struct Answers {
    steps: BTreeMap<(NodeIndex, FragmentId), u32>,
    open: BTreeMap<(NodeIndex, FragmentId), RoundId>,
    captures: BTreeSet<(NodeIndex, FragmentId)>,
    /// The last round each island contributed to: it may hear only later who opened it.
    done: BTreeMap<(NodeIndex, FragmentId), Version>,
    answered: u64,
    missed: u64,
}

impl Liveness {
    /// With these expectations.
    pub fn new(expect: Expect) -> Self {
        Self {
            expect,
            healed: false,
            versions: BTreeMap::new(),
            closed: BTreeMap::new(),
            contributed: BTreeMap::new(),
            since_heal: BTreeSet::new(),
            signed: BTreeMap::new(),
            merged: BTreeSet::new(),
            refused: BTreeSet::new(),
            invited: BTreeMap::new(),
            answers: Answers::default(),
            checks: 0,
        }
    }
}

impl Checker for Liveness {
    fn name(&self) -> &'static str {
        "liveness"
    }

    fn kind(&self) -> Kind {
        Kind::Liveness
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        if let Event::Healed = event {
            self.healed = true;
            for node in 0..world.nodes() {
                for fragment in fragments(world) {
                    let version = world.status(node, fragment).map_or(0, |status| status.version);
                    self.versions.insert((node, fragment), version);
                }
            }
            return Ok(());
        }
        let Some(node) = event.node().filter(|&node| world.is_honest(node)) else { return Ok(()) };
        match event {
            Event::Started(_) | Event::Crashed(_) => self.answers.forget(world, node),
            Event::Input(_, input) => self.answers.input(world, node, input),
            Event::Output(_, output) => self.output(world, node, output),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, world: &dyn World) -> Result<(), String> {
        self.nobody_joins_for_ever(world)?;
        for node in settled(world) {
            fragments(world).try_for_each(|fragment| self.advanced(world, node, fragment))?;
        }
        self.everyone_is_merged(world)?;
        self.checks += 1;
        let Answers { answered, missed, .. } = self.answers;
        if missed >= MISSED_MIN && missed > answered {
            return Err(format!(
                "rounds that others had opened were answered {answered} times and left \
                 unanswered {missed} times"
            ));
        }
        Ok(())
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Liveness {
    fn output(&mut self, world: &dyn World, node: NodeIndex, output: &Output) {
        self.answers.output(world, node, output);
        match output {
            Output::Persist(Record::Evidence(evidence)) => {
                self.refused.insert(evidence.author());
            }
            Output::Persist(Record::Revocation(revocation)) => {
                self.refused.insert(revocation.body.node);
            }
            Output::Persist(Record::Invite(invite)) => {
                let last = self.invited.entry(invite.body.node).or_default();
                *last = (*last).max(invite.body.last_round);
            }
            Output::Report(Report::Closed { round, .. }) if self.healed => {
                *self.closed.entry((node, round.fragment)).or_default() += 1;
            }
            Output::Report(Report::Contributed { round, id, .. }) => {
                let newest = self.signed.entry((node, round.fragment)).or_default();
                *newest = round.number.max(*newest);
                if self.healed {
                    *self.contributed.entry((node, round.fragment)).or_default() += 1;
                    self.since_heal.insert(*id);
                }
            }
            Output::Materialise { cuts, .. } if self.healed => {
                let own = world.node_id(node);
                let members = cuts.iter().flat_map(|cut| &cut.members);
                let new = members
                    .filter(|member| member.author != own && self.since_heal.contains(&member.id));
                self.merged.extend(new.map(|member| member.author));
            }
            _ => {}
        }
    }

    fn nobody_joins_for_ever(&mut self, world: &dyn World) -> Result<(), String> {
        for node in (0..world.nodes()).filter(|&node| world.is_up(node) && world.is_honest(node)) {
            self.checks += 1;
            let standing = world.standing(node);
            let muted_rightly =
                shares_key(world, node) || self.refused.contains(&world.node_id(node));
            let stuck = match standing {
                Some(Standing::CaughtUp) => false,
                Some(Standing::Muted) => !muted_rightly,
                Some(Standing::Joining) | None => true,
            };
            if stuck {
                return Err(format!("node {node} is {standing:?} at the end"));
            }
        }
        Ok(())
    }

    fn advanced(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
    ) -> Result<(), String> {
        self.checks += 1;
        let version = world.status(node, fragment).map_or(0, |status| status.version);
        let healed = self.versions.get(&(node, fragment)).copied().unwrap_or(0);
        let closed = self.closed.get(&(node, fragment)).copied().unwrap_or(0);
        // A node whose history lost may end below where it was, and yet has closed rounds.
        let advanced = version.saturating_sub(healed).max(closed);
        if advanced >= self.expect.rounds {
            return Ok(());
        }
        Err(format!(
            "node {node} closed {advanced} rounds of {fragment} since faults ended (version \
             {healed} then, {version} now), {} expected",
            self.expect.rounds
        ))
    }

    fn everyone_is_merged(&mut self, world: &dyn World) -> Result<(), String> {
        let nodes = settled(world);
        let alone = nodes.len() < 2;
        for node in nodes {
            let id = world.node_id(node);
            let may = self.is_eligible(world, node) && self.may_sign(world, node);
            if !world.trains(node) || shares_key(world, node) || !may {
                continue;
            }
            self.checks += 1;
            let counts = fragments(world).map(|fragment| self.contributed.get(&(node, fragment)));
            let most = counts.flatten().copied().max().unwrap_or(0);
            if most == 0 {
                return Err(format!("node {node} contributed nothing since faults ended"));
            }
            if !alone && most >= MERGED_OF && !self.merged.contains(&id) {
                return Err(format!(
                    "nobody merged what node {node} contributed since faults ended, {most} times \
                     to one fragment"
                ));
            }
        }
        Ok(())
    }

    /// Whether a node may sign for a round that is open: one whose history lost has signed for
    /// rounds that the surviving history comes to only later, and never signs for them again.
    fn may_sign(&self, world: &dyn World, node: NodeIndex) -> bool {
        fragments(world).any(|fragment| {
            let signed = self.signed.get(&(node, fragment)).copied().unwrap_or(0);
            world.status(node, fragment).is_some_and(|status| status.version >= signed)
        })
    }

    fn is_eligible(&self, world: &dyn World, node: NodeIndex) -> bool {
        let id = world.node_id(node);
        let newest = fragments(world)
            .filter_map(|fragment| world.status(node, fragment))
            .map(|status| status.version)
            .max();
        let listed = match &world.genesis().roster {
            RosterPolicy::Open => true,
            RosterPolicy::Closed { nodes, .. } => nodes.contains(&id),
            RosterPolicy::Invite { .. } => {
                self.invited.get(&id).is_some_and(|last| newest.is_none_or(|newest| newest < *last))
            }
        };
        listed && !self.refused.contains(&id)
    }
}

impl Answers {
    fn forget(&mut self, world: &dyn World, node: NodeIndex) {
        for fragment in fragments(world) {
            self.steps.remove(&(node, fragment));
            self.open.remove(&(node, fragment));
            self.captures.remove(&(node, fragment));
        }
    }

    fn input(&mut self, world: &dyn World, node: NodeIndex, input: &Input) {
        match input {
            Input::Captured { fragment, steps_since, .. } => {
                self.steps.insert((node, *fragment), *steps_since);
                self.captures.remove(&(node, *fragment));
            }
            Input::Stepped { .. } => {
                let caught_up = world.standing(node) == Some(Standing::CaughtUp);
                let enough = world.genesis().rounds.steps_min.saturating_add(STEPS_SLACK);
                for fragment in fragments(world) {
                    let key = (node, fragment);
                    let steps = self.steps.entry(key).or_default();
                    *steps += 1;
                    if *steps < enough || !caught_up || self.captures.contains(&key) {
                        continue;
                    }
                    let next = world.status(node, fragment).map(|status| status.version + 1);
                    if self.open.get(&key).is_some_and(|round| Some(round.number) == next) {
                        self.missed += 1;
                        self.open.remove(&key);
                    }
                }
            }
            _ => {}
        }
    }

    fn output(&mut self, world: &dyn World, node: NodeIndex, output: &Output) {
        match output {
            Output::Capture { fragment } => {
                self.captures.insert((node, *fragment));
            }
            Output::Report(Report::Opened { round, author }) if *author != world.node_id(node) => {
                let key = (node, round.fragment);
                if self.done.get(&key).is_none_or(|done| *done < round.number) {
                    self.open.insert(key, *round);
                }
            }
            Output::Report(Report::Contributed { round, steps, .. }) => {
                self.open.remove(&(node, round.fragment));
                self.done.insert((node, round.fragment), round.number);
                // An island that had made its own full share would have come anyway.
                self.answered += u64::from(*steps < world.genesis().rounds.steps);
            }
            Output::Report(Report::Closed { round, .. }) => {
                self.open.remove(&(node, round.fragment));
            }
            _ => {}
        }
    }
}

/// Steps past `steps_min` after which an answer is overdue.
const STEPS_SLACK: u32 = 3;
/// Of so many contributions to one fragment somebody must have merged one; the last may be late.
const MERGED_OF: u64 = 3;
/// Fewer unanswered rounds than this can be bad luck.
const MISSED_MIN: u64 = 6;

#[cfg(test)]
mod tests {
    use atoll_protocol::outer::{Cut, CutMember};

    use super::*;
    use crate::check::fake::{FakeWorld, status};

    const FRAGMENT: FragmentId = FragmentId(0);

    fn healed(world: &mut FakeWorld) -> Liveness {
        for node in 0..2 {
            world.set(node, FRAGMENT, status(FRAGMENT, 3, 7, 1));
        }
        let mut checker = Liveness::new(Expect::default());
        assert_eq!(checker.observe(world, &Event::Healed), Ok(()));
        checker
    }

    fn contributes(world: &FakeWorld, checker: &mut Liveness, node: NodeIndex, round: Version) {
        let header = world.signed(node, round, 100, crate::check::fake::RUN).body;
        let contributed = Output::Report(Report::Contributed {
            round: header.round_id(),
            id: header.id(),
            tokens: 100,
            steps: 8,
            answer: false,
        });
        assert_eq!(checker.observe(world, &Event::Output(node, &contributed)), Ok(()));
    }

    fn takes_part(world: &FakeWorld, checker: &mut Liveness, node: NodeIndex) {
        contributes(world, checker, node, 5);
        is_folded(world, checker, node, 5);
    }

    fn is_folded(world: &FakeWorld, checker: &mut Liveness, node: NodeIndex, round: Version) {
        let header = world.signed(node, round, 100, crate::check::fake::RUN).body;
        let (id, author) = (header.id(), header.author);
        let member = CutMember { id, author, tokens: 100, payload: header.payload };
        let cuts = vec![Cut { round, members: vec![member] }];
        let fold = Output::Materialise { fragment: FRAGMENT, cuts };
        assert_eq!(checker.observe(world, &Event::Output(1 - node, &fold)), Ok(()));
    }

    #[test]
    fn a_swarm_that_goes_on_passes() {
        let mut world = FakeWorld::new(2);
        let mut checker = healed(&mut world);
        assert!(checker.finish(&world).is_err(), "nobody advanced");
        for node in 0..2 {
            world.set(node, FRAGMENT, status(FRAGMENT, 5, 7, 1));
        }
        assert!(checker.finish(&world).is_err(), "nobody contributed");
        takes_part(&world, &mut checker, 0);
        assert!(checker.finish(&world).is_err(), "node 1 did not contribute");
        takes_part(&world, &mut checker, 1);
        assert_eq!(checker.finish(&world), Ok(()));
        world.standings[1] = Standing::Joining;
        assert!(checker.finish(&world).is_err(), "node 1 joins for ever");
    }

    #[test]
    fn work_from_before_the_heal_is_no_sign_of_life() {
        let mut world = FakeWorld::new(2);
        let mut checker = healed(&mut world);
        for node in 0..2 {
            world.set(node, FRAGMENT, status(FRAGMENT, 7, 7, 1));
        }
        takes_part(&world, &mut checker, 0);
        (5..8).for_each(|round| contributes(&world, &mut checker, 1, round));
        is_folded(&world, &mut checker, 1, 4);
        assert!(checker.finish(&world).unwrap_err().contains("nobody merged"));
        is_folded(&world, &mut checker, 1, 7);
        assert_eq!(checker.finish(&world), Ok(()));
    }

    #[test]
    fn rounds_that_nobody_answers_are_seen() {
        let mut world = FakeWorld::new(2);
        let mut checker = healed(&mut world);
        takes_part(&world, &mut checker, 0);
        takes_part(&world, &mut checker, 1);
        for number in 6..6 + 6 {
            for node in 0..2 {
                world.set(node, FRAGMENT, status(FRAGMENT, number - 1, 7, 1));
            }
            let round = RoundId { fragment: FRAGMENT, number };
            let opened = Output::Report(Report::Opened { round, author: world.node_id(1) });
            assert_eq!(checker.observe(&world, &Event::Output(0, &opened)), Ok(()));
            for _ in 0..8 {
                let step = Input::Stepped { tokens: 1, step_ms: 1 };
                assert_eq!(checker.observe(&world, &Event::Input(0, &step)), Ok(()));
            }
        }
        assert!(checker.finish(&world).unwrap_err().contains("unanswered 6"));
    }
}
