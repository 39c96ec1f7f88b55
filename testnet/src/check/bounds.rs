//! Nothing a peer sends makes a structure outgrow its limit.

use super::{Checker, Event, NodeIndex, World};

/// Sizes stay below their limits.
#[derive(Debug, Default)]
pub struct Bounds {
    events: u64,
    checks: u64,
}

impl Checker for Bounds {
    fn name(&self) -> &'static str {
        "bounds"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        let Some(node) = event.node() else { return Ok(()) };
        self.events += 1;
        // What grows does not shrink again within a few events, so a sample sees it.
        if !self.events.is_multiple_of(SAMPLE) {
            return Ok(());
        }
        self.look(world, node)
    }

    fn finish(&mut self, world: &dyn World) -> Result<(), String> {
        (0..world.nodes()).try_for_each(|node| self.look(world, node))
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

impl Bounds {
    fn look(&mut self, world: &dyn World, node: NodeIndex) -> Result<(), String> {
        if !world.is_honest(node) || !world.is_up(node) {
            return Ok(());
        }
        for (name, size, limit) in world.sizes(node) {
            self.checks += 1;
            if size > limit {
                return Err(format!("node {node} holds {size} {name}, at most {limit} allowed"));
            }
        }
        Ok(())
    }
}

/// One event of this many is looked at.
const SAMPLE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fake::FakeWorld;

    #[test]
    fn one_too_many_is_seen() {
        let mut world = FakeWorld::new(1);
        world.sizes = vec![("wants", 16, 16)];
        let mut checker = Bounds::default();
        assert_eq!(checker.finish(&world), Ok(()));
        world.sizes = vec![("wants", 17, 16)];
        assert!(checker.finish(&world).is_err());
        let seen = (0..SAMPLE).any(|_| checker.observe(&world, &Event::Started(0)).is_err());
        assert!(seen);
    }
}
