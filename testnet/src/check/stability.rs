//! A round is stable only when every island seen within the forget window has closed it.

use atoll_protocol::engine::{Output, Report};
use atoll_protocol::id::RunId;
use atoll_protocol::time::Span;

use super::heard::Heard;
use super::{Checker, Event, World};

/// Nobody who may still come back is left out.
#[derive(Debug)]
pub struct Stability {
    heard: Heard,
    checks: u64,
}

impl Stability {
    /// For frontiers of `run`.
    pub fn new(run: RunId) -> Self {
        Self { heard: Heard::new(run), checks: 0 }
    }
}

impl Checker for Stability {
    fn name(&self) -> &'static str {
        "stability"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        self.heard.observe(world, event);
        let Event::Decided(node, Output::Report(Report::Stable { fragment, version, forced })) =
            event
        else {
            return Ok(());
        };
        if !world.is_honest(*node) {
            return Ok(());
        }
        self.checks += 1;
        if *forced {
            return Ok(());
        }
        // A little less than the window, for clocks that differ.
        let within = Span(world.genesis().rounds.forget_ms / 4 * 3);
        let behind = self
            .heard
            .islands(world, *node, within)
            .into_iter()
            .find(|(_, peer)| peer.version(*fragment).is_some_and(|closed| closed < *version));
        behind.map_or(Ok(()), |(island, peer)| {
            Err(format!(
                "node {node} calls version {version} of {fragment} stable, but {island} was last \
                 heard at version {}, {} ms ago",
                peer.version(*fragment).unwrap_or(0),
                world.now().since(peer.at).0
            ))
        })
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

#[cfg(test)]
mod tests {
    use atoll_protocol::engine::Input;
    use atoll_protocol::id::FragmentId;
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
        let stable = |version, forced| {
            Output::Report(Report::Stable { fragment: FragmentId(0), version, forced })
        };
        world.now = Time(20_000);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &stable(2, false))), Ok(()));
        assert!(checker.observe(&world, &Event::Decided(0, &stable(3, false))).is_err());
        assert_eq!(checker.observe(&world, &Event::Decided(0, &stable(3, true))), Ok(()));
        world.now = Time(70_000);
        assert_eq!(checker.observe(&world, &Event::Decided(0, &stable(3, false))), Ok(()));
    }
}
