//! One piece of a step: some parameters, what belongs to them, and what is to be done.

use atoll_kernels::adamw::AdamW;
use atoll_kernels::multiplier::Multiplier;
use atoll_kernels::muon::Muon;

/// One piece of a step.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) parameters: &'a mut [f32],
    pub(super) first: &'a mut [f32],
    pub(super) second: &'a mut [f32],
    pub(super) gradients: Vec<&'a mut [f32]>,
    pub(super) rule: Rule,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Nothing,
    AdamW(AdamW),
    /// With the rows of the matrix.
    Muon(Muon, usize),
}

/// What one thread needs for Muon.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) values: Vec<f32>,
    pub(super) multiplier: Multiplier,
}

impl<'a> Job<'a> {
    /// Cuts the first `len` elements off, to be treated by `rule`.
    pub(super) fn split_off(&mut self, len: usize, rule: Rule) -> Self {
        Self {
            parameters: cut(&mut self.parameters, len),
            first: cut(&mut self.first, len),
            second: cut(&mut self.second, len),
            gradients: self.gradients.iter_mut().map(|part| cut(part, len)).collect(),
            rule,
        }
    }

    pub(super) fn run(&mut self, scratch: &mut Scratch) {
        let Self { parameters, first, second, gradients, rule } = self;
        match rule {
            Rule::Nothing => {}
            Rule::AdamW(step) => step.step(parameters, first, second, gradients),
            Rule::Muon(step, rows) => {
                let Scratch { values, multiplier } = scratch;
                step.step(parameters, *rows, first, gradients, values, multiplier);
            }
        }
    }
}

fn cut<'a>(from: &mut &'a mut [f32], len: usize) -> &'a mut [f32] {
    from.split_off_mut(..len).expect("the pieces of all tensors fill the layout")
}
