//! How a cut becomes one pseudo-gradient, and that a new version.

use serde::{Deserialize, Serialize};

/// The outer optimiser: Nesterov SGD on merged pseudo-gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outer {
    /// Outer learning rate (eta).
    ///
    /// Default 1.0: a version is the mean of what the islands reached, plus momentum.
    pub learning_rate: f32,
    /// Outer momentum (mu).
    ///
    /// Default 0.3, the best measured at H = 24; above 0.5 it over-drives with a short H.
    pub momentum: f32,
}

impl Default for Outer {
    fn default() -> Self {
        Self { learning_rate: 1.0, momentum: 0.3 }
    }
}

/// How a cut becomes one pseudo-gradient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// The rule.
    ///
    /// Default `mean`: the outer optimiser's defaults were measured with it.
    pub rule: MergeRule,
    /// A contribution's weight is at most this many times the cut's median tokens.
    ///
    /// Default 4: islands of mixed speed count in full, a claimed token count does not.
    pub weight_cap: u32,
    /// A contribution's norm is clipped to this multiple of the cut's median norm.
    ///
    /// Default 3.0: honest contributions to one round differ by less.
    pub clip: f32,
    /// Largest norm a payload may have to be admitted at all.
    ///
    /// Default 1000: more than 24 steps at learning rate 1e-3 can move a billion parameters.
    pub norm_max: f32,
}

impl Default for Merge {
    fn default() -> Self {
        Self { rule: MergeRule::Mean, weight_cap: 4, clip: 3.0, norm_max: 1000.0 }
    }
}

/// The rule that merges a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeRule {
    /// Token-weighted mean.
    Mean,
    /// Radial-directional averaging for matrices, mean for the rest.
    Rda,
    /// Mean of each element without its extremes.
    TrimmedMean,
    /// Mean around a robust centre, with distances clipped.
    CenteredClip,
}
