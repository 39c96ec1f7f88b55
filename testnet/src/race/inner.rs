//! AdamW for a gradient that came over the network: the node's kernel with the node's settings.
//!
//! The node's own optimiser takes its gradients only from the node's own model, so a rival that
//! averages them in between needs this small one.

use std::ops::Range;

use atoll_kernels::adamw::{AdamW, square_norm};
use atoll_node::island::cpu::optimiser::settings::Settings;
use atoll_node::island::layout::Layout;
use atoll_protocol::genesis::TensorKind;

/// AdamW and its moments.
#[derive(Debug)]
pub(super) struct Inner {
    settings: Settings,
    /// Where each tensor lies, and whether its weights decay.
    tensors: Vec<(Range<usize>, bool)>,
    first: Vec<f32>,
    second: Vec<f32>,
    steps: u64,
}

impl Inner {
    pub(super) fn new(layout: &Layout) -> Self {
        let place = |it: &atoll_node::island::layout::Place| {
            (it.range.clone(), it.kind != TensorKind::Vector)
        };
        let moments = vec![0.0; layout.elements()];
        Self {
            settings: Settings::default(),
            tensors: layout.tensors().iter().map(place).collect(),
            first: moments.clone(),
            second: moments,
            steps: 0,
        }
    }

    /// One step with a mean gradient, which is cleared.
    pub(super) fn step(&mut self, parameters: &mut [f32], gradient: &mut [f32], rate: f32) {
        self.steps += 1;
        let settings = &self.settings;
        #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
        let norm = square_norm(&[gradient]).sqrt() as f32;
        let clip = if norm > settings.clip { settings.clip / norm } else { 1.0 };
        let warm = (self.steps as f32 / settings.warm_up.max(1) as f32).min(1.0);
        for (range, decays) in &self.tensors {
            let rule = AdamW {
                learning_rate: rate * warm,
                first_decay: settings.first_decay,
                second_decay: settings.second_decay,
                epsilon: settings.epsilon,
                weight_decay: if *decays { settings.weight_decay } else { 0.0 },
                steps: self.steps,
                gradient_scale: clip,
            };
            rule.step(
                &mut parameters[range.clone()],
                &mut self.first[range.clone()],
                &mut self.second[range.clone()],
                &mut [&mut gradient[range.clone()]],
            );
        }
    }
}
