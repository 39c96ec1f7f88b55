//! When an island steps, at which rate it learns, and how much of the time it spends in steps.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What the driver and the island's thread share; everything in it is a number or a switch.
#[derive(Debug)]
pub struct Pace {
    going: AtomicBool,
    over: AtomicBool,
    /// Something was asked for since the island last looked.
    asked: AtomicBool,
    tokens_trained: AtomicU64,
    /// Steps after which the driver wants to hear of them.
    report_after: AtomicU32,
    steps: AtomicU64,
    stepping_us: AtomicU64,
    effort: Effort,
}

/// How much of its machine's time an island takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Effort {
    /// All it can get.
    #[default]
    Full,
    /// This share, between 0 and 1: it rests after each step.
    Share(f64),
    /// A step takes at least so long: for comparing swarms on one machine.
    Step(Duration),
}

impl Effort {
    /// How long to rest after a step that took `step`.
    pub fn rest(self, step: Duration) -> Duration {
        match self {
            Self::Full => Duration::ZERO,
            Self::Share(share) => step.mul_f64((1.0 / share.clamp(0.01, 1.0)) - 1.0),
            Self::Step(least) => least.saturating_sub(step),
        }
    }
}

impl Pace {
    pub(super) fn new(effort: Effort) -> Self {
        Self {
            going: AtomicBool::new(false),
            over: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            tokens_trained: AtomicU64::new(0),
            report_after: AtomicU32::new(1),
            steps: AtomicU64::new(0),
            stepping_us: AtomicU64::new(0),
            effort,
        }
    }

    /// Lets the island step.
    pub fn go(&self) {
        self.going.store(true, Ordering::Relaxed);
    }

    /// Lets it do errands only.
    pub fn halt(&self) {
        self.going.store(false, Ordering::Relaxed);
    }

    /// Whether it may step.
    pub fn is_going(&self) -> bool {
        self.going.load(Ordering::Relaxed)
    }

    /// Ends the thread at the next boundary.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Says that something is in the island's queue.
    pub(super) fn asked(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Whether something was put there since the island last looked.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// The island looks into its queue.
    pub(super) fn looked(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// Says how many tokens the swarm has trained, which the learning rate depends on.
    pub fn learn_at(&self, tokens_trained: u64) {
        self.tokens_trained.store(tokens_trained, Ordering::Relaxed);
    }

    pub(super) fn tokens_trained(&self) -> u64 {
        self.tokens_trained.load(Ordering::Relaxed)
    }

    /// Says after how many steps the driver wants to hear of them: every word of the island wakes
    /// the driver, which takes the core from whoever has it.
    pub fn report_after(&self, steps: u32) {
        self.report_after.store(steps, Ordering::Relaxed);
    }

    pub(super) fn reports_after(&self) -> u32 {
        self.report_after.load(Ordering::Relaxed)
    }

    pub(super) fn stepped(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.stepping_us.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn effort(&self) -> Effort {
        self.effort
    }

    /// Steps of this life.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Time spent in them.
    pub fn stepping(&self) -> Duration {
        Duration::from_micros(self.stepping_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_makes_up_the_share() {
        let step = Duration::from_millis(100);
        assert_eq!(Effort::Full.rest(step), Duration::ZERO);
        assert_eq!(Effort::Share(0.25).rest(step), Duration::from_millis(300));
        assert_eq!(Effort::Step(Duration::from_millis(150)).rest(step), Duration::from_millis(50));
        assert_eq!(Effort::Step(Duration::from_millis(50)).rest(step), Duration::ZERO);
    }
}
