//! Same history, same bits: on any two honest nodes, at any time.

use std::collections::BTreeMap;

use atoll_protocol::engine::{Output, Report};
use atoll_protocol::id::{ContentId, FragmentId, Trail, Version};

use super::lineage::Lineage;
use super::{Checker, Event, NodeIndex, World, fragments, settled};

/// Equal trails have equal digests; at the end all nodes have one history.
#[derive(Debug, Default)]
pub struct Agreement {
    digests: BTreeMap<(FragmentId, Version, Trail), (ContentId, NodeIndex)>,
    /// Trails that each node's base had on its way.
    bases: BTreeMap<(NodeIndex, FragmentId), BTreeMap<Version, Trail>>,
    lineage: Lineage,
    /// Whether the heaviest history at the heal must be the one that survives.
    weighed: bool,
    /// That history: its weight and its trail, which breaks ties.
    heaviest: BTreeMap<FragmentId, (u64, Trail)>,
    checks: u64,
}

impl Agreement {
    /// For a swarm in which nothing goes wrong but that it parts for longer than the horizon, if
    /// histories are to be `weighed`: elsewhere a heavy one may have nobody left to speak for it.
    pub fn new(weighed: bool) -> Self {
        Self { weighed, ..Self::default() }
    }
}

impl Checker for Agreement {
    fn name(&self) -> &'static str {
        "agreement"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        if let Event::Started(node) = event {
            self.lineage.restart(world, *node);
        }
        if let Event::Healed = event {
            self.weigh(world);
        }
        let Event::Output(node, output) = event else { return Ok(()) };
        if !world.is_honest(*node) {
            return Ok(());
        }
        self.lineage.observe(*node, output, world.genesis().merge.weight_cap);
        let Output::Report(report) = output else { return Ok(()) };
        match report {
            Report::BitsDiffer { fragment, version, peer } => {
                let liar = (0..world.nodes())
                    .any(|other| world.node_id(other) == *peer && !world.is_honest(other));
                if !liar {
                    return Err(format!(
                        "node {node} sees other bits of {fragment} at version {version} on {peer}"
                    ));
                }
                Ok(())
            }
            Report::Installed { fragment, .. } => {
                self.bases.remove(&(*node, *fragment));
                self.look(world, *node, *fragment)
            }
            Report::Materialised { fragment, .. } | Report::Stable { fragment, .. } => {
                self.look(world, *node, *fragment)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, world: &dyn World) -> Result<(), String> {
        let nodes = settled(world);
        for fragment in fragments(world) {
            for &node in &nodes {
                self.look(world, node, fragment)?;
            }
            self.compare_heads(world, &nodes, fragment)?;
            self.compare_weights(world, &nodes, fragment)?;
            self.compare_bases(&nodes, fragment)?;
        }
        Ok(())
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Agreement {
    fn look(
        &mut self,
        world: &dyn World,
        node: NodeIndex,
        fragment: FragmentId,
    ) -> Result<(), String> {
        let Some(status) = world.status(node, fragment) else { return Ok(()) };
        self.bases.entry((node, fragment)).or_default().insert(status.base, status.base_trail);
        let (version, trail) = self.lineage.base(node, fragment);
        if version == status.base && trail != status.base_trail {
            return Err(format!(
                "node {node} names its history of {fragment} up to version {version} {}, its \
                 cuts make it {trail}",
                status.base_trail
            ));
        }
        self.checks += 1;
        let key = (fragment, status.head, status.head_trail);
        let (digest, first) = *self.digests.entry(key).or_insert((status.digest, node));
        if digest == status.digest {
            return Ok(());
        }
        Err(format!(
            "{fragment} at version {} with trail {} is {digest} on node {first} and {} on node \
             {node}",
            status.head, status.head_trail, status.digest
        ))
    }

    fn compare_heads(
        &mut self,
        world: &dyn World,
        nodes: &[NodeIndex],
        fragment: FragmentId,
    ) -> Result<(), String> {
        let mut heads = nodes
            .iter()
            .filter_map(|&node| world.status(node, fragment).map(|status| (node, status)));
        let Some((first, head)) = heads.next() else { return Ok(()) };
        for (node, status) in heads {
            self.checks += 1;
            if (status.head, status.head_trail, status.digest)
                != (head.head, head.head_trail, head.digest)
            {
                return Err(format!(
                    "at the end {fragment} is at version {} ({}, {}) on node {first} and at \
                     version {} ({}, {}) on node {node}",
                    head.head,
                    head.head_trail,
                    head.digest,
                    status.head,
                    status.head_trail,
                    status.digest
                ));
            }
        }
        Ok(())
    }

    /// Notes which history is the heaviest now.
    fn weigh(&mut self, world: &dyn World) {
        let nodes = if self.weighed { settled(world) } else { Vec::new() };
        for node in nodes {
            for fragment in fragments(world) {
                let Some(status) = world.status(node, fragment) else { continue };
                let rank = (status.base_weight, status.base_trail);
                let heaviest = self.heaviest.entry(fragment).or_insert(rank);
                *heaviest = rank.max(*heaviest);
            }
        }
    }

    /// Every history goes through the one that was the heaviest.
    fn compare_weights(
        &mut self,
        world: &dyn World,
        nodes: &[NodeIndex],
        fragment: FragmentId,
    ) -> Result<(), String> {
        let Some((weight, trail)) = self.heaviest.get(&fragment).copied() else { return Ok(()) };
        for &node in nodes {
            let Some(status) = world.status(node, fragment) else { continue };
            self.checks += 1;
            if !self.lineage.descends(fragment, status.head_trail, trail) {
                return Err(format!(
                    "the history of {fragment} that survives on node {node} is not the one that \
                     was the heaviest when faults ended ({trail}, {weight} tokens)"
                ));
            }
        }
        Ok(())
    }

    fn compare_bases(&mut self, nodes: &[NodeIndex], fragment: FragmentId) -> Result<(), String> {
        let mut known: BTreeMap<Version, (Trail, NodeIndex)> = BTreeMap::new();
        for &node in nodes {
            let Some(trails) = self.bases.get(&(node, fragment)) else { continue };
            for (&version, &trail) in trails {
                self.checks += 1;
                let (other, first) = *known.entry(version).or_insert((trail, node));
                if other != trail {
                    return Err(format!(
                        "stable history of {fragment} up to version {version} is {other} on node \
                         {first} and {trail} on node {node}"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fake::{FakeWorld, status};

    fn materialised(fragment: FragmentId) -> Output {
        let report = Report::Materialised { fragment, version: 1, digest: ContentId([1; 32]) };
        Output::Report(report)
    }

    #[test]
    fn one_trail_with_two_digests_is_a_violation() {
        let mut world = FakeWorld::new(2);
        let fragment = FragmentId(0);
        world.set(0, fragment, status(fragment, 1, 7, 1));
        world.set(1, fragment, status(fragment, 1, 7, 1));
        let output = materialised(fragment);
        let mut checker = Agreement::default();
        assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Output(1, &output)), Ok(()));
        assert_eq!(checker.finish(&world), Ok(()));
        world.set(1, fragment, status(fragment, 1, 7, 2));
        assert!(checker.observe(&world, &Event::Output(1, &output)).is_err());
        assert!(checker.checks() > 2);
    }

    #[test]
    fn two_histories_may_live_but_not_survive() {
        let mut world = FakeWorld::new(2);
        let fragment = FragmentId(0);
        world.set(0, fragment, status(fragment, 1, 7, 1));
        world.set(1, fragment, status(fragment, 1, 8, 2));
        let output = materialised(fragment);
        let mut checker = Agreement::default();
        assert_eq!(checker.observe(&world, &Event::Output(0, &output)), Ok(()));
        assert_eq!(checker.observe(&world, &Event::Output(1, &output)), Ok(()));
        assert!(checker.finish(&world).is_err());
    }

    #[test]
    fn a_lighter_history_must_not_survive() {
        let fragment = FragmentId(0);
        let based = |weight| {
            let mut status = status(fragment, 1, 7, 1);
            status.base_weight = weight;
            status
        };
        let survives = |weighed| {
            let mut world = FakeWorld::new(2);
            let (mut heavy, light) = (based(20), based(10));
            heavy.base_trail = Trail([8; 32]);
            world.set(0, fragment, heavy);
            world.set(1, fragment, light);
            let mut checker = Agreement::new(weighed);
            assert_eq!(checker.observe(&world, &Event::Healed), Ok(()));
            world.set(0, fragment, light);
            checker.finish(&world)
        };
        assert_eq!(survives(false), Ok(()));
        assert!(survives(true).unwrap_err().contains("heaviest"));
    }
}
