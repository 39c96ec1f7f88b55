//! A round is stable only when every island seen within the forget window has closed it.

use std::collections::{BTreeMap, BTreeSet};

use atoll_protocol::engine::{Output, Record, Report};
use atoll_protocol::id::{FragmentId, NodeId, RunId, Version};
use atoll_protocol::time::Span;

use super::heard::Heard;
use super::{Checker, Event, NodeIndex, World};

/// Nobody who may still come back is left out.
#[derive(Debug)]
pub struct Stability {
    heard: Heard,
    /// What speaks against a decision that was not reported yet.
    decided: BTreeMap<(NodeIndex, FragmentId), Option<String>>,
    /// Whom each node knows to be revoked: they no longer have a say.
    revoked: BTreeSet<(NodeIndex, NodeId)>,
    checks: u64,
}

impl Stability {
    /// For frontiers of `run`.
    pub fn new(run: RunId) -> Self {
        let (heard, decided) = (Heard::new(run), BTreeMap::new());
        Self { heard, decided, revoked: BTreeSet::new(), checks: 0 }
    }
}

impl Stability {
    /// An island that may still have a say and has not closed the round, in words.
    fn behind(
        &self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
        version: Version,
    ) -> Option<String> {
        // A little less than the window, for clocks that differ.
        let within = Span(world.genesis().rounds.forget_ms / 4 * 3);
        let islands = self.heard.islands(world, node, within);
        // Two nodes with one key contradict each other: nobody can wait for both.
        let twins = |id: &NodeId| (0..world.nodes()).filter(|it| world.node_id(*it) == *id).count();
        let behind = islands
            .filter(|(island, _)| twins(island) < 2 && !self.revoked.contains(&(node, **island)))
            .find(|(_, peer)| peer.version(fragment).is_some_and(|closed| closed < version));
        behind.map(|(island, peer)| {
            format!(
                "node {node} calls version {version} of {fragment} stable, but {island} was last \
                 heard at version {}, {} ms ago",
                peer.version(fragment).unwrap_or(0),
                world.now().since(peer.at).0
            )
        })
    }
}

impl Checker for Stability {
    fn name(&self) -> &'static str {
        "stability"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        self.heard.observe(world, event);
        match event {
            Event::Decided(node, Output::Persist(Record::Revocation(revocation))) => {
                self.revoked.insert((*node, revocation.body.node));
                Ok(())
            }
            // The decision is made here; by the time it is reported more may have been heard.
            Event::Decided(node, Output::Stabilise { fragment, version }) => {
                let behind = self.behind(world, *node, *fragment, *version);
                self.decided.insert((*node, *fragment), behind);
                Ok(())
            }
            Event::Decided(node, Output::Report(Report::Stable { fragment, forced, .. })) => {
                let behind = self.decided.remove(&(*node, *fragment)).flatten();
                if !world.is_honest(*node) {
                    return Ok(());
                }
                self.checks += 1;
                if *forced { Ok(()) } else { behind.map_or(Ok(()), Err) }
            }
            _ => Ok(()),
        }
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

#[cfg(test)]
mod tests {
    use atoll_protocol::engine::Input;
    use atoll_protocol::time::Time;

    use super::*;
    use crate::check::fake::{FakeWorld, RUN};

    #[test]
    fn a_silent_island_holds_stability_up_until_it_is_forgotten() {
        let mut world = FakeWorld::new(2);
        let mut checker = Stability::new(RUN);
        let bytes = world.frontier(1, 1, 2);
        let input = Input::Received { from: world.node_id(1), bytes, receipt: 0 };
        assert_eq!(checker.observe(&world, &Event::Input(0, &input)), Ok(()));
        let fragment = FragmentId(0);
        let mut stable = |world: &FakeWorld, version, forced| {
            let decision = Output::Stabilise { fragment, version };
            checker.observe(world, &Event::Decided(0, &decision)).unwrap();
            let report = Output::Report(Report::Stable { fragment, version, forced });
            checker.observe(world, &Event::Decided(0, &report))
        };
        world.now = Time(20_000);
        assert_eq!(stable(&world, 2, false), Ok(()));
        assert!(stable(&world, 3, false).is_err());
        assert_eq!(stable(&world, 3, true), Ok(()));
        world.now = Time(70_000);
        assert_eq!(stable(&world, 3, false), Ok(()));
    }
}
