//! Training on a plain CPU: our own forward and backward pass over the flat parameters.
//!
//! Threads share nothing but the parameters: each takes its part of the sequences through the
//! whole model, with products that stay in one thread, and adds to a gradient of its own. Results
//! depend on the machine and on the number of threads, never on timing.

mod backward;
pub mod decoder;
pub mod error;
mod forward;
pub mod gradients;
mod model;
pub mod optimiser;
mod threads;
mod workspace;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::error::CpuError;
use self::gradients::Gradients;
use self::model::Model;
use self::threads::Threads;
use self::workspace::Workspace;
use super::layout::Layout;
use super::shape::Shape;

/// A Llama-architecture decoder that learns from sequences of one length.
///
/// All memory is taken at the start. It does not hold the parameters: those are lent to it.
#[derive(Debug)]
pub struct Llama {
    model: Model,
    shares: Vec<Share>,
    gradients: Gradients,
}

impl Llama {
    /// A decoder of this shape for sequences of `sequence` tokens, on so many threads.
    pub fn new(
        shape: Shape,
        layout: &Layout,
        sequence: usize,
        threads: usize,
    ) -> Result<Self, CpuError> {
        let model = Model::new(shape, layout, sequence)?;
        let threads = Arc::new(Threads::new(threads)?);
        let share = |_| Share { workspace: Workspace::new(&model), loss: 0.0 };
        let shares = (0..threads.count()).map(share).collect();
        Ok(Self { model, shares, gradients: Gradients::new(layout.elements(), threads) })
    }

    /// Tokens from which one sequence learns; it is one token longer, the last to be foretold.
    pub fn sequence(&self) -> usize {
        self.model.sequence
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.shares.len()
    }

    /// Adds the gradient of these sequences to [`Llama::gradients`] and returns their mean loss in
    /// nats per token.
    ///
    /// Sequences stand one after another, each [`Llama::sequence`] tokens and one more long. A step
    /// may call this several times: every token counts the same.
    ///
    /// # Panics
    /// If there are no or no whole sequences, a token is outside the vocabulary, or the parameters
    /// are not as many as the layout's.
    pub fn gradient(&mut self, parameters: &[f32], tokens: &[u32]) -> f32 {
        let counts = self.check(parameters, tokens);
        let (model, shares) = (&self.model, &mut self.shares);
        let (threads, parts) = self.gradients.parts();
        let mut work = assign(shares, parts, tokens, &counts, model.sequence + 1);
        threads.run(&mut work, |(share, gradient, tokens)| {
            share.loss = 0.0;
            for piece in tokens.chunks(share.workspace.sequences * (model.sequence + 1)) {
                share.workspace.take(piece, model.sequence);
                share.loss += model.head_loss(parameters, &mut share.workspace, Some(gradient));
                model.backward(parameters, &mut share.workspace, gradient);
            }
        });
        let learned = tokens.len() / (model.sequence + 1) * model.sequence;
        let total: f64 = self.shares.iter().map(|share| share.loss).sum();
        self.gradients.learned(learned, total.is_finite());
        narrow(total / learned as f64)
    }

    /// The mean loss of these sequences in nats per token, without learning from them.
    ///
    /// # Panics
    /// As [`Llama::gradient`].
    pub fn loss(&mut self, parameters: &[f32], tokens: &[u32]) -> f64 {
        let counts = self.check(parameters, tokens);
        let (model, shares) = (&self.model, &mut self.shares);
        let (threads, parts) = self.gradients.parts();
        let mut work = assign(shares, parts, tokens, &counts, model.sequence + 1);
        threads.run(&mut work, |(share, _, tokens)| {
            share.loss = 0.0;
            for piece in tokens.chunks(share.workspace.sequences * (model.sequence + 1)) {
                share.workspace.take(piece, model.sequence);
                share.loss += model.head_loss(parameters, &mut share.workspace, None);
            }
        });
        let total: f64 = self.shares.iter().map(|share| share.loss).sum();
        total / (tokens.len() / (model.sequence + 1) * model.sequence) as f64
    }

    /// What the optimiser takes its step with.
    pub fn gradients(&mut self) -> &mut Gradients {
        &mut self.gradients
    }

    /// How many sequences each thread takes.
    fn check(&self, parameters: &[f32], tokens: &[u32]) -> Vec<usize> {
        let (stride, threads) = (self.model.sequence + 1, self.shares.len());
        assert_eq!(parameters.len(), self.gradients.elements(), "parameters of another layout");
        assert!(!tokens.is_empty() && tokens.len().is_multiple_of(stride), "no whole sequences");
        let sequences = tokens.len() / stride;
        (0..threads)
            .map(|index| sequences / threads + usize::from(index < sequences % threads))
            .collect()
    }
}

/// What one thread works with.
#[derive(Debug)]
struct Share {
    workspace: Workspace,
    loss: f64,
}

type Work<'a> = (&'a mut Share, &'a mut Vec<f32>, &'a [u32]);

fn assign<'a>(
    shares: &'a mut [Share],
    parts: &'a mut [Vec<f32>],
    mut tokens: &'a [u32],
    counts: &[usize],
    stride: usize,
) -> Vec<Work<'a>> {
    let threads = shares.iter_mut().zip(parts).zip(counts);
    threads
        .map(|((share, gradient), count)| {
            let (mine, rest) = tokens.split_at(count * stride);
            tokens = rest;
            (share, gradient, mine)
        })
        .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}
