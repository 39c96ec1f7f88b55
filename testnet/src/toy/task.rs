//! The problem: a language, the model that learns it, and how well it has.

use atoll_protocol::genesis::TensorSpec;

use super::language::{Language, SYMBOLS};
use super::network;

/// A generated language and the model that is to learn it.
#[derive(Clone, Debug)]
pub struct Task {
    language: Language,
}

impl Task {
    /// The task of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { language: Language::new(seed) }
    }

    /// The model's tensors for a genesis, in name order.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        network::tensors()
    }

    /// Number of parameters of the model.
    pub fn parameters(&self) -> usize {
        network::PARAMETERS
    }

    /// What is learnt.
    pub fn language(&self) -> &Language {
        &self.language
    }

    /// The loss below which no parameters go: the language's entropy.
    pub fn floor(&self) -> f64 {
        self.language.entropy()
    }

    /// Held-out loss in nats of all tensors one after another, in name order.
    ///
    /// It is the exact expectation over every context and successor, each as frequent as in the
    /// mean of all shards, so it has no sampling noise at all.
    ///
    /// # Panics
    ///
    /// If `params` are not [`Task::parameters`] many.
    pub fn loss(&self, params: &[f32]) -> f64 {
        assert_eq!(params.len(), network::PARAMETERS, "parameters of another model");
        let mut loss = 0.0;
        for older in 0..SYMBOLS {
            for newer in 0..SYMBOLS {
                let pass = network::forward(params, older, newer);
                let mut of_context = f64::from(pass.sum).ln();
                for (logit, share) in pass.logits.iter().zip(self.language.successors(older, newer))
                {
                    of_context -= f64::from(*logit) * f64::from(*share);
                }
                loss += self.language.frequency(older, newer) * of_context;
            }
        }
        loss
    }
}
