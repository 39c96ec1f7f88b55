//! A node that is not caught up never donates, never closes a round, never contributes.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::engine::{CloseReason, Output, Record, Report};
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::ContributionId;

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
                if world.standing(node) == Some(Standing::Joining) {
                    return Err(format!("node {node} served snapshot {content} while joining"));
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
        let own = world.node_id(node);
        let what = match output {
            // One that was signed long ago may come back through a peer.
            Output::Persist(Record::Contribution(signed))
                if signed.body.author == own
                    && !shares_key(world, node)
                    && self.signed.insert(signed.body.id()) =>
            {
                self.checks += 1;
                (standing != Standing::CaughtUp).then(|| {
                    format!("contributed to {} while {standing:?}", signed.body.round_id())
                })
            }
            // One that is behind may follow a quorum of its peers, but decides nothing.
            Output::Report(Report::Closed { round, reason, .. })
                if !matches!(reason, CloseReason::Peers { .. }) =>
            {
                self.checks += 1;
                (standing == Standing::Joining).then(|| format!("closed {round} while joining"))
            }
            Output::Send { to, bytes } if bytes.starts_with(&HISTORY) => {
                self.checks += 1;
                (standing == Standing::Joining)
                    .then(|| format!("sent {to} a history while joining"))
            }
            _ => None,
        };
        what.map_or(Ok(()), |what| Err(format!("node {node} {what}")))
    }
}

/// How a history begins: its place in `Message`.
const HISTORY: [u8; 4] = [9, 0, 0, 0];

#[cfg(test)]
mod tests {
    use atoll_protocol::id::{ContentId, FragmentId, RoundId};

    use super::*;
    use crate::check::fake::FakeWorld;

    #[test]
    fn a_joiner_that_speaks_up_is_seen() {
        let mut world = FakeWorld::new(2);
        world.standings[0] = Standing::Joining;
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
}
