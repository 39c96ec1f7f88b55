//! No round closes below quorum, and none before its grace window is over.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::engine::{CloseReason, Input, Output, Record, Report};
use atoll_protocol::frontier::Standing;
use atoll_protocol::genesis::{RosterPolicy, Rounds};
use atoll_protocol::id::{NodeId, RoundId, RunId, Version};
use atoll_protocol::time::{Span, Time};

use super::heard::{Heard, Peer};
use super::{Checker, Event, NodeIndex, World};

/// Rounds close with enough contributions, for a reason that holds.
#[derive(Debug)]
pub struct Quorum {
    heard: Heard,
    /// When each author's contribution to a round was here.
    arrivals: BTreeMap<NodeIndex, BTreeMap<RoundId, BTreeMap<NodeId, Time>>>,
    /// When each node surely had too few contributions to a round for the last time.
    unmet: BTreeMap<NodeIndex, BTreeMap<RoundId, Time>>,
    /// Whom each node has reason to refuse.
    refused: BTreeMap<NodeIndex, BTreeSet<NodeId>>,
    /// The last round that each node knows another to be invited to.
    invited: BTreeMap<NodeIndex, BTreeMap<NodeId, Version>>,
    /// When each node's island last finished a step.
    stepped: BTreeMap<NodeIndex, Time>,
    checks: u64,
}

impl Quorum {
    /// For contributions to `run`.
    pub fn new(run: RunId) -> Self {
        Self {
            heard: Heard::new(run),
            arrivals: BTreeMap::new(),
            unmet: BTreeMap::new(),
            refused: BTreeMap::new(),
            invited: BTreeMap::new(),
            stepped: BTreeMap::new(),
            checks: 0,
        }
    }
}

impl Checker for Quorum {
    fn name(&self) -> &'static str {
        "quorum"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        self.heard.observe(world, event);
        // What is decided may be lost in a crash, so pruning counts only once it is done.
        let (node, output) = match event {
            Event::Decided(_, Output::Prune { .. }) => return Ok(()),
            Event::Output(node, output @ Output::Prune { .. }) => (node, output),
            Event::Decided(node, output) => (node, output),
            Event::Started(node) | Event::Input(node, Input::Stepped { .. }) => {
                self.stepped.insert(*node, world.now());
                return Ok(());
            }
            _ => return Ok(()),
        };
        if !world.is_honest(*node) {
            return Ok(());
        }
        match output {
            Output::Persist(Record::Contribution(signed)) => {
                self.arrived(world, *node, signed.body.round_id(), signed.body.author);
                Ok(())
            }
            // What another node signed with our key counts, but is not written down.
            Output::Report(Report::Admitted { round, author, .. })
                if *author == world.node_id(*node) =>
            {
                self.arrived(world, *node, *round, *author);
                Ok(())
            }
            Output::Persist(Record::Evidence(evidence)) => {
                self.refused.entry(*node).or_default().insert(evidence.author());
                Ok(())
            }
            Output::Persist(Record::Revocation(revocation)) => {
                self.refused.entry(*node).or_default().insert(revocation.body.node);
                Ok(())
            }
            Output::Persist(Record::Invite(invite)) => {
                let invited = self.invited.entry(*node).or_default();
                let last = invited.entry(invite.body.node).or_default();
                *last = (*last).max(invite.body.last_round);
                Ok(())
            }
            Output::Prune { fragment, through, own_through, .. } => {
                let own = world.node_id(*node);
                for (round, authors) in self.arrivals.entry(*node).or_default() {
                    if round.fragment == *fragment && round.number <= *through {
                        // Own ones are kept longer, and count again if a snapshot takes a node
                        // back to before their round.
                        authors.retain(|author, _| *author == own && round.number > *own_through);
                    }
                }
                let unmet = self.unmet.entry(*node).or_default();
                unmet.retain(|round, _| round.fragment != *fragment || round.number > *through);
                Ok(())
            }
            Output::Report(Report::Closed { round, have, need, reason }) => {
                self.checks += 1;
                self.closed(world, *node, *round, (*have, *need), *reason)
                    .map_err(|why| format!("node {node} closed {round}: {why}"))
            }
            _ => Ok(()),
        }
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Quorum {
    /// A contribution is here. The engine looks at once whether that makes a quorum.
    fn arrived(&mut self, world: &dyn World, node: NodeIndex, round: RoundId, author: NodeId) {
        let rounds = self.arrivals.entry(node).or_default();
        let authors = rounds.entry(round).or_default();
        authors.entry(author).or_insert(world.now());
        let have = count(authors.len());
        if have >= needed(&world.genesis().rounds, count(world.nodes())) {
            return;
        }
        let authors = self.arrivals.get(&node).and_then(|arrivals| arrivals.get(&round));
        if have < self.live(world, node, round).least(world, round, authors) {
            self.unmet.entry(node).or_default().insert(round, world.now());
        }
    }

    fn closed(
        &self,
        world: &dyn World,
        node: NodeIndex,
        round: RoundId,
        (have, need): (u32, u32),
        reason: CloseReason,
    ) -> Result<(), String> {
        let rounds = &world.genesis().rounds;
        let authors = self.arrivals.get(&node).and_then(|arrivals| arrivals.get(&round));
        let mut arrivals: Vec<Time> =
            authors.into_iter().flat_map(BTreeMap::values).copied().collect();
        arrivals.sort_unstable();
        let live = self.live(world, node, round);
        let least = live.least(world, round, authors);
        let Live { surely, islands: live } = live;
        // Whoever follows most of the swarm relies on their quorum.
        let follows = matches!(reason, CloseReason::Peers { .. });
        if !follows && have < need || need < needed(rounds, 0) {
            return Err(format!(
                "{have} contributions, {need} needed, minimum {}",
                needed(rounds, 0)
            ));
        }
        if !follows && have < least {
            return Err(format!(
                "{have} contributions, but {live} live islands make {least} necessary"
            ));
        }
        let here = count(arrivals.len());
        if here < have {
            return Err(format!("it counts {have} contributions and holds {here}"));
        }
        match reason {
            CloseReason::Grace { waited, window } => {
                // The quorum may have grown with every contribution that came, and yet have been
                // met all the time: only below the minimum it surely was not.
                let least = usize::try_from(needed(rounds, 0) - 1).unwrap_or(usize::MAX);
                let met = arrivals.get(least);
                let since = met.map_or(Span(0), |met| world.now().since(*met));
                let unmet = self.unmet.get(&node).and_then(|rounds| rounds.get(&round));
                let since = unmet.map_or(since, |unmet| since.min(world.now().since(*unmet)));
                grace(rounds, waited, window, since)
            }
            CloseReason::Everyone => {
                let missing = surely.iter().find(|(island, peer)| {
                    peer.version(round.fragment).is_some_and(|version| version + 1 >= round.number)
                        && !authors.is_some_and(|authors| authors.contains_key(island))
                });
                missing.map_or(Ok(()), |(island, _)| {
                    Err(format!("everyone had contributed, it says, but not {island}"))
                })
            }
            CloseReason::Peers { closed } => self.followed(world, node, round, closed, live),
        }
    }

    /// Most of the swarm, as the node must have seen it, had closed the round.
    fn followed(
        &self,
        world: &dyn World,
        node: NodeIndex,
        round: RoundId,
        closed: u32,
        live: u32,
    ) -> Result<(), String> {
        // A clock that runs slow makes the window longer.
        let within = Span(world.genesis().rounds.alive_ms * 20 / 19 + CLOCK_SLACK_MS);
        let told = count(self.heard.closed_by(world, node, round, within));
        if told < closed {
            return Err(format!("{closed} peers had, it says, but only {told} told it so"));
        }
        let most = live / 2 + 1;
        if closed < most {
            return Err(format!("{closed} peers had, but most of {live} live islands are {most}"));
        }
        Ok(())
    }

    /// The decision was made before its report comes out: only islands that spoke within half an
    /// alive window, and have taken part for a while, surely counted then.
    fn live(&self, world: &dyn World, node: NodeIndex, round: RoundId) -> Live<'_> {
        let window = Span(world.genesis().rounds.alive_ms / 2);
        let islands = self.heard.islands(world, node, window);
        let surely: Vec<(&NodeId, &Peer)> = islands
            .filter(|(island, peer)| {
                peer.steps
                    && world.now().since(peer.since) >= SETTLED
                    && self.admits(world, node, island, round)
            })
            .collect();
        let caught_up = world.standing(node) == Some(Standing::CaughtUp);
        let stepped = self.stepped.get(&node);
        let steps = stepped.is_some_and(|stepped| world.now().since(*stepped) <= window);
        let own = u32::from(world.trains(node) && caught_up && steps);
        let islands = count(surely.len()).saturating_add(own);
        Live { surely, islands }
    }

    /// Whether `node` knows that `island` may contribute to `round`.
    fn admits(&self, world: &dyn World, node: NodeIndex, island: &NodeId, round: RoundId) -> bool {
        let refused = self.refused.get(&node).is_some_and(|refused| refused.contains(island));
        let listed = match &world.genesis().roster {
            RosterPolicy::Open => true,
            RosterPolicy::Closed { nodes, .. } => nodes.contains(island),
            RosterPolicy::Invite { .. } => {
                let last = self.invited.get(&node).and_then(|invited| invited.get(island));
                last.is_some_and(|last| round.number <= *last)
            }
        };
        listed && !refused
    }
}

/// Whom a node surely counted.
struct Live<'a> {
    /// The others.
    surely: Vec<(&'a NodeId, &'a Peer)>,
    /// How many they are, with the node's own island.
    islands: u32,
}

impl Live<'_> {
    /// The quorum of those who had contributed or might still have.
    fn least(
        &self,
        world: &dyn World,
        round: RoundId,
        authors: Option<&BTreeMap<NodeId, Time>>,
    ) -> u32 {
        let is_past = |(island, peer): &&(&NodeId, &Peer)| {
            peer.version(round.fragment).is_some_and(|version| version >= round.number)
                && !authors.is_some_and(|authors| authors.contains_key(*island))
        };
        let past = count(self.surely.iter().filter(is_past).count());
        needed(&world.genesis().rounds, self.islands.saturating_sub(past))
    }
}

fn grace(rounds: &Rounds, waited: Span, window: Span, since: Span) -> Result<(), String> {
    if waited < window || window.0 < rounds.grace_ms_min || window.0 > rounds.grace_ms_max {
        return Err(format!(
            "waited {} ms of a window of {} ms, allowed {} to {} ms",
            waited.0, window.0, rounds.grace_ms_min, rounds.grace_ms_max
        ));
    }
    // Clocks of simulated nodes run fast or slow by a few percent.
    if since.0.saturating_mul(5) / 4 + CLOCK_SLACK_MS < waited.0 {
        return Err(format!(
            "says it waited {} ms after quorum, but quorum was met at most {} ms ago",
            waited.0, since.0
        ));
    }
    Ok(())
}

/// The quorum of `live` islands, written a second time so that a mistake shows.
fn needed(rounds: &Rounds, live: u32) -> u32 {
    let share = (u64::from(live) * u64::from(rounds.quorum_percent)).div_ceil(100);
    u32::try_from(share).unwrap_or(u32::MAX).max(rounds.quorum_min).max(1)
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// How long a node must have known an island for it to count surely: longer than any write that
/// holds outputs back.
const SETTLED: Span = Span::seconds(3);
/// What rounding and the time between an input and its outputs may add.
const CLOCK_SLACK_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use atoll_protocol::engine::Input;
    use atoll_protocol::id::FragmentId;

    use super::*;
    use crate::check::fake::{FakeWorld, RUN};

    fn close(have: u32, need: u32, reason: CloseReason) -> Output {
        let round = RoundId { fragment: FragmentId(0), number: 1 };
        Output::Report(Report::Closed { round, have, need, reason })
    }

    fn waited(span: u64) -> CloseReason {
        CloseReason::Grace { waited: Span(span), window: Span(span.max(100)) }
    }

    /// A checker that saw contributions of nodes 0 and 1 on node 0, and heard nodes 1 to 5.
    fn seen(world: &mut FakeWorld, others: usize) -> Quorum {
        let mut checker = Quorum::new(RUN);
        for node in 0..2 {
            let output = world.persist(node, 1, 100);
            assert_eq!(checker.observe(world, &Event::Decided(0, &output)), Ok(()));
        }
        for node in 1..=others {
            let bytes = world.frontier(node, 1, 0);
            let input = Input::Received { from: world.node_id(node), bytes, receipt: 0 };
            assert_eq!(checker.observe(world, &Event::Input(0, &input)), Ok(()));
        }
        world.now = Time(3500);
        let stepped = Input::Stepped { tokens: 32, step_ms: 100 };
        assert_eq!(checker.observe(world, &Event::Input(0, &stepped)), Ok(()));
        checker
    }

    #[test]
    fn a_quorate_round_may_close_after_its_grace() {
        let mut world = FakeWorld::new(6);
        let mut checker = seen(&mut world, 3);
        let good = close(2, 2, waited(400));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &good)), Ok(()));
        for bad in [
            close(1, 2, waited(400)),
            close(1, 1, waited(400)),
            close(3, 2, waited(400)),
            close(2, 2, waited(0)),
            close(2, 2, waited(90_000)),
            close(2, 2, CloseReason::Everyone),
            close(2, 2, CloseReason::Peers { closed: 0 }),
        ] {
            assert!(checker.observe(&world, &Event::Decided(0, &bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn islands_at_rest_are_not_counted() {
        let mut world = FakeWorld::new(6);
        let mut checker = seen(&mut world, 5);
        let two = close(2, 2, waited(400));
        assert!(checker.observe(&world, &Event::Decided(0, &two)).is_err(), "three of six");
        world.now = Time(3500 + world.genesis().rounds.alive_ms / 2 + 1);
        for node in 1..=5 {
            let bytes = world.frontier_of(node, 2, 0, 0);
            let input = Input::Received { from: world.node_id(node), bytes, receipt: 0 };
            assert_eq!(checker.observe(&world, &Event::Input(0, &input)), Ok(()));
        }
        assert_eq!(checker.observe(&world, &Event::Decided(0, &two)), Ok(()));
    }

    #[test]
    fn a_wait_that_began_below_quorum_is_seen() {
        let mut world = FakeWorld::new(6);
        let mut checker = seen(&mut world, 5);
        let third = world.persist(2, 1, 100);
        // Three of six are a quorum: the second came at 3500, the third comes at 4000.
        let again = world.persist(1, 1, 100);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &again)), Ok(()));
        world.now = Time(4000);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &third)), Ok(()));
        let early = close(3, 3, waited(1000));
        assert!(checker.observe(&world, &Event::Decided(0, &early)).is_err());
        world.now = Time(4500);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &early)), Ok(()));
    }

    #[test]
    fn a_round_is_closed_after_most_peers_only() {
        let mut world = FakeWorld::new(6);
        let mut checker = seen(&mut world, 5);
        let tell = |checker: &mut Quorum, world: &FakeWorld, node| {
            let bytes = world.frontier(node, 2, 1);
            let input = Input::Received { from: world.node_id(node), bytes, receipt: 0 };
            assert_eq!(checker.observe(world, &Event::Input(0, &input)), Ok(()));
        };
        let follows = |closed| close(1, 3, CloseReason::Peers { closed });
        for node in 1..=3 {
            tell(&mut checker, &world, node);
        }
        let few = checker.observe(&world, &Event::Decided(0, &follows(3))).unwrap_err();
        assert!(few.contains("most of 6 live islands are 4"), "{few}");
        let untold = checker.observe(&world, &Event::Decided(0, &follows(4))).unwrap_err();
        assert!(untold.contains("only 3 told"), "{untold}");
        tell(&mut checker, &world, 4);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &follows(4))), Ok(()));
    }

    #[test]
    fn live_islands_raise_the_quorum() {
        let mut world = FakeWorld::new(6);
        let mut checker = seen(&mut world, 5);
        let claimed = close(2, 2, waited(400));
        assert!(checker.observe(&world, &Event::Decided(0, &claimed)).is_err());
        world.now = Time(60_000);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &claimed)), Ok(()));
    }
}
