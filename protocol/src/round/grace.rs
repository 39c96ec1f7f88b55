//! How long a round that has quorum waits for more contributions.
//!
//! Nobody waits *in* a grace window: islands train on. It only has to be long enough for one
//! announcement to reach the others, for the slowest of them to come to its next step boundary,
//! and for its answer and payload to travel back.

use crate::genesis::Rounds;
use crate::time::Span;

/// What a node has measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// One step of the slowest live island that has not contributed.
    pub slowest_step: Span,
    /// From a header's arrival to its payload being checked.
    pub transfer: Span,
}

/// The grace window, inside the genesis' bounds.
pub fn window(rounds: &Rounds, measured: &Measured) -> Span {
    let wait = measured.slowest_step.0.saturating_add(measured.transfer.0.saturating_mul(2));
    Span(wait.clamp(rounds.grace_ms_min, rounds.grace_ms_max))
}

/// A running mean that follows changes within a few measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smoothed(Option<u64>);

impl Smoothed {
    /// Takes one measurement; it counts a quarter.
    pub fn add(&mut self, span: Span) {
        let mean = self.0.map_or(span.0, |mean| mean - mean / 4 + span.0 / 4);
        self.0 = Some(mean);
    }

    /// The mean, zero before the first measurement.
    pub fn mean(&self) -> Span {
        Span(self.0.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_slowest_within_bounds() {
        let rounds = Rounds { grace_ms_min: 100, grace_ms_max: 2000, ..crate::testkit::rounds() };
        let at = |step, transfer| {
            let measured = Measured { slowest_step: Span(step), transfer: Span(transfer) };
            window(&rounds, &measured).0
        };
        assert_eq!(at(0, 0), 100);
        assert_eq!(at(300, 50), 400);
        assert_eq!(at(90_000, 50), 2000);
    }

    #[test]
    fn a_mean_follows() {
        let mut mean = Smoothed::default();
        mean.add(Span(400));
        assert_eq!(mean.mean(), Span(400));
        (0..20).for_each(|_| mean.add(Span(100)));
        assert!(mean.mean().0 <= 110);
    }
}
