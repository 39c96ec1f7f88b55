//! How long things take when chips fail.

use serde::Serialize;

use super::recovery::Recovery;

/// How long things take when chips fail.
///
/// The published study names these quantities and not their values. Ours were chosen so that its
/// two rows without islands come out (ten figures); the rows with islands follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// A job that cannot change its size stands until the failed chip is replaced, the job is
    /// started again and the lost steps are repeated: the mean, in seconds.
    pub restart_seconds: f64,
    /// An elastic job stands for so long to go on without a slice.
    pub downscale_seconds: f64,
    /// An elastic job stands for so long to take slices in.
    pub upscale_seconds: f64,
    /// It takes slices in at most once in so long.
    pub upscale_every_seconds: f64,
    /// A slice is away for so long, the mean.
    pub return_seconds: f64,
    /// Chips that a failure takes away: those of a slice.
    pub slice_chips: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            restart_seconds: 76.0,
            downscale_seconds: 17.0,
            upscale_seconds: 15.0,
            upscale_every_seconds: 240.0,
            return_seconds: 300.0,
            slice_chips: 64.0,
        }
    }
}

/// [`Times`] with their distributions, which take a moment to find.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The means.
    pub times: Times,
    /// When a job of fixed size trains again.
    pub restart: Recovery,
    /// When a slice is back.
    pub slice_returns: Recovery,
}

impl Pace {
    /// The distributions of `times`.
    pub fn new(times: Times) -> Self {
        let recovery = |mean| Recovery::with_mean(mean, SHAPE, POWER);
        let (restart, slice_returns) =
            (recovery(times.restart_seconds), recovery(times.return_seconds));
        Self { times, restart, slice_returns }
    }
}

/// A long tail, and hardly anything at once. Goodput depends on the means alone.
const SHAPE: f64 = 0.8;
const POWER: f64 = 2.0;
