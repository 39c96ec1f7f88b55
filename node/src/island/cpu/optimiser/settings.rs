//! What an island may choose about its inner optimiser.

/// What an island may choose about its inner optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Which optimiser treats matrices.
    pub method: Method,
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
    /// Decay of Muon's momentum.
    pub momentum: f32,
    /// Steps over which the learning rate of a tensor rises after its moments were empty.
    pub warm_up: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            method: Method::AdamW,
            first_decay: 0.9,
            second_decay: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
            clip: 1.0,
            momentum: 0.95,
            warm_up: 10,
        }
    }
}

/// Which optimiser treats matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// AdamW treats everything.
    AdamW,
    /// Muon treats matrices, AdamW embeddings and vectors.
    Muon,
}
