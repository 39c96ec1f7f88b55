//! Between a model's one parameter vector and the slices of its fragments.

use atoll_protocol::fragment::{Fragment, FragmentMap};
use atoll_protocol::genesis::Genesis;

/// Where each tensor lies when all are laid one after another in name order.
#[derive(Clone, Debug)]
pub struct Layout {
    starts: Vec<usize>,
    elements: usize,
}

impl Layout {
    /// The layout of a genesis' tensors.
    pub fn new(genesis: &Genesis) -> Self {
        let mut elements = 0;
        let starts = genesis.tensors.iter().map(|tensor| {
            let start = elements;
            elements += tensor.elements();
            start
        });
        let starts = starts.collect();
        Self { starts, elements }
    }

    /// Parameters of the whole model.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The initial parameters of the whole model.
    pub fn initial(&self, genesis: &Genesis, map: &FragmentMap) -> Vec<f32> {
        let mut params = vec![0.0; self.elements];
        for fragment in map.fragments() {
            self.scatter(fragment, &genesis.initial(fragment), &mut params);
        }
        params
    }

    /// A fragment's part of the model's parameters.
    pub fn gather(&self, fragment: &Fragment, params: &[f32]) -> Vec<f32> {
        let mut part = Vec::with_capacity(fragment.elements);
        for piece in &fragment.pieces {
            part.extend_from_slice(&params[self.starts[piece.tensor]..][..piece.len]);
        }
        part
    }

    /// Puts a fragment's part into the model's parameters.
    pub fn scatter(&self, fragment: &Fragment, part: &[f32], params: &mut [f32]) {
        for piece in &fragment.pieces {
            params[self.starts[piece.tensor]..][..piece.len]
                .copy_from_slice(&part[piece.start..][..piece.len]);
        }
    }
}
