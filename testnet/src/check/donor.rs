//! A node that is not caught up never donates, never closes a round, never contributes.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::crypto::Signed;
use atoll_protocol::engine::{CloseReason, Output, Record, Report};
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{ContributionId, FragmentId};
use atoll_protocol::message::Message;

use super::{Checker, Event, NodeIndex, World, shares_key};

/// Who is behind only listens.
#[derive(Debug, Default)]
pub struct Donor {
    /// Each node's standing at this place in its stream of outputs.
    standings: BTreeMap<NodeIndex, Standing>,
    /// Contributions whose authors wrote them down before.
    signed: BTreeSet<ContributionId>,
    checks: u64,
}

impl Checker for Donor {
    fn name(&self) -> &'static str {
        "donor"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        let Some(node) = event.node().filter(|&node| world.is_honest(node)) else { return Ok(()) };
        match event {
            Event::Started(_) => {
                let standing = world.standing(node).unwrap_or(Standing::Joining);
                self.standings.insert(node, standing);
                Ok(())
            }
            Event::Served(_, content) => {
                self.checks += 1;
                // A snapshot is served on the spot, so the engine's own standing is the one.
                let standing = world.standing(node);
                if standing != Some(Standing::CaughtUp) {
                    return Err(format!(
                        "node {node} served snapshot {content} while {standing:?}"
                    ));
                }
                Ok(())
            }
            Event::Decided(_, output) => self.output(world, node, output),
            _ => Ok(()),
        }
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Donor {
    fn output(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        output: &Output,
    ) -> Result<(), String> {
        if let Output::Report(Report::Standing(standing)) = output {
            self.standings.insert(node, *standing);
            return Ok(());
        }
        let standing = self.standings.get(&node).copied().unwrap_or(Standing::Joining);
        let behind = standing != Standing::CaughtUp;
        let own = world.node_id(node);
        let what = match output {
            // One that was signed long ago may come back through a peer.
            Output::Persist(Record::Contribution(signed))
                if signed.body.author == own
                    && !shares_key(world, node)
                    && self.signed.insert(signed.body.id()) =>
            {
                self.checks += 1;
                behind.then(|| {
                    format!("contributed to {} while {standing:?}", signed.body.round_id())
                })
            }
            // One that is behind may follow a quorum of its peers, but decides nothing.
            Output::Report(Report::Closed { round, reason, .. })
                if !matches!(reason, CloseReason::Peers { .. }) =>
            {
                self.checks += 1;
                behind.then(|| format!("closed {round} while {standing:?}"))
            }
            Output::Send { to, bytes } if bytes.starts_with(&HISTORY) => {
                self.checks += 1;
                behind.then(|| format!("sent {to} a history while {standing:?}"))
            }
            Output::Publish(bytes) | Output::Send { bytes, .. } if bytes.starts_with(&FRONTIER) => {
                self.checks += 1;
                untrue(world, node, standing, bytes)
            }
            _ => None,
        };
        what.map_or(Ok(()), |what| Err(format!("node {node} {what}")))
    }
}

/// What is not true of a node's own frontier, in words. While it folds a late contribution a node
/// speaks of its base only.
fn untrue(world: &dyn World, node: NodeIndex, standing: Standing, bytes: &[u8]) -> Option<String> {
    let Ok(Message::Frontier(Signed { body, .. })) = Message::decode(bytes) else {
        return Some("said something that begins like a frontier".into());
    };
    if body.node != world.node_id(node) || body.standing != standing {
        return Some(format!(
            "says that {} is {:?}, but is {standing:?}",
            body.node, body.standing
        ));
    }
    (body.first.0..).map(FragmentId).zip(&body.entries).find_map(|(fragment, entry)| {
        let status = world.status(node, fragment)?;
        let says = (entry.version, entry.digest);
        let same_base = (entry.base, entry.base_trail) == (status.base, status.base_trail.short());
        let same_state = says == (status.head, status.digest.short())
            || says == (status.base, status.base_digest.short());
        (!same_base || !same_state)
            .then(|| format!("says {entry:?} of {fragment}, but stands at {status:?}"))
    })
}

/// How a frontier begins: its place in `Message`.
const FRONTIER: [u8; 4] = [1, 0, 0, 0];
/// How a history begins.
const HISTORY: [u8; 4] = [9, 0, 0, 0];

#[cfg(test)]
mod tests {
    use atoll_protocol::id::{ContentId, RoundId, Trail};

    use super::*;
    use crate::check::fake::{FakeWorld, status};

    #[test]
    fn a_joiner_that_speaks_up_is_seen() {
        speaks_up(Standing::Joining);
        speaks_up(Standing::Muted);
    }

    fn speaks_up(standing: Standing) {
        let mut world = FakeWorld::new(2);
        world.standings[0] = standing;
        let mut checker = Donor::default();
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        let round = RoundId { fragment: FragmentId(0), number: 1 };
        let everyone = CloseReason::Everyone;
        let outputs = [
            world.persist(0, 1, 100),
            Output::Report(Report::Closed { round, have: 2, need: 2, reason: everyone }),
            Output::Send { to: world.node_id(1), bytes: HISTORY.to_vec() },
        ];
        for output in &outputs {
            assert!(checker.observe(&world, &Event::Decided(0, output)).is_err(), "{output:?}");
        }
        let served = Event::Served(0, ContentId([1; 32]));
        assert!(checker.observe(&world, &served).is_err());
        assert_eq!(checker.observe(&world, &Event::Decided(0, &world.persist(1, 1, 100))), Ok(()));
        let risen = Output::Report(Report::Standing(Standing::CaughtUp));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &risen)), Ok(()));
        world.standings[0] = Standing::CaughtUp;
        for output in &outputs {
            assert_eq!(checker.observe(&world, &Event::Decided(0, output)), Ok(()));
        }
        assert_eq!(checker.observe(&world, &served), Ok(()));
    }

    #[test]
    fn a_frontier_that_is_not_true_is_seen() {
        let mut world = FakeWorld::new(2);
        let mut checker = Donor::default();
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        let fragment = FragmentId(0);
        let mut stands = status(fragment, 3, 7, 0);
        stands.base_trail = Trail([0; 32]);
        world.set(0, fragment, stands);
        let mut says = |world: &FakeWorld, node, version| {
            let frontier = Output::Publish(world.frontier(node, 1, version));
            checker.observe(world, &Event::Decided(0, &frontier))
        };
        assert_eq!(says(&world, 0, 3), Ok(()));
        assert_eq!(says(&world, 0, 0), Ok(()), "its base");
        assert!(says(&world, 0, 2).is_err(), "neither head nor base");
        assert!(says(&world, 1, 3).is_err(), "somebody else's");
        stands.base_trail = Trail([1; 32]);
        world.set(0, fragment, stands);
        assert!(says(&world, 0, 3).is_err(), "another history");
        stands.base_trail = Trail([0; 32]);
        world.set(0, fragment, stands);
        let fallen = Output::Report(Report::Standing(Standing::Joining));
        assert_eq!(checker.observe(&world, &Event::Decided(0, &fallen)), Ok(()));
        let frontier = Output::Publish(world.frontier(0, 1, 3));
        assert!(checker.observe(&world, &Event::Decided(0, &frontier)).is_err(), "not caught up");
    }
}
