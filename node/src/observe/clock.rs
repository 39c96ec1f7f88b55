//! Moments as text. The clock is passed in, so that tests know what time it is.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What time it is.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that shows what `now` gives.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present moment.
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// The present moment as RFC 3339.
    pub fn text(&self) -> String {
        rfc3339(self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.text())
    }
}

/// `2026-11-16T20:08:44.123Z`. A moment before 1970 is shown as 1970.
pub fn rfc3339(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, milliseconds) = (since.as_secs(), since.subsec_millis());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The Gregorian date of a day since 1970, counted in years that begin in March, so that the leap
/// day is the last of its year (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_have_their_date() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_794_859_724_007, "2026-11-16T20:08:44.007Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn days_follow_one_another() {
        let mut before = date(0);
        for day in 1..60_000 {
            let now = date(day);
            let same_month = (before.0, before.1, before.2 + 1);
            let next =
                if before.1 == 12 { (before.0 + 1, 1, 1) } else { (before.0, before.1 + 1, 1) };
            assert!(now == same_month || now == next, "{before:?} then {now:?}");
            before = now;
        }
        assert_eq!(before, (2134, 4, 10));
    }
}
