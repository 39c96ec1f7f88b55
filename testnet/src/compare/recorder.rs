//! Draws a swarm's loss curve while it is simulated.

use std::cell::RefCell;
use std::rc::Rc;

use atoll_protocol::id::{FragmentId, Version};

use crate::central::Point;
use crate::check::{Checker, Event, World};

/// Looks at the outer state of one node after every round of all its fragments.
#[derive(Debug)]
pub(super) struct Recorder {
    seen: Version,
    curve: Rc<RefCell<Vec<Point>>>,
}

impl Recorder {
    /// A recorder, and what it will have seen.
    pub(super) fn new() -> (Self, Rc<RefCell<Vec<Point>>>) {
        let curve = Rc::default();
        (Self { seen: 0, curve: Rc::clone(&curve) }, curve)
    }
}

impl Checker for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn observe(&mut self, world: &dyn World, event: &Event<'_>) -> Result<(), String> {
        let Event::Folded(NODE, ..) = event else { return Ok(()) };
        let statuses = (0..world.genesis().fragments).map(FragmentId);
        let heads = statuses.filter_map(|fragment| Some(world.status(NODE, fragment)?.head));
        let head = heads.min().unwrap_or(0);
        if head > self.seen {
            self.seen = head;
            let loss = world.loss(NODE).unwrap_or(f64::NAN);
            self.curve.borrow_mut().push(Point { tokens: merged(world), loss });
        }
        Ok(())
    }

    fn checks(&self) -> u64 {
        u64::from(self.seen)
    }
}

/// Tokens of all running islands that are merged, averaged over the fragments.
fn merged(world: &dyn World) -> u64 {
    let fragments = world.genesis().fragments;
    let each = (0..world.nodes()).flat_map(|node| {
        (0..fragments).filter_map(move |fragment| {
            Some(world.status(node, FragmentId(fragment))?.fates.merged)
        })
    });
    each.sum::<u64>() / u64::from(fragments.max(1))
}

const NODE: usize = 0;
