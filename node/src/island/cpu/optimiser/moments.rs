//! What the optimiser remembers.

use crate::island::layout::Layout;

/// What the optimiser remembers, laid out as the parameters are.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// AdamW's first moment; for Muon's matrices the momentum.
    pub first: Vec<f32>,
    /// AdamW's second moment; zero for Muon's matrices.
    pub second: Vec<f32>,
    /// Steps that each tensor's moments have seen, in name order; zero means empty.
    pub steps: Vec<u64>,
}

impl Moments {
    /// Moments that have seen nothing.
    pub fn empty(layout: &Layout) -> Self {
        let elements = layout.elements();
        Self {
            first: vec![0.0; elements],
            second: vec![0.0; elements],
            steps: vec![0; layout.tensors().len()],
        }
    }
}
