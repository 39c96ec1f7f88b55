//! The swarm learns: the loss falls, and ends near that of a central run without faults.

use super::{Checker, Event, Kind, World, settled};

/// How well a run must learn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// The last loss is at most this share of the first, if the tokens suffice for that: a few
    /// steps of a slow swarm only have to lower it half as far as in a central run.
    pub fall: f64,
    /// The last loss is at most this many times that of the central run.
    pub central: f64,
}

impl Default for Band {
    fn default() -> Self {
        Self { fall: 0.99, central: 1.06 }
    }
}

impl Band {
    /// For runs in which nothing is promised but a finite loss.
    pub const ANY: Self = Self { fall: f64::INFINITY, central: f64::INFINITY };
}

/// Training is worth it.
#[derive(Debug)]
pub struct Learning {
    band: Band,
    checks: u64,
}

impl Learning {
    /// With this band.
    pub fn new(band: Band) -> Self {
        Self { band, checks: 0 }
    }
}

impl Checker for Learning {
    fn name(&self) -> &'static str {
        "learning"
    }

    fn kind(&self) -> Kind {
        Kind::Liveness
    }

    fn observe(&mut self, _world: &dyn World, _event: &Event<'_>) -> Result<(), String> {
        Ok(())
    }

    fn finish(&mut self, world: &dyn World) -> Result<(), String> {
        let Some(first) = world.first_loss() else { return Ok(()) };
        let central = if self.band.central.is_finite() { world.central_loss() } else { None };
        let halfway = central.map_or(0.0, |central| (1.0 + central / first) / 2.0);
        let fall = self.band.fall.max(halfway.min(1.0));
        for node in settled(world) {
            let Some(last) = world.loss(node) else { continue };
            self.checks += 1;
            if !last.is_finite() {
                return Err(format!("the loss of node {node} is {last}"));
            }
            if last > first * fall {
                return Err(format!(
                    "the loss of node {node} went from {first:.4} to {last:.4}, at most {:.4} \
                     expected",
                    first * fall
                ));
            }
            if let Some(central) = central.filter(|central| last > central * self.band.central) {
                return Err(format!(
                    "the loss of node {node} is {last:.4}, a central run reached {central:.4}, a \
                     ratio of {:.3}, at most {:.3} expected",
                    last / central,
                    self.band.central
                ));
            }
        }
        Ok(())
    }

    fn checks(&self) -> u64 {
        self.checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fake::FakeWorld;

    #[test]
    fn a_loss_that_does_not_fall_or_lags_behind_is_seen() {
        let mut world = FakeWorld::new(1);
        let mut checker = Learning::new(Band::default());
        let mut end = |loss, central| {
            world.loss = Some(loss);
            world.central = Some(central);
            checker.finish(&world)
        };
        assert_eq!(end(2.0, 1.9), Ok(()));
        assert!(end(3.99, 3.9).is_err());
        assert_eq!(end(3.97, 3.95), Ok(()), "more than half of what a central run did");
        assert!(end(3.98, 3.95).is_err());
        assert!(end(4.1, 4.0).is_err());
        assert!(end(2.0, 1.0).is_err());
        assert!(end(f64::NAN, 1.0).is_err());
    }
}
