//! A node's own clock: it starts anywhere, runs a little wrong, and never goes back.

use atoll_protocol::time::Time;

/// Turns true time into a node's time and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    since: Time,
    local: Time,
    permille: u32,
}

impl Clock {
    /// A clock that shows `local` at `now` and runs at `permille` thousandths of true speed.
    pub(super) fn new(now: Time, local: Time, permille: u32) -> Self {
        Self { since: now, local, permille: permille.max(1) }
    }

    /// What it shows at `now`.
    pub(super) fn read(&self, now: Time) -> Time {
        Time(self.local.0 + now.since(self.since).0 * u64::from(self.permille) / 1000)
    }

    /// The first moment at which it shows `local` or more.
    pub(super) fn when(&self, local: Time) -> Time {
        let span = local.since(self.local).0;
        Time(self.since.0 + span.saturating_mul(1000).div_ceil(u64::from(self.permille)))
    }

    /// Changes its speed from `now` on.
    pub(super) fn set_speed(&mut self, now: Time, permille: u32) {
        *self = Self::new(now, self.read(now), permille);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_met_and_time_never_goes_back() {
        for permille in [900, 1000, 1037] {
            let mut clock = Clock::new(Time(50), Time(7000), permille);
            for local in 7000..8000 {
                let when = clock.when(Time(local));
                assert!(clock.read(when) >= Time(local));
                assert!(when == Time(50) || clock.read(Time(when.0 - 1)) < Time(local));
            }
            let before = clock.read(Time(777));
            clock.set_speed(Time(777), 1100);
            assert_eq!(clock.read(Time(777)), before);
        }
    }
}
