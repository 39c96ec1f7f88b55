//! When somebody who may know of peers is asked again.

use std::time::{Duration, Instant};

/// One that is asked now and then: quickly at first and while we are alone, later seldom.
#[derive(Debug)]
pub(in super::super) struct Asking {
    due: Instant,
    gap: Duration,
}

impl Asking {
    /// Is asked at once.
    pub(in super::super) fn new(now: Instant) -> Self {
        Self { due: now, gap: GAP_FIRST }
    }

    /// Whether to ask now; if so, the next time is later.
    pub(in super::super) fn is_due(&mut self, alone: bool, now: Instant) -> bool {
        if alone && self.gap > GAP_ALONE {
            // Everybody is gone: begin anew.
            *self = Self { due: self.due.min(now + GAP_FIRST), gap: GAP_FIRST };
        }
        if now < self.due {
            return false;
        }
        self.due = now + self.gap;
        self.gap = (self.gap * 2).min(if alone { GAP_ALONE } else { GAP_MAX });
        true
    }
}

/// Who comes together with us may not be known yet when we ask for the first time.
const GAP_FIRST: Duration = Duration::from_millis(400);
const GAP_ALONE: Duration = Duration::from_secs(5);
const GAP_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    /// When, in milliseconds, it is asked within `for_ms`, looked at ten times a second.
    fn asked(asking: &mut Asking, begin: Instant, for_ms: u64, alone: bool) -> Vec<u64> {
        let at = |ms| begin + Duration::from_millis(ms);
        (0..for_ms).step_by(100).filter(|ms| asking.is_due(alone, at(*ms))).collect()
    }

    #[test]
    fn who_is_alone_asks_quickly_at_first_and_then_steadily() {
        let begin = Instant::now();
        let times = asked(&mut Asking::new(begin), begin, 23_000, true);
        assert_eq!(times, [0, 400, 1_200, 2_800, 6_000, 11_000, 16_000, 21_000]);
    }

    #[test]
    fn who_has_peers_asks_ever_more_seldom_and_begins_anew_without_them() {
        let begin = Instant::now();
        let mut asking = Asking::new(begin);
        let times = asked(&mut asking, begin, 60_000, false);
        assert_eq!(times, [0, 400, 1_200, 2_800, 6_000, 12_400, 25_200, 50_800]);
        let later = begin + Duration::from_secs(60);
        assert_eq!(asked(&mut asking, later, 2_000, true), [400, 800, 1_600]);
    }
}
