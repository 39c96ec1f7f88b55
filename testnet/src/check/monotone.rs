//! Versions, bases and weights never go back on a node, not even over a crash.

use std::collections::BTreeMap;

use atoll_protocol::engine::{FragmentStatus, Output, Record, Report};
use atoll_protocol::id::{FragmentId, Version};
use atoll_protocol::message::Message;

use super::{Checker, Event, NodeIndex, World, fragments, waited_for_records};

/// What was reached stays reached, unless a heavier history replaces it.
#[derive(Debug, Default)]
pub struct Monotone {
    seen: BTreeMap<(NodeIndex, FragmentId), FragmentStatus>,
    durable: BTreeMap<(NodeIndex, FragmentId), Durable>,
    /// What a barrier has not yet made durable.
    waiting: BTreeMap<NodeIndex, Vec<Record>>,
    frontiers: BTreeMap<NodeIndex, (u64, u64)>,
    checks: u64,
}

/// What a restart must find again.
#[derive(Clone, Copy, Debug, Default)]
struct Durable {
    base: Version,
    closed: Version,
    weight: u64,
}

impl Checker for Monotone {
    fn name(&self) -> &'static str {
        "monotone"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        let Some(node) = event.node().filter(|&node| world.is_honest(node)) else { return Ok(()) };
        match event {
            Event::Crashed(_) => {
                self.waiting.remove(&node);
                for fragment in fragments(world) {
                    self.seen.remove(&(node, fragment));
                }
                Ok(())
            }
            Event::Started(_) => {
                fragments(world).try_for_each(|fragment| self.restarted(world, node, fragment))
            }
            Event::Output(_, output) => self.output(world, node, output),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, world: &dyn World) -> Result<(), String> {
        for node in (0..world.nodes()).filter(|&node| world.is_honest(node)) {
            fragments(world).try_for_each(|fragment| self.look(world, node, fragment))?;
        }
        Ok(())
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Monotone {
    fn output(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        output: &Output,
    ) -> Result<(), String> {
        if waited_for_records(output) {
            for record in self.waiting.remove(&node).unwrap_or_default() {
                self.keep(node, &record);
            }
        }
        match output {
            Output::Persist(record @ (Record::Stable { .. } | Record::Closed(_))) => {
                self.waiting.entry(node).or_default().push(record.clone());
                Ok(())
            }
            Output::Persist(record @ Record::Installed { history, .. }) => {
                self.waiting.entry(node).or_default().push(record.clone());
                self.seen.remove(&(node, history.fragment));
                Ok(())
            }
            Output::Publish(bytes) if bytes.first() == Some(&FRONTIER) => {
                self.frontier(node, bytes)
            }
            Output::Report(Report::Installed { fragment, .. }) => {
                self.seen.remove(&(node, *fragment));
                Ok(())
            }
            Output::Report(
                Report::Materialised { fragment, .. } | Report::Stable { fragment, .. },
            ) => self.look(world, node, *fragment),
            Output::Report(Report::Closed { round, .. }) => self.look(world, node, round.fragment),
            _ => Ok(()),
        }
    }

    fn keep(&mut self, node: NodeIndex, record: &Record) {
        match record {
            Record::Closed(round) => {
                let durable = self.durable.entry((node, round.fragment)).or_default();
                durable.closed = durable.closed.max(round.number);
            }
            Record::Stable { fragment, entry, .. } => {
                let durable = self.durable.entry((node, *fragment)).or_default();
                durable.base += 1;
                durable.weight = durable.weight.saturating_add(entry.weight);
            }
            Record::Installed { history, .. } => {
                let entries = Version::try_from(history.entries.len()).unwrap_or(Version::MAX);
                let base = history.root.saturating_add(entries);
                let weight = history
                    .entries
                    .iter()
                    .fold(history.root_weight, |sum, entry| sum.saturating_add(entry.weight));
                let durable = Durable { base, closed: base, weight };
                self.durable.insert((node, history.fragment), durable);
            }
            _ => {}
        }
    }

    fn restarted(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
    ) -> Result<(), String> {
        let Some(status) = world.status(node, fragment) else { return Ok(()) };
        let Some(durable) = self.durable.get(&(node, fragment)) else { return Ok(()) };
        self.checks += 1;
        if status.base < durable.base
            || status.base_weight < durable.weight
            || status.version < durable.closed
        {
            return Err(format!(
                "node {node} restarts {fragment} with base {}, version {} and weight {}, but {}, \
                 {} and {} were durable",
                status.base,
                status.version,
                status.base_weight,
                durable.base,
                durable.closed,
                durable.weight
            ));
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
        if status.base > status.version {
            return Err(format!(
                "node {node} has version {} of {fragment} stable and only {} closed",
                status.base, status.version
            ));
        }
        let before = self.seen.insert((node, fragment), status);
        let Some(before) = before else { return Ok(()) };
        let pairs = [
            ("base", u64::from(before.base), u64::from(status.base)),
            ("version", u64::from(before.version), u64::from(status.version)),
            ("head", u64::from(before.head), u64::from(status.head)),
            ("weight", before.base_weight, status.base_weight),
        ];
        for (what, old, new) in pairs {
            if new < old {
                return Err(format!(
                    "{what} of {fragment} on node {node} went from {old} to {new}"
                ));
            }
        }
        Ok(())
    }

    fn frontier(&mut self, node: NodeIndex, bytes: &[u8]) -> Result<(), String> {
        let Ok(Message::Frontier(frontier)) = Message::decode(bytes) else {
            return Err(format!("node {node} published a frontier that nobody can read"));
        };
        self.checks += 1;
        let order = (frontier.body.incarnation, frontier.body.sequence);
        match self.frontiers.insert(node, order) {
            Some(before) if before >= order => Err(format!(
                "node {node} published frontier {order:?} after {before:?} (incarnation, sequence)"
            )),
            _ => Ok(()),
        }
    }
}

/// The first byte of a frontier: its place in `Message`.
const FRONTIER: u8 = 1;

#[cfg(test)]
mod tests {
    use atoll_protocol::id::{ContentId, RoundId};

    use super::*;
    use crate::check::fake::{FakeWorld, status};

    const FRAGMENT: FragmentId = FragmentId(0);

    fn materialised() -> Output {
        let digest = ContentId([1; 32]);
        Output::Report(Report::Materialised { fragment: FRAGMENT, version: 1, digest })
    }

    #[test]
    fn a_version_that_goes_back_is_seen() {
        let mut world = FakeWorld::new(1);
        let mut checker = Monotone::default();
        for version in [1, 2, 2] {
            world.set(0, FRAGMENT, status(FRAGMENT, version, 7, 1));
            assert_eq!(checker.observe(&world, &Event::Output(0, &materialised())), Ok(()));
        }
        world.set(0, FRAGMENT, status(FRAGMENT, 1, 7, 1));
        assert!(checker.observe(&world, &Event::Output(0, &materialised())).is_err());
    }

    #[test]
    fn a_restart_keeps_what_the_barrier_kept() {
        let mut world = FakeWorld::new(1);
        let mut checker = Monotone::default();
        let closed =
            |number| Output::Persist(Record::Closed(RoundId { fragment: FRAGMENT, number }));
        for output in [closed(1), closed(2), Output::Publish(Vec::new()), closed(3)] {
            assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        }
        assert_eq!(checker.observe(&world, &Event::Crashed(0)), Ok(()));
        // Nothing that waits for the third record came after it: a crash may take it.
        world.set(0, FRAGMENT, status(FRAGMENT, 2, 7, 1));
        assert_eq!(checker.observe(&world, &Event::Started(0)), Ok(()));
        world.set(0, FRAGMENT, status(FRAGMENT, 1, 7, 1));
        assert!(checker.observe(&world, &Event::Started(0)).is_err());
    }

    #[test]
    fn frontiers_count_up() {
        let world = FakeWorld::new(1);
        let mut checker = Monotone::default();
        let publish = |sequence| Output::Publish(world.frontier(0, sequence, 0));
        assert_eq!(checker.observe(&world, &Event::Output(0, &publish(1))), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Output(0, &publish(2))), Ok(()));
        assert!(checker.observe(&world, &Event::Output(0, &publish(2))).is_err());
    }
}
