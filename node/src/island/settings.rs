//! The numbers of the inner optimiser.

use atoll_protocol::genesis::{Inner, InnerOptimiser, TensorKind};

use super::layout::Place;

/// The numbers of the inner optimiser: those that the genesis says, and those that are the same in
/// every run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Which optimiser treats matrices.
    pub optimiser: InnerOptimiser,
    /// Decay of AdamW's first moment.
    pub first_decay: f32,
    /// Decay of AdamW's second moment.
    ///
    /// Default 0.95, usual for language models: steps are noisy and few.
    pub second_decay: f32,
    /// What AdamW adds to the root of the second moment.
    pub epsilon: f32,
    /// Weight decay of matrices and embeddings; norms have none.
    pub weight_decay: f32,
    /// Largest norm of a step's gradient; a longer one is shortened to it.
    pub clip: f32,
    /// Steps over which the learning rate of a tensor rises after its moments were empty.
    pub warm_up: u32,
}

impl Settings {
    /// The settings of a run.
    pub fn of(inner: &Inner) -> Self {
        Self {
            optimiser: inner.optimiser,
            first_decay: 0.9,
            second_decay: 0.95,
            epsilon: 1e-8,
            weight_decay: inner.weight_decay,
            clip: 1.0,
            warm_up: 10,
        }
    }

    /// What the learning rate of a tensor is multiplied by at its step of this number, counted from
    /// 1: moments of a few steps say little yet.
    pub fn warmth(&self, step: u64) -> f32 {
        (step as f32 / self.warm_up.max(1) as f32).min(1.0)
    }

    /// The decay of Muon's momentum, if Muon treats this tensor.
    pub fn muon_momentum(&self, place: &Place) -> Option<f32> {
        let matrix = place.kind == TensorKind::Matrix && place.shape.len() == 2;
        match self.optimiser {
            InnerOptimiser::Muon { momentum } if matrix => Some(momentum),
            InnerOptimiser::Muon { .. } | InnerOptimiser::AdamW => None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&Inner::default())
    }
}
