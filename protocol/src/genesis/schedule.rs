//! The inner learning rate as a function of swarm tokens merged.

use serde::{Deserialize, Serialize};

use super::InnerOptimiser;

/// The inner learning rate as a function of swarm tokens merged.
///
/// Tokens merged are the same on every replica and do not depend on how many islands there
/// are, so nobody has to know a step count for the whole swarm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Highest learning rate, at the end of the warm-up.
    ///
    /// Default 1e-3: the upper end of what suits AdamW at up to 50M parameters. With Muon 5e-3.
    pub peak: f32,
    /// Tokens over which the rate rises to its peak.
    ///
    /// Default 1M, a hundredth of the run.
    pub warmup_tokens: u64,
    /// Tokens after which the rate stays at its floor.
    ///
    /// Default 100M: an evening for a few small islands.
    pub total_tokens: u64,
    /// The floor, in percent of the peak.
    ///
    /// Default 10: a run that goes on past its plan still learns.
    pub floor_percent: u32,
    /// How the rate falls from the peak to the floor.
    ///
    /// Default cosine.
    pub shape: ScheduleShape,
}

impl Schedule {
    /// The learning rate once the swarm has merged `tokens`.
    ///
    /// The warm-up begins at a tenth of the peak, not at zero: no tokens are merged before the
    /// first round closes, and a rate of zero would leave that round nothing to merge.
    pub fn learning_rate(&self, tokens: u64) -> f32 {
        let share = if tokens < self.warmup_tokens {
            WARMUP_START + (1.0 - WARMUP_START) * (tokens as f64 / self.warmup_tokens as f64)
        } else {
            let floor = f64::from(self.floor_percent) / 100.0;
            floor + (1.0 - floor) * self.fall(tokens)
        };
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let rate = (f64::from(self.peak) * share) as f32;
        rate
    }

    /// How much of the way from floor to peak is left, from 1 to 0.
    fn fall(&self, tokens: u64) -> f64 {
        if self.shape == ScheduleShape::Constant {
            return 1.0;
        }
        if tokens >= self.total_tokens {
            return 0.0;
        }
        let length = self.total_tokens.saturating_sub(self.warmup_tokens);
        let done = tokens.saturating_sub(self.warmup_tokens) as f64 / length as f64;
        match self.shape {
            ScheduleShape::Cosine => {
                // (1 + cos(pi x)) / 2 is the square of cos(pi x / 2).
                let cosine = quarter_cosine(done);
                cosine * cosine
            }
            ScheduleShape::Linear | ScheduleShape::Constant => 1.0 - done,
        }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            peak: InnerOptimiser::AdamW.peak(),
            warmup_tokens: 1_000_000,
            total_tokens: 100_000_000,
            floor_percent: 10,
            shape: ScheduleShape::Cosine,
        }
    }
}

/// How the learning rate falls from the peak to the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleShape {
    /// Half a cosine wave.
    Cosine,
    /// A straight line.
    Linear,
    /// Not at all: the peak for ever, whatever the floor.
    Constant,
}

/// `cos(pi x / 2)` for `x` in `0..=1` by its series, because a platform's own cosine may differ
/// in the last bit; the first term left out is below 1e-9.
fn quarter_cosine(x: f64) -> f64 {
    let square = x * x * (std::f64::consts::FRAC_PI_2 * std::f64::consts::FRAC_PI_2);
    let mut sum = 1.0;
    for divisor in [182.0, 132.0, 90.0, 56.0, 30.0, 12.0, 2.0] {
        sum = 1.0 - square / divisor * sum;
    }
    sum
}

/// Share of the peak at which the warm-up begins.
const WARMUP_START: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_to_the_peak_and_falls_to_the_floor() {
        for shape in [ScheduleShape::Cosine, ScheduleShape::Linear] {
            let schedule = Schedule { shape, ..Schedule::default() };
            let expected = [(0, 1e-4), (1_000_000, 1e-3), (100_000_000, 1e-4), (u64::MAX, 1e-4)];
            for (tokens, rate) in expected {
                assert!((schedule.learning_rate(tokens) - rate).abs() < 1e-10, "{tokens}");
            }
            let rates: Vec<f32> =
                (1..=100).map(|n| schedule.learning_rate(n * 1_000_000)).collect();
            assert!(rates.is_sorted_by(|earlier, later| earlier > later), "{shape:?}");
            let middle = schedule.learning_rate(50_500_000);
            assert!((middle - 5.5e-4).abs() < 1e-9, "{middle}");
        }
    }

    #[test]
    fn constant_stays_at_the_peak() {
        let schedule = Schedule { shape: ScheduleShape::Constant, ..Schedule::default() };
        assert_eq!(schedule.learning_rate(u64::MAX), 1e-3);
    }

    #[test]
    fn the_series_is_the_cosine() {
        // cos(pi/8), cos(pi/4) and cos(3 pi/8), from tables.
        for (x, cosine) in [
            (0.25, 0.923_879_532_511),
            (0.5, std::f64::consts::FRAC_1_SQRT_2),
            (0.75, 0.382_683_432_365),
        ] {
            assert!((quarter_cosine(x) - cosine).abs() < 1e-9, "{x}");
        }
        assert!(quarter_cosine(1.0).abs() < 1e-9);
    }

    #[test]
    fn odd_schedules_stay_finite() {
        for (warmup_tokens, total_tokens) in [(0, 1), (5, 5), (9, 3), (0, 0)] {
            let schedule = Schedule { warmup_tokens, total_tokens, ..Schedule::default() };
            assert!((0..12).all(|n| schedule.learning_rate(n).is_finite()));
        }
    }
}
