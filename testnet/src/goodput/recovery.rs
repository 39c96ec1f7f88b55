//! The exponentiated Weibull distribution of recovery times.

use atoll_protocol::rng::Rng;

/// A recovery time: `P(time <= t) = (1 - exp(-(t / scale)^shape))^power`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recovery {
    scale: f64,
    shape: f64,
    power: f64,
}

impl Recovery {
    /// The distribution of this shape and power whose mean is `mean` seconds.
    pub fn with_mean(mean: f64, shape: f64, power: f64) -> Self {
        let unit = Self { scale: 1.0, shape, power };
        // There is no closed form: the mean of the quantiles is the mean.
        let quantiles = (0..QUANTILES)
            .map(|index| unit.quantile((f64::from(index) + 0.5) / f64::from(QUANTILES)));
        let unit_mean = quantiles.sum::<f64>() / f64::from(QUANTILES);
        Self { scale: mean / unit_mean, ..unit }
    }

    /// The time that is not passed in a share `u` of all cases, in seconds.
    pub fn quantile(&self, u: f64) -> f64 {
        let base = 1.0 - u.powf(1.0 / self.power);
        self.scale * (-base.ln()).powf(1.0 / self.shape)
    }

    /// One recovery, in seconds.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        self.quantile(uniform(rng))
    }
}

/// The time until the next of many rare events, in seconds.
pub(super) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * uniform(rng).ln()
}

/// A number between 0 and 1, never either.
fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

const QUANTILES: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(count: u32, mut draw: impl FnMut() -> f64) -> f64 {
        (0..count).map(|_| draw()).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn shape_one_and_power_two_is_known_in_closed_form() {
        // The mean of the larger of two exponential times is one and a half of theirs.
        let recovery = Recovery::with_mean(150.0, 1.0, 2.0);
        assert!((recovery.scale / 100.0 - 1.0).abs() < 1e-3, "{recovery:?}");
        let median = -100.0 * (1.0 - 0.5f64.sqrt()).ln();
        assert!((recovery.quantile(0.5) / median - 1.0).abs() < 1e-3);
    }

    #[test]
    fn draws_have_the_mean_that_was_asked_for() {
        let mut rng = Rng::new(3);
        for (shape, power) in [(0.8, 2.0), (1.0, 1.0), (2.0, 0.5)] {
            let recovery = Recovery::with_mean(76.0, shape, power);
            let mean = mean_of(200_000, || recovery.draw(&mut rng));
            assert!((mean / 76.0 - 1.0).abs() < 0.02, "{shape} {power}: {mean}");
        }
        let mean = mean_of(200_000, || exponential(13.0, &mut rng));
        assert!((mean / 13.0 - 1.0).abs() < 0.02, "{mean}");
    }
}
