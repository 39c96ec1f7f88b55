//! The inner optimiser: what every island takes its steps with.

use serde::{Deserialize, Serialize};

/// The inner optimiser, at the rate of the schedule.
///
/// Nobody can check with what another island trained. It stands in the genesis because a rate
/// means something only together with the optimiser that it was found for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inner {
    /// Which one.
    ///
    /// Default AdamW: it trains on every device.
    pub optimiser: InnerOptimiser,
    /// Share of matrices and embeddings that one step at rate 1 would take away; vectors keep
    /// all of theirs.
    ///
    /// Default 0.1, usual for language models.
    pub weight_decay: f32,
}

impl Default for Inner {
    fn default() -> Self {
        Self { optimiser: InnerOptimiser::AdamW, weight_decay: 0.1 }
    }
}

/// Which optimiser treats matrices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum InnerOptimiser {
    /// AdamW treats everything.
    AdamW,
    /// Muon treats matrices, AdamW the rest, both at one rate: Muon's steps are scaled to the size
    /// that AdamW's usually have.
    Muon {
        /// Decay of its momentum.
        ///
        /// Default 0.95, its authors' choice.
        momentum: f32,
    },
}

impl InnerOptimiser {
    /// Muon with its default momentum.
    pub const fn muon() -> Self {
        Self::Muon { momentum: MUON_MOMENTUM }
    }

    /// What TOML calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AdamW => "adamw",
            Self::Muon { .. } => "muon",
        }
    }

    /// The highest learning rate of a run that does not say.
    ///
    /// Muon's is higher: 5e-3 is the low end of the rates that were as good as each other
    /// (docs/decisions/0007-how-well-it-learns.md), where AdamW's best was below.
    pub const fn peak(self) -> f32 {
        match self {
            Self::AdamW => 1e-3,
            Self::Muon { .. } => 5e-3,
        }
    }
}

/// Decay of Muon's momentum in a run that does not say.
pub(super) const MUON_MOMENTUM: f32 = 0.95;
