//! AdamW for a gradient that came over the network: the node's kernel with the node's settings.
//!
//! The node's own optimiser takes its gradients only from the node's own model, so a rival that
//! averages them in between needs this small one.

use std::ops::Range;

use atoll_kernels::adamw::{AdamW, square_norm};
use atoll_node::island::layout::Layout;
use atoll_node::island::settings::Settings;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atoll_node::island::Island;
    use atoll_node::island::cpu::Llama;
    use atoll_node::island::data::{Dataset, Feed, Source, Tokenizer};
    use atoll_node::island::device::DeviceChoice;
    use atoll_node::island::learner::{Choices, Learner};
    use atoll_node::island::precision::Precision;
    use atoll_node::island::shape::Shape;

    use super::*;
    use crate::race::genesis;
    use crate::sim;

    #[test]
    fn alone_it_steps_as_a_node_does() {
        let mut genesis = genesis::of("nano", 1, 4, "int4").unwrap();
        genesis.data.sequence = 16;
        let (layout, node) = (Layout::new(&genesis), sim::node_id(1, 0));
        let source = Source::Generated { seed: 1 };
        let folder = tempfile::tempdir().unwrap();
        let open = Dataset::open(&source, Tokenizer::byte(), 256, folder.path(), &mut |_| ());
        let dataset = Arc::new(open.unwrap());
        let device = DeviceChoice::Cpu.resolve().unwrap();
        let choices = Choices { device, threads: 1, accumulate: 1, precision: Precision::F32 };
        let mut parameters = layout.initial(&genesis);
        let mut learner =
            Learner::new(&genesis, &node, &dataset, &choices, parameters.clone()).unwrap();
        let shape = Shape::of(&genesis.model).unwrap();
        let mut llama = Llama::new(shape, &layout, 16, 1).unwrap();
        let mut feed = Feed::new(&dataset, &genesis.run_id(), &node, 16, 1).unwrap();
        let (mut inner, mut tokens) = (Inner::new(&layout), Vec::new());
        for _ in 0..12 {
            learner.step(1e-3).unwrap();
            feed.next(&mut tokens).unwrap();
            llama.gradient(&parameters, &tokens);
            let mut gradient = llama.gradients().mean();
            llama.gradients().clear();
            inner.step(&mut parameters, &mut gradient, 1e-3);
        }
        let theirs = learner.parameters().unwrap();
        let apart = |one: &[f32], other: &[f32]| {
            let pairs = one.iter().zip(other);
            pairs.map(|(one, other)| f64::from(one - other).powi(2)).sum::<f64>().sqrt()
        };
        let moved = apart(&theirs, &layout.initial(&genesis));
        assert!(apart(&theirs, &parameters) < moved / 1000.0, "{moved}");
    }
}
