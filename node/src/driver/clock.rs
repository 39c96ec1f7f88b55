//! The only place of the driver that reads a clock.

use std::time::{Duration, Instant};

use atoll_protocol::time::Time;

/// Time since the driver started, as the engine counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { began: Instant::now() }
    }

    pub(super) fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// When the clock will show `time`, rounded up: never early, or the engine is asked twice.
    pub(super) fn instant(&self, time: Time) -> Instant {
        self.began + Duration::from_millis(time.0.min(FAR_MS)) + Duration::from_millis(1)
    }

    /// Later than anything that matters.
    pub(super) fn far(&self) -> Instant {
        Instant::now() + Duration::from_millis(FAR_MS)
    }
}

const FAR_MS: u64 = 1000 * 60 * 60 * 24 * 365;
