//! Every trained token is merged, pending, fresh, re-issued or orphaned, exactly once.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::contribution::Header;
use atoll_protocol::engine::{FragmentStatus, Input, Output, Record};
use atoll_protocol::id::{ContentId, ContributionId, FragmentId, RoundId, Version};

use super::lineage::Lineage;
use super::{Checker, Event, NodeIndex, World, fragments, settled, shares_key};

/// Nothing is lost and nothing counts twice, neither in the counters nor in the parameters.
#[derive(Debug, Default)]
pub struct Accounting {
    lineage: Lineage,
    own: BTreeMap<(NodeIndex, FragmentId), Own>,
    checks: u64,
}

/// One island's own account of a fragment.
#[derive(Debug, Default)]
struct Own {
    /// Tokens the engine called trained when the node started, and those of steps since.
    trained: Option<u64>,
    /// In the order they were signed. Two may have the same payload: an island that starts over
    /// makes it again.
    contributions: Vec<Contribution>,
    /// Members of the last fold.
    folded: BTreeSet<ContributionId>,
    /// The newest base it ever had.
    base: Version,
}

#[derive(Clone, Copy, Debug)]
struct Contribution {
    id: ContributionId,
    payload: ContentId,
    round: RoundId,
    tokens: u64,
    content: Content,
    /// Its content came back to fresh. From then on its tokens count in the next contribution,
    /// also if a history that holds this one survives in the end.
    again: Again,
    /// Survivors no longer remember its round, and by then had another history than this node:
    /// it cannot tell whether it was merged.
    unknowable: bool,
}

impl Contribution {
    /// Whether its round is a whole horizon below `base`.
    fn is_past(&self, base: Version, horizon: Version) -> bool {
        self.round.number.saturating_add(horizon) <= base
    }
}

/// Whether what a contribution holds can come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    OnDisk,
    /// The engine gave it up. A crash may come before that is done.
    GivenUp,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    /// It is for the next contribution.
    Next,
    /// It is in this contribution.
    In(ContributionId),
}

impl Checker for Accounting {
    fn name(&self) -> &'static str {
        "accounting"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        let Some(node) = event.node().filter(|&node| world.is_honest(node)) else { return Ok(()) };
        match event {
            Event::Started(_) => {
                self.lineage.restart(world, node);
                for fragment in fragments(world) {
                    let own = self.own(node, fragment);
                    own.trained = None;
                    if let Some(status) = world.status(node, fragment) {
                        own.forget_lost(&status);
                    }
                }
                fragments(world).try_for_each(|fragment| self.look(world, node, fragment))
            }
            Event::Input(_, input) => self.input(world, node, input),
            // What the engine counts goes by what it decided: adoptions may be executed before the
            // records they follow are durable.
            Event::Decided(_, output) => self.decided(world, node, output),
            Event::Output(_, Output::Prune { fragment, payloads, .. }) => {
                self.own(node, *fragment).gone(payloads);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, world: &dyn World) -> Result<(), String> {
        for node in settled(world) {
            for fragment in fragments(world) {
                self.look(world, node, fragment)?;
                self.conserved(world, node, fragment)?;
                self.merged(world, node, fragment)?;
            }
        }
        Ok(())
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Accounting {
    fn own(&mut self, node: NodeIndex, fragment: FragmentId) -> &mut Own {
        self.own.entry((node, fragment)).or_default()
    }

    fn input(&mut self, world: &dyn World, node: NodeIndex, input: &Input) -> Result<(), String> {
        match input {
            Input::Stepped { tokens, .. } => fragments(world).try_for_each(|fragment| {
                self.look(world, node, fragment)?;
                let own = self.own(node, fragment);
                own.trained = own.trained.map(|trained| trained.saturating_add(*tokens));
                Ok(())
            }),
            Input::Adopted { fragment, .. } => {
                self.look(world, node, *fragment)?;
                self.conserved(world, node, *fragment)
            }
            Input::Captured { fragment, .. }
            | Input::Materialised { fragment, .. }
            | Input::Stabilised { fragment, .. }
            | Input::Installed { fragment, .. } => self.look(world, node, *fragment),
            _ => Ok(()),
        }
    }

    fn decided(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        output: &Output,
    ) -> Result<(), String> {
        if let Output::Persist(Record::Installed { history, .. }) = output {
            let (_, trail) = self.lineage.base(node, history.fragment);
            if !self.lineage.descends(history.fragment, trail, history.root_trail) {
                self.own(node, history.fragment).forget_below(history.root);
            }
        }
        self.lineage.observe(node, output, world.genesis().merge.weight_cap);
        match output {
            Output::Persist(Record::Contribution(signed))
                if signed.body.author == world.node_id(node) =>
            {
                let header = signed.body;
                self.own(node, header.fragment).signed(&header);
                Ok(())
            }
            Output::Materialise { fragment, cuts } => {
                self.own(node, *fragment).folded =
                    cuts.iter().flat_map(|cut| &cut.members).map(|member| member.id).collect();
                Ok(())
            }
            Output::Prune { fragment, through, payloads, .. } => {
                self.checks += 1;
                let horizon = world.genesis().rounds.horizon;
                let early = self.own(node, *fragment).give_up(payloads, *through, horizon);
                // What comes back to one of two nodes with one key is not followed here.
                let early = early.filter(|_| !shares_key(world, node));
                early.map_or(Ok(()), |round| {
                    Err(format!(
                        "node {node} drops its contribution to {round}, which may have to be \
                         issued again, at base {through} of a horizon of {horizon}"
                    ))
                })
            }
            Output::Adopt { fragment, pending, reissued, .. } => {
                if shares_key(world, node) {
                    return Ok(());
                }
                self.adopts(node, *fragment, pending, reissued)
            }
            _ => Ok(()),
        }
    }

    /// What the island is told to adopt: each own contribution must be somewhere.
    fn adopts(
        &mut self,
        node: NodeIndex,
        fragment: FragmentId,
        pending: &[ContentId],
        reissued: &[ContentId],
    ) -> Result<(), String> {
        let (_, base_trail) = self.lineage.base(node, fragment);
        let own = self.own.entry((node, fragment)).or_default();
        own.reissued(reissued);
        let mut stable: Option<Option<Vec<ContributionId>>> = None;
        for contribution in &own.contributions {
            self.checks += 1;
            if contribution.content != Content::OnDisk
                || contribution.again != Again::No
                || pending.contains(&contribution.payload)
                || own.folded.contains(&contribution.id)
            {
                continue;
            }
            let stable =
                stable.get_or_insert_with(|| self.lineage.contents(fragment, base_trail)).as_ref();
            if stable.is_some_and(|stable| !stable.contains(&contribution.id)) {
                return Err(format!(
                    "node {node} adopts {fragment} with its contribution {} to {} ({} tokens) \
                     neither merged nor pending nor issued again",
                    contribution.id, contribution.round, contribution.tokens
                ));
            }
        }
        Ok(())
    }

    fn look(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
    ) -> Result<(), String> {
        let Some(status) = world.status(node, fragment) else { return Ok(()) };
        self.checks += 1;
        let fates = status.fates;
        let parts = [fates.merged, fates.pending, fates.fresh, fates.reissued, fates.orphaned];
        let sum = parts.iter().fold(0u64, |sum, &part| sum.saturating_add(part));
        if sum != fates.trained {
            return Err(format!(
                "fates of {fragment} on node {node} make {sum}, not {}: {fates:?}",
                fates.trained
            ));
        }
        let horizon = world.genesis().rounds.horizon;
        let own = self.own(node, fragment);
        own.base = own.base.max(status.base);
        let lost = own.may_be_lost(horizon);
        if fates.orphaned > lost && !shares_key(world, node) {
            return Err(format!(
                "node {node} gave up {} tokens of {fragment}, of which at most {lost} were past \
                 the horizon",
                fates.orphaned
            ));
        }
        let trained = *self.own(node, fragment).trained.get_or_insert(fates.trained);
        if trained != fates.trained {
            return Err(format!(
                "node {node} trained {trained} tokens with {fragment} and counts {}",
                fates.trained
            ));
        }
        Ok(())
    }

    fn conserved(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
    ) -> Result<(), String> {
        let Some(error) = world.conservation(node, fragment) else { return Ok(()) };
        self.checks += 1;
        if error.is_finite() && error <= CONSERVATION_ERROR_MAX {
            return Ok(());
        }
        Err(format!(
            "parameters of {fragment} on node {node} are {error:.3e} of its movement away from \
             outer + pending + fresh"
        ))
    }

    /// The counter `merged` against the history that all agreed on.
    fn merged(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
    ) -> Result<(), String> {
        let Some(status) = world.status(node, fragment) else { return Ok(()) };
        if shares_key(world, node) {
            return Ok(());
        }
        let Some(contents) = self.lineage.contents(fragment, status.head_trail) else {
            return Ok(());
        };
        let contents: BTreeSet<ContributionId> = contents.into_iter().collect();
        let (mut known, mut unknowable) = (0, 0);
        for it in &self.own(node, fragment).contributions {
            if it.again == Again::No && contents.contains(&it.id) {
                *if it.unknowable { &mut unknowable } else { &mut known } += it.tokens;
            }
        }
        self.checks += 1;
        let merged = status.fates.merged;
        if (known..=known + unknowable).contains(&merged) {
            return Ok(());
        }
        Err(format!(
            "node {node} counts {merged} merged tokens of {fragment}, the history holds {known} \
             and {unknowable} that it cannot know of"
        ))
    }
}

impl Own {
    /// A contribution was signed: it holds what came back before.
    fn signed(&mut self, header: &Header) {
        let (id, payload, round) = (header.id(), header.payload, header.round_id());
        if self.contributions.iter().any(|it| it.id == id) {
            return;
        }
        for contribution in &mut self.contributions {
            if contribution.again == Again::Next {
                contribution.again = Again::In(id);
            }
        }
        self.contributions.push(Contribution {
            id,
            payload,
            round,
            tokens: header.tokens,
            content: Content::OnDisk,
            again: Again::No,
            unknowable: false,
        });
    }

    /// The content of these payloads goes, and can no longer be issued again. Returns the round
    /// of one that might still have to be.
    fn give_up(
        &mut self,
        payloads: &[ContentId],
        through: Version,
        horizon: Version,
    ) -> Option<RoundId> {
        let mut early = None;
        for contribution in &mut self.contributions {
            if contribution.content != Content::OnDisk || !payloads.contains(&contribution.payload)
            {
                continue;
            }
            contribution.content = Content::GivenUp;
            if contribution.again == Again::No && !contribution.is_past(through, horizon) {
                early = Some(contribution.round);
            }
        }
        early
    }

    /// What was given up is no longer on the disk.
    fn gone(&mut self, payloads: &[ContentId]) {
        let given_up = |it: &&mut Contribution| it.content == Content::GivenUp;
        for contribution in self.contributions.iter_mut().filter(given_up) {
            if payloads.contains(&contribution.payload) {
                contribution.content = Content::Gone;
            }
        }
    }

    /// Tokens of contributions whose content need not be there any more.
    fn may_be_lost(&self, horizon: Version) -> u64 {
        let past =
            |it: &&Contribution| it.content != Content::OnDisk || it.is_past(self.base, horizon);
        self.contributions.iter().filter(past).map(|it| it.tokens).sum()
    }

    /// The history installed remembers nothing at or below `root`, and had parted from the one
    /// before by then.
    fn forget_below(&mut self, root: Version) {
        for contribution in &mut self.contributions {
            contribution.unknowable |= contribution.round.number <= root;
        }
    }

    /// These payloads come back; of two that are equal the later, which is not merged yet.
    fn reissued(&mut self, payloads: &[ContentId]) {
        for payload in payloads {
            let mut newest = self.contributions.iter_mut().rev();
            let found = newest.find(|it| it.payload == *payload && it.again == Again::No);
            if let Some(contribution) = found {
                contribution.again = Again::Next;
            }
        }
    }

    /// After a restart: what was signed after the last capture that the engine remembers never
    /// reached the disk, and what it held is where it was before. An engine that remembers none
    /// has pruned all, and what it prunes is below its base.
    fn forget_lost(&mut self, status: &FragmentStatus) {
        let last = status.last_capture;
        let last = self.contributions.iter().rposition(|it| Some(it.payload) == last);
        let mut place = 0..;
        let (kept, lost) = self.contributions.iter().partition(|it| {
            let place = place.next();
            last.map_or(it.round.number <= status.base, |last| place <= Some(last))
        });
        let lost: Vec<Contribution> = lost;
        self.contributions = kept;
        for contribution in &mut self.contributions {
            if contribution.content == Content::GivenUp {
                contribution.content = Content::OnDisk;
            }
            if match contribution.again {
                Again::No => false,
                Again::Next => true,
                Again::In(id) => lost.iter().any(|it| it.id == id),
            } {
                contribution.again = Again::No;
            }
        }
    }
}

/// What f32 rounding over a long run may add up to.
const CONSERVATION_ERROR_MAX: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use atoll_protocol::engine::Fates;

    use super::*;
    use crate::check::fake::{FakeWorld, status};

    const FRAGMENT: FragmentId = FragmentId(0);

    fn fates(trained: u64, pending: u64, fresh: u64) -> Fates {
        Fates { trained, pending, fresh, ..Fates::default() }
    }

    fn set(world: &mut FakeWorld, fates: Fates) {
        let mut status = status(FRAGMENT, 0, 0, 0);
        status.fates = fates;
        status.head_trail = super::super::lineage::root_trail(FRAGMENT);
        world.set(0, FRAGMENT, status);
    }

    #[test]
    fn fates_add_up_to_the_steps_really_made() {
        let mut world = FakeWorld::new(1);
        let mut checker = Accounting::default();
        let step = Input::Stepped { tokens: 100, step_ms: 10 };
        set(&mut world, fates(0, 0, 0));
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Input(0, &step)), Ok(()));
        set(&mut world, fates(100, 60, 40));
        assert_eq!(checker.observe(&world, &Event::Input(0, &step)), Ok(()));
        set(&mut world, fates(200, 60, 100));
        assert!(checker.observe(&world, &Event::Input(0, &step)).is_err());
        set(&mut world, fates(150, 60, 90));
        assert!(checker.observe(&world, &Event::Input(0, &step)).is_err());
    }

    #[test]
    fn a_contribution_that_is_nowhere_is_seen() {
        let world = FakeWorld::new(1);
        let mut checker = Accounting::default();
        let persist = world.persist(0, 1, 100);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &persist)), Ok(()));
        let adopt = |pending: &[ContentId], reissued: &[ContentId]| Output::Adopt {
            fragment: FRAGMENT,
            version: 1,
            pending: pending.to_vec(),
            reissued: reissued.to_vec(),
        };
        let payload = ContentId([1; 32]);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &adopt(&[payload], &[]))), Ok(()));
        assert!(checker.observe(&world, &Event::Decided(0, &adopt(&[], &[]))).is_err());
        assert_eq!(checker.observe(&world, &Event::Decided(0, &adopt(&[], &[payload]))), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &adopt(&[], &[]))), Ok(()));
    }

    #[test]
    fn what_may_have_to_be_issued_again_is_kept_for_a_horizon() {
        let mut world = FakeWorld::new(1);
        world.genesis.rounds.horizon = 4;
        let prune = |through| Output::Prune {
            fragment: FRAGMENT,
            through,
            own_through: 0,
            payloads: vec![ContentId([1; 32])],
        };
        let signed = |world: &FakeWorld| {
            let mut checker = Accounting::default();
            let persist = world.persist(0, 3, 100);
            assert_eq!(checker.observe(world, &Event::Decided(0, &persist)), Ok(()));
            checker
        };
        assert!(signed(&world).observe(&world, &Event::Decided(0, &prune(6))).is_err());
        let mut checker = signed(&world);
        let lost = Fates { trained: 100, orphaned: 100, ..Fates::default() };
        set(&mut world, lost);
        let step = Input::Stepped { tokens: 0, step_ms: 10 };
        assert!(checker.observe(&world, &Event::Input(0, &step)).is_err(), "its content is here");
        assert_eq!(checker.observe(&world, &Event::Decided(0, &prune(7))), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Input(0, &step)), Ok(()));
        set(&mut world, Fates { trained: 101, orphaned: 101, ..Fates::default() });
        assert!(checker.observe(&world, &Event::Input(0, &step)).is_err(), "more than there was");
    }

    #[test]
    fn what_was_given_up_is_there_again_after_a_crash_that_came_before_it_was_gone() {
        let mut world = FakeWorld::new(1);
        world.genesis.rounds.horizon = 4;
        let payloads = vec![ContentId([1; 32])];
        let prune = Output::Prune { fragment: FRAGMENT, through: 7, own_through: 0, payloads };
        let adopt =
            Output::Adopt { fragment: FRAGMENT, version: 1, pending: vec![], reissued: vec![] };
        for (gone, fine) in [(false, false), (true, true)] {
            let mut checker = Accounting::default();
            for output in [&world.persist(0, 3, 100), &prune] {
                assert_eq!(checker.observe(&world, &Event::Decided(0, output)), Ok(()));
            }
            if gone {
                assert_eq!(checker.observe(&world, &Event::Output(0, &prune)), Ok(()));
            }
            let mut status = status(FRAGMENT, 0, 0, 0);
            status.last_capture = Some(ContentId([1; 32]));
            world.set(0, FRAGMENT, status);
            assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
            assert_eq!(checker.observe(&world, &Event::Decided(0, &adopt)).is_ok(), fine);
        }
    }

    #[test]
    fn what_a_crash_took_holds_nothing() {
        let mut world = FakeWorld::new(1);
        let mut checker = Accounting::default();
        let adopt = |pending: &[ContentId], reissued: &[ContentId]| Output::Adopt {
            fragment: FRAGMENT,
            version: 1,
            pending: pending.to_vec(),
            reissued: reissued.to_vec(),
        };
        let (first, second) = (ContentId([1; 32]), ContentId([2; 32]));
        let mut successor = world.persist(0, 2, 150);
        if let Output::Persist(Record::Contribution(signed)) = &mut successor {
            signed.body.payload = second;
        }
        let outputs = [world.persist(0, 1, 100), adopt(&[], &[first]), successor];
        for output in &outputs {
            assert_eq!(checker.observe(&world, &Event::Decided(0, output)), Ok(()));
        }
        assert_eq!(checker.observe(&world, &Event::Decided(0, &adopt(&[second], &[]))), Ok(()));
        let mut status = status(FRAGMENT, 0, 0, 0);
        status.last_capture = Some(first);
        world.set(0, FRAGMENT, status);
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &adopt(&[first], &[]))), Ok(()));
        assert!(checker.observe(&world, &Event::Decided(0, &adopt(&[], &[]))).is_err());
    }

    #[test]
    fn parameters_and_merged_tokens_are_checked_at_the_end() {
        let mut world = FakeWorld::new(1);
        let mut checker = Accounting::default();
        set(&mut world, fates(100, 60, 40));
        world.error = Some(1e-6);
        assert_eq!(checker.finish(&world), Ok(()));
        world.error = Some(0.2);
        assert!(checker.finish(&world).is_err());
        world.error = None;
        set(&mut world, Fates { trained: 100, merged: 60, fresh: 40, ..Fates::default() });
        assert!(checker.finish(&world).is_err());
    }
}
